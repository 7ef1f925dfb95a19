//! Admission: the API server asks here before it stores a new spec of an `EtcdCluster`. Thin: a review is read, what it needs
//! of other objects is looked up, [`plan::admit`] judges, and the answer is written.
//!
//! Every replica serves. The one that holds the lease also keeps the certificate, in a Secret of the operator's own namespace,
//! and tells the API server to trust it. Service, Secret and both webhook configurations bear one name.

mod answer;
mod certificate;
mod connections;
mod facts;
mod keep;
mod review;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tokio::sync::watch;

pub use answer::Answers;
pub use keep::{Keeper, Seen};
pub use server::{serve_on, server_config};

use crate::health::Health;
use crate::listen;
use crate::metrics::Metrics;

/// Where the webhook is found.
#[derive(Clone)]
pub struct Place {
    /// The Kubernetes API.
    pub client: Client,
    /// Name of the Service, the Secret and the two configurations.
    pub name: String,
    /// Namespace of the Service and the Secret.
    pub namespace: String,
}

impl Place {
    /// The name under which the API server dials.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// What the rest of the operator is told of admission.
#[derive(Clone)]
pub struct Told {
    /// Whether this replica is ready.
    pub health: Arc<Health>,
    /// What was counted.
    pub metrics: Arc<Metrics>,
}

/// Serves until the process ends, with whatever certificate the Secret holds. The Secret as it is seen is for the replica that
/// keeps it.
pub fn start(
    place: &Place,
    address: SocketAddr,
    told: &Told,
) -> (
    watch::Receiver<Seen<Secret>>,
    impl Future<Output = std::io::Result<()>> + Send + 'static,
) {
    told.health.await_admission("certificate");
    let (show, seen) = watch::channel(Seen::NotYet);
    let (offer, offered) = watch::channel(None);
    let follow = keep::follow_secret(place.clone(), show, offer, told.clone());
    let answers = Arc::new(Answers {
        client: place.client.clone(),
        metrics: Arc::clone(&told.metrics),
    });
    let serving = async move {
        let listener = listen::bind(address).await?;
        tokio::select! {
            served = serve_on(listener, offered, answers) => served,
            () = follow => Err(std::io::Error::other("the watch of the webhook's Secret ended")),
        }
    };
    (seen, serving)
}
