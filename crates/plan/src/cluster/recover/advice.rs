//! What the user reads where no quorum answers: what is known of every voter, what would be lost, and the command.

use api::Reason;

use super::evidence::Account;
use crate::cluster::rollout;
use crate::decision::{Decision, LATER};
use crate::observed::Observed;

/// So many are proved to be gone that no quorum can return.
pub(super) fn where_it_is_proved(observed: &Observed, account: &Account, lost: u64) -> Decision {
    let why = format!(
        "quorum is permanently lost: {}. Bring one of the lost members back, or recover from the remaining ones and lose the writes that only the lost ones had: {}",
        account.tell(),
        command(observed, lost)
    );
    Decision::wait(Reason::QuorumLost, why, LATER)
}

/// Pods that run nothing are repaired; after a while the condition says what can be done.
pub(in crate::cluster) fn without_a_list(observed: &Observed) -> Option<Decision> {
    let revived = rollout::revive(observed).filter(|decision| !observed.rests(&decision.step));
    revived.or_else(|| advise(observed))
}

/// Nothing is proved, but too few answer, and have for as long as their owner waits for a node. Two machines that are dead
/// while their Node objects remain look like that, and so do two behind a partition, which may be serving.
fn advise(observed: &Observed) -> Option<Decision> {
    let lost = observed.cluster.latched.cluster_id?;
    let patience = observed.cluster.intent.as_ref().ok()?.node_patience;
    let account = Account::of(observed);
    let due = observed.is_unavailable_for(patience) && !observed.is_led();
    (due && account.is_short_of_a_quorum()).then(|| {
        let since = observed.cluster.unavailable_since.map(|since| since.strftime("%F %H:%M UTC"));
        let since = since.map_or_else(String::new, |since| format!(" since {since}"));
        let why = format!(
            "no quorum has responded{since}, and it is not proved that it cannot return: {}. Bring one of the missing members back. If that is impossible, make sure that their machines are off, and recover from the remaining ones; every write that only the missing ones have is lost: {}",
            account.tell(),
            command(observed, lost)
        );
        Decision::wait(Reason::QuorumLost, why, LATER)
    })
}

fn command(observed: &Observed, lost: u64) -> String {
    format!(
        "kubectl annotate etcdcluster -n {} {} {}={lost:x}",
        observed.cluster.namespace,
        observed.cluster.name,
        api::labels::RECOVER_ANNOTATION
    )
}
