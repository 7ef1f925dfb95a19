//! Sockets to listen on. `[::]` takes IPv4 and IPv6 alike; where the kernel has no IPv6, it means every address of IPv4.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

/// Binds. A port that is taken is no reason to try the other family.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let any = address.is_ipv6() && address.ip().is_unspecified();
    match TcpListener::bind(address).await {
        Err(error) if any && error.kind() != io::ErrorKind::AddrInUse => {
            tracing::info!(%error, port = address.port(), "without IPv6: listening on IPv4 only");
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use tokio::net::TcpStream;

    use super::*;

    fn any() -> SocketAddr {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn without_ipv6_it_listens_on_ipv4() {
        hostile::without_ipv6(|| {
            block_on(async {
                let listener = bind(any()).await.unwrap();
                let address = listener.local_addr().unwrap();
                assert!(address.is_ipv4(), "{address}");
                TcpStream::connect((Ipv4Addr::LOCALHOST, address.port()))
                    .await
                    .unwrap();
            });
        });
    }

    #[test]
    fn a_port_that_is_taken_is_said_to_be() {
        block_on(async {
            let taken = bind(any()).await.unwrap();
            let again = bind(taken.local_addr().unwrap()).await.unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        });
    }

    /// One socket for both families, where there are both.
    #[test]
    fn with_ipv6_it_listens_on_both() {
        block_on(async {
            let listener = bind(any()).await.unwrap();
            let address = listener.local_addr().unwrap();
            TcpStream::connect((Ipv4Addr::LOCALHOST, address.port()))
                .await
                .unwrap();
            if address.is_ipv6() {
                TcpStream::connect((Ipv6Addr::LOCALHOST, address.port()))
                    .await
                    .unwrap();
            }
        });
    }
}
