//! The cluster of an earlier operator: its StatefulSet is taken over in place, its pods go on running, and then they are
//! rolled onto the gate like any other change. It is known by what its members say, never begun again.

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Latched, Observed, Proven};
use crate::why::Resume;

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    // An earlier operator wrote a cluster ID into its status as well, but never what its members run on.
    if !observed.objects.predecessor || latched.proven.is_some() {
        return None;
    }
    let Some(list) = &observed.etcd.members else {
        return Some(Decision::wait(Resume::PredecessorSilent, LATER));
    };
    if let Some(other) = latched.cluster_id.filter(|id| *id != list.cluster_id) {
        let why = Resume::PredecessorDiffers(other, list.cluster_id);
        return Some(Decision::refuse(why));
    }
    let running = || {
        let members = list.members.iter();
        members.filter_map(|member| observed.serving_as(member.id)?.version)
    };
    let Some(version) = running().min() else {
        return Some(Decision::wait(Resume::PredecessorVersion, LATER));
    };
    let claims = observed.claims.values();
    let taken_over = Latched {
        cluster_id: Some(list.cluster_id),
        resumed: true,
        proven: Some(Proven {
            template: String::new(),
            version,
            everywhere: true,
            before: None,
        }),
        storage: claims.filter_map(|claim| claim.requested).min(),
        ..latched.clone()
    };
    let why = Resume::Adopting(list.cluster_id);
    Some(Decision::act(Step::Latch(taken_over), why))
}
