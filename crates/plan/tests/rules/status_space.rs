//! What a person reads while a database has no room, or data differs.

use api::v1alpha1::status::Phase;
use plan::status::Outcome;
use testkit::Scene;
use testkit::scene::{Alarmed, Differs, Fill, HEAD, Slot};
use testkit::told::report;

fn three(fill: Fill, alarm: Alarmed) -> Scene {
    let slot = Slot {
        fill,
        ..Slot::voter()
    };
    Scene {
        alarm,
        ..Scene::formed(3, vec![slot; 3])
    }
}

fn shown(scene: &Scene) -> String {
    report(&scene.observed(), &Outcome::Done, Some(Phase::Running))
}

#[test]
fn a_full_database_is_compacted_first() {
    insta::assert_snapshot!("compacts", shown(&three(Fill::Loose, Alarmed::NoSpace)));
}

#[test]
fn a_full_database_is_then_defragmented() {
    let scene = Scene {
        compacted: Some(HEAD - 1000),
        defragmenting: Some(1),
        ..three(Fill::Loose, Alarmed::NoSpace)
    };
    insta::assert_snapshot!("defragments", shown(&scene));
}

#[test]
fn a_database_full_of_keys_says_what_to_raise() {
    let scene = Scene {
        compacted: Some(HEAD - 1000),
        ..three(Fill::Full, Alarmed::NoSpace)
    };
    insta::assert_snapshot!("full", shown(&scene));
}

#[test]
fn a_database_that_will_soon_be_full_says_so() {
    let scene = Scene {
        compacted: Some(HEAD - 1000),
        ..three(Fill::Full, Alarmed::No)
    };
    insta::assert_snapshot!("nearly_full", shown(&scene));
}

fn hashes(differs: [Differs; 3]) -> Scene {
    let slot = |differs| Slot {
        differs,
        ..Slot::voter()
    };
    Scene {
        alarm: Alarmed::Corrupt,
        ..Scene::formed(3, differs.map(slot).to_vec())
    }
}

#[test]
fn a_member_that_is_outvoted_is_named() {
    let scene = hashes([Differs::Agrees, Differs::Agrees, Differs::Differs]);
    insta::assert_snapshot!("outvoted", shown(&scene));
}

/// No member has raised an alarm yet.
fn found(differs: [Differs; 3]) -> Scene {
    Scene {
        alarm: Alarmed::No,
        ..hashes(differs)
    }
}

#[test]
fn data_that_was_found_to_differ_is_told_of_before_etcd_does() {
    let outvoted = shown(&found([Differs::Agrees, Differs::Agrees, Differs::Differs]));
    insta::assert_snapshot!("outvoted_unalarmed", outvoted);
    let waiting = shown(&found([
        Differs::Agrees,
        Differs::Differs,
        Differs::Unasked,
    ]));
    insta::assert_snapshot!("differs_waiting", waiting);
}

#[test]
fn members_without_an_agreeing_majority_are_named() {
    let mut scene = hashes([Differs::Agrees, Differs::Differs, Differs::Agrees]);
    // Two of four are no majority.
    scene.slots.push(Slot {
        differs: Differs::Differs,
        ..Slot::voter()
    });
    insta::assert_snapshot!("no_majority", shown(&scene));
}
