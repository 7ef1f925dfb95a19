//! What every reconcile needs.

use std::sync::Arc;

use etcd::{Connect, Pool, Target};
use kube::Client;
use kube::runtime::events::Recorder;

use crate::caches::Caches;

/// What every reconcile needs.
pub struct Context {
    /// The Kubernetes API.
    pub client: Client,
    /// What it said.
    pub caches: Caches,
    /// Opens streams to pods.
    pub connect: Arc<dyn Connect>,
    /// Connections to members.
    pub pool: Pool,
    /// Writes events.
    pub recorder: Recorder,
    /// Image that holds the agent.
    pub agent_image: String,
}

impl Context {
    /// A member, through the pool.
    pub fn member(&self, target: &Target) -> etcd::Member {
        self.pool.member(target, etcd::Security::Plain)
    }
}
