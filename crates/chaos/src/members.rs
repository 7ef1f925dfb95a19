//! Where the members are, for clients and watchers. What cannot be read stays as it was, so that they go on while the
//! API server is away.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use e2e::Cluster;

use crate::dice::Dice;

/// How often the addresses are looked up.
const PERIOD: Duration = Duration::from_millis(300);

/// A pod and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pod: String,
    pub(crate) address: String,
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
        let Ok(members) = cluster.members().await else {
            return;
        };
        let places = members.into_iter().map(|(pod, member)| Place {
            pod,
            address: member.target().address.clone(),
        });
        *self.lock() = places.collect();
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
