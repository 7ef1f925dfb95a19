//! Members that are to leave: what was written down of them, and how far it got.

use api::names;
use api::v1alpha1::status::RetireIntent;

use super::{Claim, Observed, parse_id};

/// Who is leaving, and how far that got.
pub struct Leaving<'a> {
    /// What was written down.
    pub intent: &'a RetireIntent,
    /// Ordinal of its pod and claim.
    pub ordinal: u32,
    /// Its claim, while that very claim is still there.
    pub claim: Option<&'a Claim>,
    /// Whether it is still listed; `None` while nobody can say.
    pub listed: Option<bool>,
}

impl Observed {
    /// Everybody who is leaving.
    pub fn leaving(&self) -> impl Iterator<Item = Leaving<'_>> {
        self.cluster.latched.retiring.iter().filter_map(|intent| {
            let ordinal = names::ordinal(&self.cluster.name, &intent.member)?;
            let claim = self
                .claims
                .get(&ordinal)
                .filter(|claim| claim.uid == intent.claim_uid);
            let id = parse_id(&intent.member_id);
            let list = self.etcd.members.as_ref();
            let listed = list.map(|list| list.members.iter().any(|member| Some(member.id) == id));
            Some(Leaving {
                intent,
                ordinal,
                claim,
                listed,
            })
        })
    }
}
