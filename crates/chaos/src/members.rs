//! Where the members are, for clients and watchers. What cannot be read stays as it was, so that they go on while the
//! API server is away.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use api::{Plane, names};
use e2e::Cluster;
use k8s_openapi::api::core::v1::Pod;

use crate::dice::Dice;
use crate::login::Login;

/// How often the addresses are looked up.
const PERIOD: Duration = Duration::from_millis(300);

/// A pod and its address.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pod: String,
    pub(crate) address: String,
    /// What to present, and the name of the member; absent for plaintext.
    pub(crate) login: Option<(Login, String)>,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        (&self.pod, &self.address) == (&other.pod, &other.address)
    }
}

/// The members that have an address, ready or not.
#[derive(Clone, Default)]
pub(crate) struct Members(Arc<Mutex<Vec<Place>>>);

impl Members {
    /// Looks again and again.
    pub(crate) async fn keep_current(self, cluster: Cluster) {
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            ticks.tick().await;
            self.look(&cluster).await;
        }
    }

    /// Looks once.
    pub(crate) async fn look(&self, cluster: &Cluster) {
        let Ok(places) = places(cluster).await else {
            return;
        };
        *self.lock() = places;
    }

    pub(crate) fn all(&self) -> Vec<Place> {
        self.lock().clone()
    }

    /// One of them, another than `not` if there is one.
    pub(crate) fn pick(&self, dice: &mut Dice, not: Option<&Place>) -> Option<Place> {
        let all = self.lock();
        let others: Vec<&Place> = all.iter().filter(|place| Some(*place) != not).collect();
        let picked = others.get(dice.index(others.len())).copied();
        picked.or_else(|| all.first()).cloned()
    }

    /// Whether a pod still has this address.
    pub(crate) fn has(&self, place: &Place) -> bool {
        self.lock().contains(place)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the members are now.
pub(crate) async fn places(cluster: &Cluster) -> Result<Vec<Place>> {
    let pods = cluster.pods().await?;
    let locked = |pod: &Pod| e2e::secrets::transport(pod).client != Plane::Plain;
    let login = if pods.values().any(locked) {
        Some(Login::read(cluster).await?)
    } else {
        None
    };
    let namespace = &cluster.stage.namespace;
    let places = pods.into_iter().filter_map(|(name, pod)| {
        let login = login.clone().filter(|_| locked(&pod));
        let ordinal = names::ordinal(&cluster.name, &name)?;
        let host = names::member_host(&cluster.name, namespace, ordinal);
        Some(Place {
            address: pod.status.and_then(|status| status.pod_ip)?,
            login: login.map(|login| (login, host)),
            pod: name,
        })
    });
    Ok(places.collect())
}
