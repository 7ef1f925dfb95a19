//! A stream to a pod of a cluster whose pods this machine has no route to: one `kubectl port-forward` per stream.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll};

use etcd::{BoxFuture, BoxStream, Connect};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::cluster::Target;

/// Opens streams with kubectl.
pub(super) struct Forward {
    kubeconfig: PathBuf,
    path: OsString,
}

impl Forward {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            kubeconfig: target.kubeconfig.clone(),
            path: target.path.clone(),
        }
    }

    fn start(&self, pod: &etcd::Target, port: u16) -> io::Result<Child> {
        Command::new("kubectl")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", &self.path)
            .args(["port-forward", "--address", "127.0.0.1", "--namespace"])
            .args([
                &pod.namespace,
                &format!("pod/{}", pod.pod),
                &format!(":{port}"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }
}

impl Connect for Forward {
    fn connect<'a>(
        &'a self,
        target: &'a etcd::Target,
        port: u16,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let kubectl = Kubectl(self.start(target, port)?);
            let (kubectl, line) = tokio::task::spawn_blocking(|| first_line(kubectl))
                .await
                .map_err(io::Error::other)??;
            let port = parse_port(&line)
                .ok_or_else(|| io::Error::other(format!("kubectl forwards nothing: {line:?}")))?;
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            stream.set_nodelay(true)?;
            let stream: BoxStream = Box::new(Forwarded {
                stream,
                _kubectl: kubectl,
            });
            Ok(stream)
        })
    }
}

/// The pipe stays in place behind it: kubectl writes another line for every connection, and ends if it cannot.
fn first_line(mut kubectl: Kubectl) -> io::Result<(Kubectl, String)> {
    let mut line = String::new();
    if let Some(stdout) = &mut kubectl.0.stdout {
        // Byte by byte, so that nothing is read that would then be lost with the buffer.
        BufReader::with_capacity(1, stdout).read_line(&mut line)?;
    }
    Ok((kubectl, line))
}

/// `Forwarding from 127.0.0.1:41234 -> 2379` → 41234.
fn parse_port(line: &str) -> Option<u16> {
    let (address, _) = line.strip_prefix("Forwarding from ")?.split_once(" -> ")?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// Ends with the stream it carries.
struct Kubectl(Child);

impl Drop for Kubectl {
    fn drop(&mut self) {
        // It ends by itself when its pod goes.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

struct Forwarded {
    stream: TcpStream,
    _kubectl: Kubectl,
}

impl AsyncRead for Forwarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(ctx, buffer)
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_kubectls_own_words() {
        assert_eq!(
            parse_port("Forwarding from 127.0.0.1:41234 -> 2379\n"),
            Some(41234)
        );
        assert_eq!(parse_port("error: unable to forward"), None);
    }
}
