//! The cluster of an earlier operator: its StatefulSet is taken over in place, its pods go on running, and then they are
//! rolled onto the gate like any other change. It is known by what its members say, never begun again.

use api::Reason;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Latched, Observed, Proven};

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    // An earlier operator wrote a cluster ID into its status as well, but never what its members run on.
    if !observed.objects.predecessor || latched.proven.is_some() {
        return None;
    }
    let Some(list) = &observed.etcd.members else {
        let why = "the StatefulSet was created by a previous operator; it is adopted once a quorum of its members responds, and left alone until then";
        return Some(Decision::wait(Reason::Adopting, why, LATER));
    };
    if let Some(other) = latched.cluster_id.filter(|id| *id != list.cluster_id) {
        let why = format!(
            "two etcd clusters under one name: the status has cluster ID {other:x}, the members of the previous operator's cluster have {:x}; nothing is changed until one of them is gone",
            list.cluster_id
        );
        return Some(Decision::refuse(Reason::VolumeRejected, why));
    }
    let running = || {
        let members = list.members.iter();
        members.filter_map(|member| observed.serving_as(member.id)?.version)
    };
    let Some(version) = running().min() else {
        let why = "the members of the previous operator's cluster do not report their version";
        return Some(Decision::wait(Reason::Adopting, why, LATER));
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
    let why = format!(
        "adopting cluster {:x} of a previous operator",
        list.cluster_id
    );
    Some(Decision::act(
        Step::Latch(taken_over),
        Reason::Adopting,
        why,
    ))
}
