//! Members that are to leave: what was written down of them, and how far it got.

use api::names;
use api::v1alpha1::status::RetireIntent;

use super::{Claim, Observed, Pod, parse_id};

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
            let list = self.own_list();
            let listed = list.map(|list| list.members.iter().any(|member| Some(member.id) == id));
            Some(Leaving {
                intent,
                ordinal,
                claim,
                listed,
            })
        })
    }

    /// Voters that somebody else removed, each with its pod, whose agent does not know it yet: etcd would start on what
    /// they left, learn that it is not wanted, and end, for ever.
    pub fn vanished(&self) -> impl Iterator<Item = (u32, u64, &Pod)> {
        let known = self.cluster.latched.voters.iter();
        let known = known.filter_map(|known| {
            let ordinal = names::ordinal(&self.cluster.name, &known.member)?;
            Some((ordinal, parse_id(&known.member_id)?))
        });
        known.filter_map(|(ordinal, id)| {
            let list = self.own_list()?;
            let listed = list.members.iter().any(|member| member.id == id);
            let taken = self.member_of(ordinal).is_some();
            let leaves = self
                .leaving()
                .any(|leaving| parse_id(&leaving.intent.member_id) == Some(id));
            let pod = self.pods.get(&ordinal)?;
            let tries = pod.held().is_none() && !pod.told_removed.contains(&id);
            (!listed && !taken && !leaves && tries).then_some((ordinal, id, pod))
        })
    }
}
