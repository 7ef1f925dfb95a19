//! Under which schemes members are listed for each other: every one that a member listens on, or is about to. Restarts no
//! member, and waits for no member's health: one that is listed otherwise than it listens would never become healthy.

use crate::decision::{Decision, Step};
use crate::observed::{MemberList, Observed, schemes_of};
use crate::why::Rollout;

/// One voter at a time. A learner gets its turn when it votes: below 3.5.31 and 3.6.12 this very call gives it a vote.
pub(super) fn list_schemes(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    // Until it is known what the members run on, and while a member joins by the list as it is, that stays.
    if latched.proven.is_none() || latched.recovery.is_some() || observed.open_grant().is_some() {
        return None;
    }
    let due = list.voters().filter_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        let wanted = observed.wanted_schemes(ordinal, voter);
        (schemes_of(voter) != wanted).then(|| {
            let step = Step::UpdatePeer {
                id: voter.id,
                ordinal,
                peer_urls: observed.urls_under(ordinal, voter, &wanted),
            };
            let why = Rollout::Listed {
                member: observed.member_name(ordinal),
                schemes: wanted,
                switch: observed.describe_switch(),
            };
            Decision::act(step, why)
        })
    });
    observed.first_awake(due)
}
