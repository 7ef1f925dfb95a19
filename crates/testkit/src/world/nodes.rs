//! Nodes: pods run on them, volumes are tied to them, and they go, with or without a word.

use std::collections::BTreeMap;

use plan::observed::{NodeBinding, NodeState};

use crate::world::{Container, World};

impl World {
    /// How a node is.
    fn node(&self, name: &str) -> NodeState {
        self.nodes.get(name).copied().unwrap_or(NodeState::Ready)
    }

    /// Where a new pod runs: where its volume is, or anywhere; `None` while that node takes no pods.
    pub(super) fn schedule(&mut self, ordinal: u32) -> Option<String> {
        let taken = self.pods.values().filter(|pod| pod.node.is_some()).count();
        if self.places.is_some_and(|places| taken >= places) {
            return None;
        }
        let tied = self.claims.get(&ordinal).and_then(|c| c.node.clone());
        // A volume that is tied to nothing follows its pod.
        let tied = tied.filter(|node| !self.mobile || self.node(node) == NodeState::Ready);
        let node = tied.unwrap_or_else(|| self.fresh("node"));
        if self.node(&node) != NodeState::Ready {
            return None;
        }
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.node = Some(node.clone());
        }
        Some(node)
    }

    /// Pods that no node takes, and may by now.
    pub(super) fn run_scheduler(&mut self) {
        let waiting = self.pods.iter().filter(|(_, pod)| pod.node.is_none());
        let waiting: Vec<u32> = waiting.map(|(ordinal, _)| *ordinal).collect();
        for ordinal in waiting {
            let node = self.schedule(ordinal);
            if let Some(pod) = self.pods.get_mut(&ordinal) {
                pod.frozen = node.is_none();
                pod.node = node;
            }
        }
    }

    /// The node of a pod falls silent, or comes back.
    pub fn freeze(&mut self, ordinal: u32, frozen: bool) {
        let state = if frozen {
            NodeState::NotReady(self.now)
        } else {
            NodeState::Ready
        };
        self.set_node(ordinal, state);
    }

    /// The node of a pod gets into another state, and what runs on it with it.
    pub fn set_node(&mut self, ordinal: u32, state: NodeState) {
        let pod = self.pods.get(&ordinal).and_then(|pod| pod.node.clone());
        let claim = self.claims.get(&ordinal).and_then(|c| c.node.clone());
        let Some(node) = pod.or(claim) else {
            return;
        };
        self.nodes.insert(node.clone(), state);
        let dead = state != NodeState::Ready;
        let on_it = |pod: &&mut super::Pod| pod.node.as_ref() == Some(&node);
        for pod in self.pods.values_mut().filter(on_it) {
            pod.frozen = dead;
            if dead {
                pod.container = Container::Down;
            }
        }
        // What ran on a node that does not exist any more is collected.
        if state == NodeState::Deleted {
            self.pods.retain(|_, pod| pod.node.as_ref() != Some(&node));
        }
    }

    /// Kubernetes gives up a pod on a node that is gone, and its volume may be used elsewhere.
    pub fn collect(&mut self, ordinal: u32) {
        self.pods.remove(&ordinal);
    }

    /// The pod of a member that was removed goes; by force without a word from its node.
    pub(super) fn free(&mut self, ordinal: u32, force: bool) {
        if force {
            self.pods.remove(&ordinal);
        } else if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.terminating = true;
        }
    }

    /// What is known of the nodes of pods that do not respond.
    pub(super) fn observe_node_bindings(&self) -> BTreeMap<u32, NodeBinding> {
        let tied = self.claims.iter().filter_map(|(ordinal, claim)| {
            let pod = self.pods.get(ordinal);
            let runs = pod.and_then(|pod| pod.node.clone());
            let tied = claim.node.clone();
            let tied = tied.filter(|_| !self.zonal && !self.mobile);
            let node = runs.or(tied)?;
            let state = self.node(&node);
            let heard = pod.is_some_and(|pod| !matches!(pod.container, Container::Down));
            let elsewhere = Some(self.mobile);
            let binding = NodeBinding {
                node,
                state,
                elsewhere,
                gone_since: None,
            };
            (!heard).then_some((*ordinal, binding))
        });
        tied.collect()
    }
}
