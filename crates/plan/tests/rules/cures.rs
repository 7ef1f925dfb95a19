//! A user can do what a condition says: where a wait or a refusal names a remedy, taking that remedy changes the
//! decision. And where nothing is proved, the condition says what is known and what can be done.
#![expect(clippy::unwrap_used, reason = "test code: a failure is the point")]

use api::v1alpha1::status::KnownVoter;
use api::{Quantity, Reason};
use gate::{Failed, State};
use jiff::SignedDuration;
use plan::observed::{Process, Refusals, format_id};
use plan::status::Outcome;
use plan::target::decide_target;
use plan::why::Revive;
use plan::{Decision, Observed, Step, decide};
use testkit::intent::newest;
use testkit::scene::{
    Alarmed, Begun, CLUSTER, Dark, Differs, Does, Fate, Listed, Scene, Sized, Slot, Trial,
    member_id,
};

pub(crate) fn at(does: Does, fate: Fate) -> Slot {
    Slot {
        fate,
        ..Slot::new(does, Listed::Voter)
    }
}

/// One that is left of three, and two whose machines say nothing.
fn unproved(survivor: Does, seconds: i64) -> Observed {
    let silent = at(Does::Unknown, Fate::Silent);
    let slots = vec![at(survivor, Fate::Unknown), silent, silent];
    let scene = Scene {
        list: false,
        dark: Dark {
            seconds: Some(seconds),
            ..Dark::default()
        },
        ..Scene::formed(3, slots)
    };
    let mut observed = scene.observed();
    observed.cluster.latched.voters = (0..3)
        .map(|ordinal| KnownVoter {
            member: observed.member_name(ordinal),
            member_id: format_id(member_id(ordinal)),
            index: Some(40_000 + i64::from(ordinal)),
        })
        .collect();
    observed
}

fn patience() -> i64 {
    unproved(Does::Leaderless, 0)
        .cluster
        .intent
        .unwrap()
        .node_patience
}

#[test]
fn a_quorum_lost_without_proof_gets_the_facts_and_the_command_once_patience_is_over() {
    let early = decide(&unproved(Does::Leaderless, patience() - 1));
    assert_eq!(early.reason(), Reason::EtcdUnreachable, "{}", early.why);
    let Decision { step, why, .. } = decide(&unproved(Does::Leaderless, patience()));
    let reason = why.reason();
    assert_eq!((step, reason), (Step::Wait, Reason::QuorumLost), "{why}");
    let why = why.to_string();
    for fact in [
        "db-0 serves without a quorum, at revision",
        "index 50000",
        "db-1 does not respond, its node n1 has not reported since 1970-01-01 23:53 UTC, which proves nothing; it had index 40001 or more",
        "make sure that their machines are off",
        "every write that only the missing ones have is lost",
        "kubectl annotate etcdcluster -n ns db etcd.etcd.io/recover=c1",
    ] {
        assert!(why.contains(fact), "{fact}: {why}");
    }
}

#[test]
fn a_survivor_that_restarted_shows_how_far_it_is_known_to_have_come() {
    let why = decide(&unproved(Does::Starts, patience())).why.to_string();
    let shown = "db-0 is running and waits for a quorum; it had index 40000 or more";
    assert!(why.contains(shown), "{why}");
    let why = decide(&unproved(Does::Waits(State::RolledBack), patience()))
        .why
        .to_string();
    assert!(why.contains("db-0 has term 2, index 50000"), "{why}");
}

#[test]
fn no_condition_advises_to_give_up_a_quorum_that_is_there() {
    // Two of three run: what keeps them from each other can be repaired without losing anything.
    let mut observed = unproved(Does::Leaderless, patience());
    let here = observed.pods[&0].process.clone();
    observed.pods.get_mut(&1).unwrap().process = here;
    let decision = decide(&observed);
    assert_eq!(
        decision.reason(),
        Reason::EtcdUnreachable,
        "{}",
        decision.why
    );
    // A member that follows a leader is not said to be alone.
    let led = decide(&unproved(Does::Serves, patience()));
    assert_eq!(led.reason(), Reason::EtcdUnreachable, "{}", led.why);
    // Where no pod reports any data there is nothing to continue with.
    let silent = decide(&unproved(Does::Unknown, patience()));
    assert_eq!(silent.reason(), Reason::EtcdUnreachable, "{}", silent.why);
}

