//! What the user reads where no quorum answers: what is known of every voter, what would be lost, and the command.

use super::evidence::Account;
use crate::cluster::rollout;
use crate::decision::{Decision, LATER};
use crate::observed::Observed;
use crate::why::{Command, Quorum};

/// So many are proved to be gone that no quorum can return.
pub(super) fn where_it_is_proved(observed: &Observed, account: &Account, lost: u64) -> Decision {
    let why = Quorum::Proved(account.tell(), command(observed, lost));
    Decision::wait(why, LATER)
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
        let since = observed.cluster.unavailable_since;
        let why = Quorum::Unproved(since, account.tell(), command(observed, lost));
        Decision::wait(why, LATER)
    })
}

fn command(observed: &Observed, lost: u64) -> Command {
    Command {
        namespace: observed.cluster.namespace.clone(),
        name: observed.cluster.name.clone(),
        lost,
    }
}
