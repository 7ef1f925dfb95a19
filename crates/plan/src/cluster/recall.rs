//! What a lost status said, as far as claims and members know it.

use crate::decision::{Decision, Step};
use crate::observed::{Latched, MemberList, Observed, Proven};
use crate::why::Resume;

/// What the claims say of the data is written into the status again.
pub(super) fn recall(observed: &Observed) -> Option<Decision> {
    let cluster = &observed.cluster;
    cluster
        .recalled
        .then(|| Decision::act(Step::Latch(cluster.latched.clone()), Resume::Recalled))
}

/// What the members run on when nothing is recorded of it: after data was taken over, or a status was lost.
pub(super) fn remember(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    if latched.proven.is_some() {
        return None;
    }
    let proven = list.voters().find_map(|voter| {
        let pod = observed.pods.get(&observed.ordinal_of(voter)?)?;
        Some(Proven {
            template: pod.template.clone(),
            version: pod.serving()?.version?,
            everywhere: observed
                .pods
                .values()
                .all(|other| other.template == pod.template),
            before: None,
        })
    })?;
    let transport = observed.transport_of(&proven.template);
    let switched = latched.transport.is_some_and(|known| known != transport);
    let sizes = observed.claims.values().filter_map(|claim| claim.requested);
    let why = Resume::Runs(proven.version);
    let latched = Latched {
        storage: latched.storage.or(sizes.min()),
        transport: Some(transport),
        transport_before: observed.other_transport(transport),
        switches: latched.switches.saturating_add(u64::from(switched)),
        proven: Some(proven),
        ..latched.clone()
    };
    Some(Decision::act(Step::Latch(latched), why))
}
