//! Every violation has a mutant that commits it: this list does not compile without a new one, and fails where its
//! mutant is gone.

use plan::invariants::Violation;

/// The next of all violations, from the first one.
fn after(violation: Option<&Violation>) -> Option<Violation> {
    Some(match violation {
        None => Violation::Quorum,
        Some(Violation::Quorum) => Violation::OpenGrant,
        Some(Violation::OpenGrant) => Violation::SecondBootstrap,
        Some(Violation::SecondBootstrap) => Violation::ClientsTooEarly,
        Some(Violation::ClientsTooEarly) => Violation::NotThisWait,
        Some(Violation::NotThisWait) => Violation::GrantedBefore,
        Some(Violation::GrantedBefore) => Violation::WrongMemberList,
        Some(Violation::WrongMemberList) => Violation::Learner,
        Some(Violation::Learner) => Violation::NotAskedFor,
        Some(Violation::NotAskedFor) => Violation::DataBeforeMember,
        Some(Violation::DataBeforeMember) => Violation::LastCopy,
        Some(Violation::LastCopy) => Violation::Unknown,
        Some(Violation::Unknown) => Violation::Line,
        Some(Violation::Line) => Violation::Unproven,
        Some(Violation::Unproven) => Violation::History,
        Some(Violation::History) => Violation::Busy,
        Some(Violation::Busy) => Violation::Cause,
        Some(Violation::Cause) => Violation::Transport,
        Some(Violation::Transport) => Violation::LockOut,
        Some(Violation::LockOut) => Violation::Restore,
        Some(Violation::Restore) => Violation::Forgets,
        Some(Violation::Forgets) => return None,
    })
}

const MUTANTS: [&str; 7] = [
    include_str!("mutants.rs"),
    include_str!("mutants_change.rs"),
    include_str!("mutants_heal.rs"),
    include_str!("mutants_space.rs"),
    include_str!("worlds_auth.rs"),
    include_str!("worlds_restore.rs"),
    include_str!("worlds_tls.rs"),
];

/// Some test in these files expects this violation to be refused.
fn is_tried(violation: &Violation) -> bool {
    let expected = format!("&Violation::{violation:?}");
    MUTANTS.iter().any(|file| {
        let mut calls = file.match_indices(&expected);
        calls.any(|(at, _)| {
            let before = file.get(..at).unwrap_or_default();
            let call = before.rfind(';').or_else(|| before.rfind('{')).unwrap_or(0);
            let call = before.get(call..).unwrap_or_default();
            call.contains("refused")
        })
    })
}

#[test]
fn every_violation_has_a_mutant() {
    let all = std::iter::successors(after(None), |last| after(Some(last)));
    let missing: Vec<Violation> = all.filter(|violation| !is_tried(violation)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
