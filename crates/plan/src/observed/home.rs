//! Where members live.

use jiff::Timestamp;

use super::Observed;

/// The node that a member depends on: its pod runs there, or its volume is tied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its name.
    pub node: String,
    /// How it is.
    pub state: NodeState,
    /// Whether the volume can be used on another node that there is; `None` where that is not known. Asked for where the
    /// node is gone.
    pub elsewhere: Option<bool>,
}

impl Home {
    /// The node is gone for good, and nothing but it could use the volume. One that can be used elsewhere comes back with
    /// the next pod, which Kubernetes makes once it has given up the one on this node.
    pub fn took_volume(&self) -> bool {
        let gone = match self.state {
            NodeState::Fine | NodeState::Silent(_) => false,
            NodeState::OutOfService | NodeState::Deleted => true,
        };
        gone && self.elsewhere == Some(false)
    }
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Its kubelet reports.
    Fine,
    /// Its kubelet has not reported since.
    Silent(Timestamp),
    /// An administrator says that it is shut down for good.
    OutOfService,
    /// There is no such node any more.
    Deleted,
}

impl Observed {
    /// Nothing says that the node of an ordinal does not end or start pods at present. Nodes are asked for only where
    /// nothing answers.
    pub fn is_on_a_live_node(&self, ordinal: u32) -> bool {
        let home = self.homes.get(&ordinal);
        home.is_none_or(|home| home.state == NodeState::Fine)
    }
}
