//! What is recorded of members that are to leave, and how far that got.

use api::names;
use api::v1alpha1::status::RetireIntent;

use crate::observed::{Claim, Observed, parse_id};

/// A member that is to leave.
pub(super) struct Departure<'a> {
    pub(super) intent: &'a RetireIntent,
    pub(super) ordinal: u32,
    pub(super) id: Option<u64>,
}

impl<'a> Departure<'a> {
    /// Every one that is recorded under a name of this cluster.
    pub(super) fn all(observed: &'a Observed) -> impl Iterator<Item = Self> {
        let cluster = &observed.cluster;
        cluster.latched.retiring.iter().filter_map(|intent| {
            Some(Self {
                intent,
                ordinal: names::ordinal(&cluster.name, &intent.member)?,
                id: parse_id(&intent.member_id),
            })
        })
    }

    /// The list of this very cluster has it, or has it not; `None` while that cannot be read.
    fn listed(&self, observed: &Observed) -> Option<bool> {
        let list = observed.etcd.members.as_ref()?;
        let known = observed.cluster.latched.cluster_id;
        let other = known.is_some_and(|known| known != list.cluster_id);
        let listed = list.members.iter().any(|m| Some(m.id) == self.id);
        (!other).then_some(listed)
    }

    /// It is known to be listed.
    pub(super) fn is_listed(&self, observed: &Observed) -> bool {
        self.listed(observed) == Some(true)
    }

    /// It is known to be listed no more.
    pub(super) fn has_left(&self, observed: &Observed) -> bool {
        self.listed(observed) == Some(false)
    }

    /// The claim that was recorded, while that very claim exists.
    pub(super) fn claim(&self, observed: &'a Observed) -> Option<&'a Claim> {
        let claim = observed.claims.get(&self.ordinal)?;
        (claim.uid == self.intent.claim_uid).then_some(claim)
    }
}
