//! The nodes that members depend on.

use jiff::Timestamp;

use super::Observed;

/// The node that a member depends on: its pod runs there, or its volume is tied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBinding {
    /// Its name.
    pub node: String,
    /// Its state.
    pub state: NodeState,
    /// Whether the volume can be used on another existing node; `None` where that is not known. Asked only where the
    /// node is gone.
    pub elsewhere: Option<bool>,
    /// Since when the node has been gone, as far as this operator has seen.
    pub gone_since: Option<Timestamp>,
}

impl NodeBinding {
    /// The node is permanently gone, and the volume can be used on no other. A volume that can be is attached to
    /// the next pod, which Kubernetes creates once it has given up the one on this node.
    pub fn took_volume(&self) -> bool {
        self.is_gone() && self.elsewhere == Some(false)
    }

    /// The node is permanently gone.
    pub(crate) fn is_gone(&self) -> bool {
        match self.state {
            NodeState::Ready | NodeState::NotReady(_) => false,
            NodeState::OutOfService | NodeState::Deleted => true,
        }
    }

    /// The volume can be used on another node, and for so many seconds its pod has not left this one: it has had the time that a
    /// node gets.
    pub(crate) fn keeps_volume(&self, now: Timestamp, patience: i64) -> Option<Timestamp> {
        let since = self.gone_since.filter(|_| self.is_gone())?;
        let long = now.duration_since(since).as_secs() >= patience;
        (long && self.elsewhere == Some(true)).then_some(since)
    }
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Its kubelet reports.
    Ready,
    /// Its kubelet has not reported since.
    NotReady(Timestamp),
    /// It has the taint `node.kubernetes.io/out-of-service`.
    OutOfService,
    /// The node does not exist any more.
    Deleted,
}

impl Observed {
    /// The node of an ordinal is not known to be unable to start and stop pods. Nodes are read only where
    /// no member responds.
    pub fn is_on_a_live_node(&self, ordinal: u32) -> bool {
        let binding = self.node_bindings.get(&ordinal);
        binding.is_none_or(|binding| binding.state == NodeState::Ready)
    }
}
