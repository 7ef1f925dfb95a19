//! How members are reached: at their addresses inside a cluster, through the API server outside.

use std::io;
use std::sync::Arc;

use etcd::{BoxFuture, BoxStream, Connect, DirectTcp, Target};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use crate::args::Reach;
use crate::descriptors;

/// A connection through the API server's port-forward.
struct PortForward {
    client: Client,
}

impl Connect for PortForward {
    fn connect<'a>(
        &'a self,
        target: &'a Target,
        port: u16,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &target.namespace);
            let mut forward = pods
                .portforward(&target.pod, &[port])
                .await
                .map_err(io::Error::other)?;
            let stream = forward
                .take_stream(port)
                .ok_or_else(|| io::Error::other("the port-forward has no such port"))?;
            let stream: BoxStream = Box::new(stream);
            Ok(stream)
        })
    }
}

/// The way that was asked for, for at most so many connections at once.
pub fn connector(reach: Reach, inside: bool, client: &Client) -> Arc<dyn Connect> {
    let way: Arc<dyn Connect> = match (reach, inside) {
        (Reach::Direct, _) | (Reach::Auto, true) => Arc::new(DirectTcp),
        (Reach::PortForward, _) | (Reach::Auto, false) => Arc::new(PortForward {
            client: client.clone(),
        }),
    };
    let most = descriptors::for_members(descriptors::most());
    Arc::new(descriptors::Bounded::new(way, most))
}
