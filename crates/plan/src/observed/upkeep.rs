//! Long calls to members that this operator has begun: they go on while the cluster is looked at.

use jiff::Timestamp;

use super::{Observed, Process};

/// A long call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// What it does.
    pub task: UpkeepTask,
    /// When it was begun.
    pub since: Timestamp,
    /// It has ended well, since the last look.
    pub done: bool,
}

/// What a long call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpkeepTask {
    /// Defragments a member, which may answer nothing meanwhile.
    Defragment {
        /// Ordinal of its pod.
        ordinal: u32,
    },
    /// Compacts the history on every voter.
    Compact {
        /// What is older is forgotten.
        revision: u64,
    },
}

impl Observed {
    /// The call that goes on.
    pub fn upkeep_under_way(&self) -> Option<&Upkeep> {
        self.etcd.upkeep.as_ref().filter(|upkeep| !upkeep.done)
    }

    /// The call that has ended well since the last look.
    pub fn upkeep_done(&self) -> Option<&Upkeep> {
        self.etcd.upkeep.as_ref().filter(|upkeep| upkeep.done)
    }

    /// This operator defragments the member of an ordinal right now.
    pub fn is_being_defragmented(&self, ordinal: u32) -> bool {
        let task = UpkeepTask::Defragment { ordinal };
        self.upkeep_under_way()
            .is_some_and(|upkeep| upkeep.task == task)
    }

    /// The member that is recorded does not respond, as one that is defragmented does: by a call of an operator that has
    /// restarted since, of which this one knows nothing. One that hangs is not counted.
    pub(crate) fn may_be_defragmented(&self) -> bool {
        let name = self.cluster.latched.defragmenting();
        let ordinal = name.and_then(|name| api::names::ordinal(&self.cluster.name, name));
        let pod = ordinal.and_then(|ordinal| self.pods.get(&ordinal));
        pod.is_some_and(|pod| {
            let quiet = matches!(pod.process, Process::Unknown | Process::Starting);
            let hangs = pod.stall.as_ref().is_some_and(|it| it.is_hang(self.now));
            quiet && pod.problem.is_none() && !pod.terminating && !hangs
        })
    }
}
