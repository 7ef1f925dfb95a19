//! Since when a pod has been missing that the StatefulSet controller should have created, and a node has been gone. Kubernetes
//! records that nowhere but in events, which go after an hour and which the operator may not read. Kept in memory between two looks; losing it makes
//! what rests on it happen later. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Observed, Process};

/// A pod that could not be created for so many seconds cannot be created: the controller tries again within two minutes at
/// the latest, and an admission webhook that is updated is back by then.
const PATIENCE: i64 = 300;

/// Since when what is missing, by ordinal: the operator's memory of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    pods: BTreeMap<u32, Timestamp>,
    nodes: BTreeMap<u32, (String, Timestamp)>,
}

impl Missing {
    /// The wall clock was set by so much.
    pub(crate) fn shift(&mut self, by: SignedDuration) {
        let nodes = self.nodes.values_mut().map(|(_, since)| since);
        for since in self.pods.values_mut().chain(nodes) {
            if let Ok(moved) = since.checked_add(by) {
                *since = moved;
            }
        }
    }

    /// Puts it into the picture. What is there again is forgotten.
    pub(crate) fn sort(&mut self, observed: &mut Observed) {
        let objects = &observed.objects;
        let wanted = objects.replicas.unwrap_or(0);
        // A controller that does not run counts as many as before: that no pod comes then is not the fault of any template.
        let noticed = objects.created.is_some_and(|created| created < wanted);
        let absent = |ordinal: &u32| noticed && !observed.pods.contains_key(ordinal);
        let before = &self.pods;
        let now = (0..wanted).filter(absent).map(|ordinal| {
            let since = before.get(&ordinal).copied().unwrap_or(observed.now);
            (ordinal, since)
        });
        let now: BTreeMap<u32, Timestamp> = now.collect();
        self.pods.clone_from(&now);
        observed.not_created = now;
        self.sort_nodes(observed);
    }

    /// A node that could not be asked for is neither gone nor back.
    fn sort_nodes(&mut self, observed: &mut Observed) {
        let (now, pods) = (observed.now, &observed.pods);
        let answers = |ordinal: &u32| {
            let pod = pods.get(ordinal);
            pod.is_some_and(|pod| pod.process != Process::Unknown)
        };
        self.nodes.retain(|ordinal, _| !answers(ordinal));
        for (ordinal, binding) in &mut observed.node_bindings {
            let known = self.nodes.remove(ordinal);
            let known = known.filter(|(node, _)| *node == binding.node);
            if binding.is_gone() {
                let since = known.map_or(now, |(_, since)| since);
                binding.gone_since = Some(since);
                self.nodes.insert(*ordinal, (binding.node.clone(), since));
            }
        }
    }
}

impl Observed {
    /// The StatefulSet controller runs, and has not been able to create the pod of this ordinal for longer than it ever takes.
    pub(crate) fn cannot_be_created(&self, ordinal: u32) -> bool {
        let since = self.not_created.get(&ordinal);
        let waited = since.map(|since| self.now.duration_since(*since).as_secs());
        waited.is_some_and(|waited| waited >= PATIENCE) && !self.pods.contains_key(&ordinal)
    }

    /// No pod could be created from this template, and it is not tried again.
    pub(crate) fn is_called_off(&self, template: &str) -> bool {
        self.cluster.latched.called_off.as_deref() == Some(template)
    }
}
