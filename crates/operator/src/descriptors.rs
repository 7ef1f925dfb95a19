//! Descriptors: as many as the system allows, counted, and never all of them for members. Without one left the operator
//! could not even ask the API server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use etcd::{BoxFuture, BoxStream, Connect, Target};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Kept for the API server, the probes and the process itself.
const RESERVED: u64 = 256;
/// Connections to members where the limit is unknown.
const UNKNOWN: u64 = 4096;

/// Raises the limit to what the system allows; how many there may be.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of descriptors cannot be raised");
    }
    most()
}

/// How many there may be.
pub fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// How many there are.
pub fn count() -> Option<usize> {
    std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count)
}

/// How many connections to members may be open at once.
pub fn for_members(most: Option<u64>) -> usize {
    let most = most.unwrap_or(UNKNOWN);
    let share = most.saturating_sub(RESERVED).max(most / 2);
    usize::try_from(share)
        .unwrap_or(Semaphore::MAX_PERMITS)
        .min(Semaphore::MAX_PERMITS)
}

/// Opens at most so many streams at once; what is more is refused, not waited for.
pub struct Bounded {
    connect: Arc<dyn Connect>,
    permits: Arc<Semaphore>,
}

impl Bounded {
    /// At most so many through this.
    pub fn new(connect: Arc<dyn Connect>, most: usize) -> Self {
        Self {
            connect,
            permits: Arc::new(Semaphore::new(most)),
        }
    }
}

impl Connect for Bounded {
    fn connect<'a>(
        &'a self,
        target: &'a Target,
        port: u16,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let permit = Arc::clone(&self.permits)
                .try_acquire_owned()
                .map_err(|_none_left| {
                    io::Error::other("too many connections to members are open")
                })?;
            let stream = self.connect.connect(target, port).await?;
            let stream: BoxStream = Box::new(Counted {
                stream,
                _permit: permit,
            });
            Ok(stream)
        })
    }
}

/// A stream that counts until it is dropped.
struct Counted {
    stream: BoxStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(ctx, buffer)
    }
}

impl AsyncWrite for Counted {
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

    struct Pipes;

    impl Connect for Pipes {
        fn connect<'a>(&'a self, _: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
            let stream: BoxStream = Box::new(tokio::io::duplex(1).0);
            Box::pin(async move { Ok(stream) })
        }
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_are_refused_until_one_is_closed() {
        let bounded = Bounded::new(Arc::new(Pipes), 2);
        let target = Target {
            namespace: "prod".into(),
            pod: "db-0".into(),
            address: "127.0.0.1".into(),
        };
        let first = bounded.connect(&target, 1).await.unwrap();
        let _second = bounded.connect(&target, 1).await.unwrap();
        assert!(bounded.connect(&target, 1).await.is_err());
        drop(first);
        assert!(bounded.connect(&target, 1).await.is_ok());
    }

    #[test]
    fn members_get_what_is_not_reserved_and_never_less_than_half() {
        for (most, share) in [(Some(1024), 768), (Some(300), 150), (None, 3840)] {
            assert_eq!(for_members(most), share);
        }
    }

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let most = raise();
        assert_eq!(most, getrlimit(Resource::Nofile).maximum);
        assert!(count().is_some_and(|count| count > 0));
    }
}
