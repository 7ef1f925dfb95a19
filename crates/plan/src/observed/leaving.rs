//! Members that are to leave: what was recorded of them, and how far it got.

use api::names;
use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::RetireIntent;

use super::{Claim, Observed, Pod, parse_id};

/// No member has this ID: it stands for a claim that no member uses.
pub(crate) const NO_MEMBER: &str = "0";

/// Who is leaving, and how far that got.
pub struct Leaving<'a> {
    /// What was recorded.
    pub intent: &'a RetireIntent,
    /// Ordinal of its pod and claim.
    pub ordinal: u32,
    /// Its claim, while that very claim is still there.
    pub claim: Option<&'a Claim>,
    /// Whether it is still listed; `None` while that is not known.
    pub listed: Option<bool>,
}

impl Observed {
    /// Every member that is leaving.
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

    /// Voters that were removed by other means, each with its pod, whose agent does not know it yet: etcd would start
    /// on what they left, learn that it is not wanted, and end, for ever.
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

    /// A member is on the way out, or its volume is and is not gone yet.
    pub(crate) fn is_any_leaving(&self) -> bool {
        self.leaving()
            .any(|leaving| leaving.listed != Some(false) || self.goes(&leaving))
    }

    /// A member is on the way out. Whether its volume has gone is of no concern to those that stay.
    pub(crate) fn is_member_leaving(&self) -> bool {
        self.leaving().any(|leaving| leaving.listed != Some(false))
    }

    /// Its claim is there and shall go.
    pub(crate) fn goes(&self, leaving: &Leaving<'_>) -> bool {
        let intent = self.cluster.intent.as_ref();
        let kept = intent.is_ok_and(|intent| intent.storage.when_scaled == Retention::Retain);
        // The member that takes its place needs the name of its claim.
        leaving.claim.is_some() && (!kept || leaving.intent.replaced.is_some())
    }

    /// What lies on it was a member's that was removed, as far as can be said while no quorum answers: a voter that was
    /// recorded to leave and was not listed any more when a list was last had. No pod is made for it.
    pub(crate) fn is_of_removed(&self, claim: &Claim) -> bool {
        let latched = &self.cluster.latched;
        let votes = |id: &str| latched.voters.iter().any(|voter| voter.member_id == id);
        let mut written = latched.retiring.iter();
        let written = written.find(|intent| intent.claim_uid == claim.uid);
        !latched.voters.is_empty() && written.is_some_and(|intent| !votes(&intent.member_id))
    }
}
