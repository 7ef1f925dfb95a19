//! Stories of steps that succeed and are undone, or that are put off again and again, in the simulated Kubernetes and etcd:
//! after a moment they hold up no rule below them.

use jiff::SignedDuration;
use testkit::Run;
use testkit::story::{seeds, settle, settled};
use testkit::world::refuse::{Ends, STEPS};
use testkit::world::tls::LIFETIME;

/// Longer than the longest pause between two tries.
const LONG: i64 = 610;

/// Lets so many seconds pass, with a look every one of them.
fn pass(run: &mut Run<'_>, seconds: i64) {
    let end = run.world.now + SignedDuration::from_secs(seconds);
    while run.world.now < end {
        run.turn();
        run.world.sleep(1);
    }
}

fn said(run: &Run<'_>) -> String {
    format!("{:?}", run.world.object.status.conditions)
}

fn ends(run: &mut Run<'_>, what: &str) {
    let size = usize::try_from(run.world.object.size).unwrap();
    run.world.rejects.clear();
    run.world.sleep(LONG);
    settle(run, what);
    assert_eq!(run.world.healthy_voters(), size, "{what}");
    let said = said(run);
    assert!(
        !said.contains("whatever does not need it"),
        "{what}: {said}"
    );
}

/// A voter that the others do not reach: etcd adds no member then, for as long as that lasts.
#[test]
fn a_member_that_etcd_does_not_add_holds_up_no_rollout() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.thwart("AddLearner", None, Ends::PutOff);
        run.world.resize(5);
        pass(&mut run, 20);
        run.world.edit(1);
        pass(&mut run, 300);
        assert!(run.world.tried.len() > 1, "{what}: {}", said(&run));
        let said = said(&run);
        assert!(
            said.contains("this has been put off since"),
            "{what}: {said}"
        );
        assert!(said.contains("AddLearner was put off"), "{what}: {said}");
        ends(&mut run, &what);
    }
}

/// A webhook sets the request of a claim back.
#[test]
fn an_expansion_that_is_undone_holds_up_no_other() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.thwart("ExpandClaim", Some(0), Ends::Undone);
        run.world.enlarge(20);
        pass(&mut run, 200);
        let sizes = run.world.claims.values().map(|claim| claim.capacity);
        let sizes: Vec<u64> = sizes.collect();
        assert_eq!(sizes, [10, 20, 20], "{what}: {}", said(&run));
        let said = said(&run);
        assert!(
            said.contains("because something reverts it"),
            "{what}: {said}"
        );
        ends(&mut run, &what);
    }
}

/// A webhook changes the Secret of the members after each write.
#[test]
fn certificates_that_are_undone_hold_up_no_repair() {
    for seed in seeds(3) {
        let what = format!("seed {seed}");
        let mut world = testkit::World::new(3, 6, seed);
        world.object.tls = true;
        let mut run = Run::new(world);
        settle(&mut run, &what);
        run.world.thwart("IssueCertificates", None, Ends::Undone);
        // They are due.
        run.world.sleep(LIFETIME / 3 * 2 + 1);
        pass(&mut run, 60);
        run.world.lose_claim(1);
        pass(&mut run, 200);
        assert_eq!(run.world.healthy_voters(), 3, "{what}: {}", said(&run));
        ends(&mut run, &what);
    }
}

/// Every step that there is, one after the other: what does not need it is done, and what needs it is done later.
#[test]
fn whichever_step_is_put_off_or_undone_a_lost_volume_is_repaired_or_waits_for_that_very_step() {
    for (step, end) in STEPS
        .into_iter()
        .flat_map(|step| [(step, Ends::PutOff), (step, Ends::Undone)])
    {
        let what = format!("{step} {end:?}");
        let mut run = settled(5, 6, 1);
        run.world.thwart(step, Some(4), end);
        run.world.thwart(step, Some(3), end);
        run.world.resize(3);
        run.world.enlarge(20);
        pass(&mut run, 60);
        run.world.empty_volume(1);
        pass(&mut run, 200);
        ends(&mut run, &what);
    }
}

#[test]
fn what_is_undone_is_written_less_and_less_often() {
    let mut run = settled(3, 6, 1);
    run.world.thwart("ExpandClaim", None, Ends::Undone);
    run.world.enlarge(20);
    pass(&mut run, 300);
    let writes = run.world.writes;
    pass(&mut run, 600);
    // Three claims, each of them every five minutes, and the status that says so.
    let tried = run.world.writes - writes;
    assert!((3..30).contains(&tried), "{tried}");
}

#[test]
fn while_a_step_is_put_off_the_status_says_the_same() {
    let mut run = settled(3, 6, 1);
    run.world.thwart("AddLearner", None, Ends::PutOff);
    run.world.resize(5);
    pass(&mut run, 120);
    let (revision, writes) = (run.world.object.revision, run.world.writes);
    pass(&mut run, 600);
    assert!(
        run.world.writes > writes + 50,
        "it is tried again and again"
    );
    let written = run.world.object.revision - revision;
    assert!(written < 10, "{written}: {}", said(&run));
}
