//! How a byte stream to a pod is opened. Inside the cluster that is plain TCP; outside it is a
//! port-forward, which the operator brings along as its own [`Connect`]. Nothing above this
//! file knows the difference.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Anything bytes can be read from and written to.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// An open stream, whatever carries it.
pub type BoxStream = Box<dyn ByteStream>;

/// The pod a stream leads to.
///
/// The address is part of it: a pod that comes back under its name with another address is
/// another target, and no connection of the old one is used for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// IP address of the pod, IPv4 or IPv6 without brackets.
    pub address: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.pod)
    }
}

/// Opens a byte stream to a port of a pod.
pub trait Connect: Send + Sync + 'static {
    /// Opens one stream. It need not watch the time: the caller has a deadline and drops
    /// the future when that has passed.
    fn connect<'a>(&'a self, target: &'a Target, port: u16)
    -> BoxFuture<'a, io::Result<BoxStream>>;
}

/// TCP to the pod's address.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectTcp;

impl Connect for DirectTcp {
    fn connect<'a>(
        &'a self,
        target: &'a Target,
        port: u16,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            // Only an address, never a name: a lookup could block, and could lead to another pod.
            let address: IpAddr = target.address.parse().map_err(|error| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{error}: {:?}", target.address),
                )
            })?;
            let stream = TcpStream::connect((address, port)).await?;
            stream.set_nodelay(true)?;
            let stream: BoxStream = Box::new(stream);
            Ok(stream)
        })
    }
}