type Remedy = (&'static str, fn(&mut Observed));

/// A scene, a part of what the condition says, and what its reader can do about it.
struct Case {
    what: &'static str,
    observed: Observed,
    says: &'static str,
    remedies: Vec<Remedy>,
}

fn retarget(observed: &mut Observed) {
    let intent = observed.cluster.intent.as_ref().unwrap();
    observed.cluster.target = Some(decide_target(intent, &observed.cluster.latched));
}

pub(crate) fn edit(observed: &mut Observed) {
    observed.cluster.intent.as_mut().unwrap().restarted_at = Some("corrected".to_owned());
    retarget(observed);
}

fn take_back(observed: &mut Observed) {
    let proven = observed.cluster.latched.proven.clone().unwrap();
    observed.cluster.target.as_mut().unwrap().template = proven.template;
}

fn enlarge(observed: &mut Observed) {
    let intent = observed.cluster.intent.as_mut().unwrap();
    intent.storage.size = Quantity("20Gi".to_owned());
    intent.storage.bytes = 20 << 30;
    retarget(observed);
}

fn annotate(observed: &mut Observed) {
    observed.cluster.recover = Some(CLUSTER);
}

/// `kubectl delete pvc --wait=false; kubectl delete pod` of `db-0`.
fn give_up(observed: &mut Observed) {
    observed.claims.remove(&0);
    observed.pods.remove(&0);
}

/// The cluster of a recovery: every pod waits behind the fence, but for one.
fn recovering(begun: Begun, first: Slot) -> Observed {
    let fenced = |slot| Slot {
        fenced: true,
        ..slot
    };
    let held = fenced(at(Does::Waits(State::Fenced), Fate::Unknown));
    let scene = Scene {
        list: false,
        dark: Dark::approved(begun),
        ..Scene::formed(3, vec![fenced(first), held, held])
    };
    scene.observed()
}

/// The survivor that was chosen failed a moment ago.
pub(crate) fn failed() -> Observed {
    let held = at(Does::Waits(State::Fenced), Fate::Unknown);
    let mut observed = recovering(Begun::Chosen(0, true), held);
    let time = observed.now.as_second() - 1;
    if let Process::Held(report) = &mut observed.pods.get_mut(&0).unwrap().process {
        let why = "2 more copies of the database need 4.0 GiB".to_owned();
        report.failed = Some(Failed { why, time });
    }
    observed
}

fn of_volumes() -> Vec<Case> {
    let small = |volume| Slot {
        volume,
        ..Slot::voter()
    };
    let larger = |volume| Scene {
        larger: true,
        ..Scene::formed(3, vec![small(volume); 3])
    };
    let mut left_behind = Scene::formed(3, vec![Slot::voter(), Slot::voter()]);
    left_behind
        .slots
        .push(Slot::new(Does::Waits(State::Mismatch), Listed::No));
    left_behind.replicas = Some(3);
    let mut left_behind = left_behind.observed();
    left_behind.claims.get_mut(&2).unwrap().ours = false;
    if let Process::Held(report) = &mut left_behind.pods.get_mut(&2).unwrap().process {
        report.state = State::OtherObject;
    }
    vec![
        Case {
            what: "volumes that cannot grow",
            observed: larger(Sized::Fixed).observed(),
            says: "set allowVolumeExpansion: true there, or revert the change",
            remedies: vec![
                ("allowed", |o| {
                    o.claims
                        .values_mut()
                        .for_each(|c| c.expandable = Some(true));
                }),
                ("taken back", |o| {
                    let intent = o.cluster.intent.as_mut().unwrap();
                    intent.storage.size = Quantity("10Gi".to_owned());
                    intent.storage.bytes = 10 << 30;
                    retarget(o);
                }),
            ],
        },
        Case {
            what: "a class that is gone",
            observed: larger(Sized::Classless).observed(),
            says: "recreate it, or revert the change",
            remedies: vec![("made again", |o| {
                o.claims
                    .values_mut()
                    .for_each(|c| c.expandable = Some(true));
            })],
        },
        Case {
            what: "data of a member that was removed",
            observed: left_behind,
            says: "delete the claim data-db-2 and the pod",
            remedies: vec![("deleted", |o| {
                let claim = o.claims.get_mut(&2).unwrap();
                (claim.ours, claim.uid) = (true, "another".to_owned());
                if let Process::Held(report) = &mut o.pods.get_mut(&2).unwrap().process {
                    (report.state, report.data) = (State::Empty, None);
                }
            })],
        },
    ]
}

fn of_changes() -> Vec<Case> {
    let halted = Scene {
        trial: Some((2, Trial::Restored)),
        ..Scene::edited(3, vec![Slot::outdated(), Slot::outdated(), Slot::stuck()])
    };
    let far = Scene {
        format: 5,
        ..Scene::between(5, 7, vec![Slot::outdated(); 3])
    };
    let mut foreign = Scene::formed(3, vec![Slot::voter(); 3]).observed();
    foreign.objects.foreign = vec!["Service db-nodeport".to_owned()];
    let paused = Scene {
        paused: true,
        drifted: true,
        ..Scene::formed(3, vec![Slot::voter(); 3])
    };
    let mut called_off = Scene::edited(3, vec![Slot::outdated(); 3]).observed();
    let asked = called_off.cluster.target.as_ref().unwrap().template.clone();
    called_off.cluster.latched.called_off = Some(asked);
    vec![
        Case {
            what: "a template from which no pod can be created",
            observed: called_off,
            says: "have it tried again: kubectl annotate etcdcluster -n ns db --overwrite etcd.etcd.io/restartedAt",
            remedies: vec![
                ("corrected", edit),
                ("reverted", take_back),
                ("asked for again", edit),
            ],
        },
        Case {
            what: "a change that does not come up",
            observed: halted.observed(),
            says: "correct the change, or revert it",
            remedies: vec![("corrected", edit), ("reverted", take_back)],
        },
        Case {
            what: "a release too far",
            observed: far.observed(),
            says: "3.6",
            remedies: vec![("that one first", |o| {
                o.cluster.intent.as_mut().unwrap().version = newest(6);
                retarget(o);
            })],
        },
        Case {
            what: "an object of another owner",
            observed: foreign,
            says: "delete or rename it",
            remedies: vec![("deleted", |o| o.objects.foreign.clear())],
        },
        Case {
            what: "a pause",
            observed: paused.observed(),
            says: "until it is removed",
            remedies: vec![("taken off", |o| o.cluster.paused = false)],
        },
    ]
}

/// Two voters differ, and the third, which would decide, does not run.
fn of_data() -> Vec<Case> {
    let voter = |does, differs| Slot {
        differs,
        ..Slot::new(does, Listed::Voter)
    };
    let scene = |third| Scene {
        alarm: Alarmed::Corrupt,
        ..Scene::formed(
            3,
            vec![
                voter(Does::Serves, Differs::Agrees),
                voter(Does::Serves, Differs::Differs),
                third,
            ],
        )
    };
    let gone = at(Does::Unknown, Fate::Deleted);
    vec![Case {
        what: "data that differs, and a voter that is gone",
        observed: scene(gone).observed(),
        says: "kubectl delete pvc -n ns data-db-2 --wait=false; kubectl delete pod -n ns db-2 --force",
        remedies: vec![
            ("brought back", |o| {
                let here = o.pods.get(&0).unwrap().process.clone();
                let pod = o.pods.get_mut(&2).unwrap();
                pod.process = here;
                if let Process::Serving(serving) = &mut pod.process {
                    serving.member_id = member_id(2);
                }
                o.node_bindings.clear();
            }),
            ("deleted", |o| {
                let wiped = at(Does::Waits(State::Empty), Fate::Unknown);
                let slots = vec![Slot::voter(), Slot::voter(), wiped];
                let there = Scene::formed(3, slots).observed();
                o.pods.insert(2, there.pods.get(&2).unwrap().clone());
                o.node_bindings.clear();
            }),
        ],
    }]
}

fn of_lost_quorums() -> Vec<Case> {
    let gone = at(Does::Unknown, Fate::Deleted);
    let proved = Scene {
        list: false,
        dark: Dark {
            seconds: Some(20),
            ..Dark::default()
        },
        ..Scene::formed(3, vec![at(Does::Leaderless, Fate::Unknown), gone, gone])
    };
    let returns: fn(&mut Observed) = |o| {
        o.node_bindings.clear();
        let here = o.pods.get(&0).unwrap().process.clone();
        o.pods.get_mut(&1).unwrap().process = here;
    };
    vec![
        Case {
            what: "a quorum that is proved to be lost",
            observed: proved.observed(),
            says: "lose the writes that only the lost ones had: kubectl annotate",
            remedies: vec![("annotated", annotate), ("one is back", returns)],
        },
        Case {
            what: "a quorum that is lost without proof",
            observed: unproved(Does::Leaderless, patience()),
            says: "every write that only the missing ones have is lost: kubectl annotate",
            remedies: vec![("annotated", annotate), ("one is back", returns)],
        },
    ]
}

fn of_recoveries() -> Vec<Case> {
    let mut homeless = recovering(Begun::Yes, at(Does::Unknown, Fate::Unknown));
    let pod = homeless.pods.get_mut(&0).unwrap();
    pod.created = homeless.now - SignedDuration::from_secs(100);
    pod.scheduled = false;
    let mut stuck = recovering(Begun::Yes, at(Does::Unknown, Fate::Fine));
    stuck.pods.get_mut(&0).unwrap().problem = Some("ImagePullBackOff".to_owned());
    let mut broken = recovering(Begun::Chosen(0, true), at(Does::Unknown, Fate::Broken));
    broken.pods.get_mut(&0).unwrap().problem = Some("CrashLoopBackOff".to_owned());
    vec![
        Case {
            what: "a survivor without room",
            observed: failed(),
            says: "remove the cause, or give it up",
            remedies: vec![
                ("more room", enlarge),
                ("other resources", edit),
                ("given up", give_up),
            ],
        },
        Case {
            what: "a volume that no node can use",
            observed: homeless,
            says: "Bring back a node for it, or recover without it",
            remedies: vec![
                ("given up", give_up),
                ("a node", |o| {
                    let held = o.pods.get(&1).unwrap().process.clone();
                    o.pods.get_mut(&0).unwrap().process = held;
                }),
            ],
        },
        Case {
            what: "a pod that cannot start",
            observed: stuck,
            says: "cannot start: ImagePullBackOff",
            remedies: vec![("another image", edit)],
        },
        Case {
            what: "a survivor that broke after it bootstrapped",
            observed: broken,
            says: "Repair it, or give it up",
            remedies: vec![("given up", give_up), ("another image", edit)],
        },
    ]
}

#[test]
fn where_a_condition_names_a_remedy_taking_it_changes_the_decision() {
    let all = [
        of_volumes(),
        of_changes(),
        of_data(),
        of_lost_quorums(),
        of_recoveries(),
    ];
    for case in all.into_iter().flatten() {
        let before = decide(&case.observed);
        let idle = matches!(before.step, Step::Wait | Step::Refuse | Step::Nothing);
        assert!(idle, "{}: {before:?}", case.what);
        assert!(
            before.why.to_string().contains(case.says),
            "{}: {}",
            case.what,
            before.why
        );
        for (remedy, take) in case.remedies {
            let mut observed = case.observed.clone();
            take(&mut observed);
            let after = decide(&observed);
            let changed = (&after.step, after.reason()) != (&before.step, before.reason());
            assert!(changed, "{}, {remedy}: still {}", case.what, after.why);
        }
    }
}

#[test]
fn while_its_claims_wait_for_a_person_a_cluster_grows_nothing() {
    // A claim that goes, or is gone, is not asked to grow.
    let mut observed = unproved(Does::Leaderless, 20);
    enlarge(&mut observed);
    for claim in observed.claims.values_mut() {
        claim.requested = Some(10 << 30);
    }
    assert!(matches!(
        decide(&observed).step,
        Step::ExpandClaim { ordinal: 0, .. }
    ));
    for claim in observed.claims.values_mut() {
        claim.terminating = true;
    }
    assert_eq!(decide(&observed).step, Step::Wait);
}

/// A process that ends in the next moment, as the one before did, does not start the count over.
#[test]
fn a_pod_that_runs_for_a_moment_is_not_recreated_again_at_once() {
    let silent = at(Does::Unknown, Fate::Unknown);
    let scene = |first| Scene {
        list: false,
        ..Scene::formed(3, vec![first, silent, silent])
    };
    let down = scene(silent).observed();
    let mut known = Refusals::default();
    let uid = down.pods.get(&0).unwrap().uid.clone();
    let step = Step::RestartPod { ordinal: 0, uid };
    let restart = Decision::act(step, Revive::Follows("db-0".to_owned()));
    for _ in 0..5 {
        known.note_step(&down, &restart, &Outcome::Done);
    }
    let sorted = |known: &mut Refusals, does, seconds| {
        let mut observed = scene(at(does, Fate::Unknown)).observed();
        observed.now += SignedDuration::from_secs(seconds);
        known.sort(&mut observed, Vec::new());
        observed.recreated.get(&0).map(|known| known.times)
    };
    assert_eq!(sorted(&mut known, Does::Starts, 1), Some(5));
    assert_eq!(sorted(&mut known, Does::Unknown, 2), Some(5));
    // What serves has come up, and what was left alone for long is another matter.
    assert_eq!(sorted(&mut known.clone(), Does::Leaderless, 3), None);
    assert_eq!(sorted(&mut known, Does::Starts, 3600), None);
}
