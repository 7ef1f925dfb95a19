//! How far a member has come that joins.

use jiff::Timestamp;

use super::{Member, Observed, Process};

/// What is known of a learner's way to its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joining {
    /// When it was last seen to make progress; at first, when it was first listed.
    pub since: Timestamp,
    /// Most bytes of the leader's data that it was seen to have received before it serves.
    pub received: Option<u64>,
    /// Fewest entries that it was seen to be behind the leader.
    pub behind: Option<u64>,
}

impl Joining {
    /// What is seen now is further than what was known. A first run that begins again and again gets no further.
    pub fn is_passed_by(&self, now: &Self) -> bool {
        let closer = match (now.behind, self.behind) {
            (Some(now), Some(known)) => now < known,
            (now, _) => now.is_some(),
        };
        now.received > self.received || closer
    }

    /// As far as it was seen to come, now or before.
    #[must_use]
    pub fn or_before(self, known: &Self) -> Self {
        Self {
            since: self.since,
            received: self.received.max(known.received),
            behind: self.behind.or(known.behind),
        }
    }
}

impl Observed {
    /// How far a learner is now.
    pub fn joining(&self, learner: &Member) -> Joining {
        let pod = self.ordinal_of(learner).and_then(|n| self.pods.get(&n));
        let leader = self.leader().and_then(|id| self.serving_as(id));
        let own = self.serving_as(learner.id);
        Joining {
            since: self.now,
            received: pod.and_then(|pod| pod.received),
            behind: leader
                .zip(own)
                .map(|(leader, own)| leader.raft_index.saturating_sub(own.applied_index)),
        }
    }

    /// It waits at the gate for a grant that it was not given yet: the time is not its own.
    pub fn awaits_grant(&self, learner: &Member) -> bool {
        let pod = self.ordinal_of(learner).and_then(|n| self.pods.get(&n));
        pod.is_some_and(|pod| matches!(pod.process, Process::Held(_)) && !pod.is_granted())
    }
}
