//! Stories of members that join over a slow link.

use jiff::SignedDuration;
use testkit::Run;
use testkit::story::{seeds, settle, settled};
use testkit::world::slow::Link;

const GIB: u64 = 1 << 30;
/// 410 seconds.
const SLOW: Link = Link {
    size: 8 * GIB,
    rate: 20 << 20,
};

/// How many members were ever added.
fn added(run: &Run<'_>) -> usize {
    let clusters = run.world.clusters.values();
    clusters.map(|cluster| cluster.added.len()).sum()
}

/// Lets so many seconds pass, with a look every few of them.
fn pass(run: &mut Run<'_>, seconds: i64) {
    let end = run.world.now + SignedDuration::from_secs(seconds);
    while run.world.now < end {
        run.turn();
        run.world.sleep(5);
    }
}

#[test]
fn eight_gibibytes_over_a_slow_link_join() {
    for seed in seeds(5) {
        for (minor, link) in [
            (5, SLOW),
            (6, SLOW),
            (
                7,
                Link {
                    rate: 2 << 20,
                    ..SLOW
                },
            ),
        ] {
            let what = format!("{link:?}, 3.{minor}, seed {seed}");
            let mut run = settled(3, minor, seed);
            let before = added(&run);
            run.world.link = Some(link);
            run.world.empty_volume(1);
            let needed = i64::try_from(link.size / link.rate).unwrap();
            pass(&mut run, needed + 200);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 3, "{what}");
            assert_eq!(added(&run), before + 1, "{what}: once, and no more");
        }
    }
}

#[test]
fn a_wiped_status_gives_more_time_and_not_less() {
    for seed in seeds(5) {
        let mut run = settled(3, 6, seed);
        let before = added(&run);
        run.world.link = Some(SLOW);
        run.world.empty_volume(1);
        for _ in 0..4 {
            pass(&mut run, 100);
            let memory = run.world.object.status.memory.as_mut().unwrap();
            memory.admissions.learners.clear();
            run.world.object.revision += 1;
        }
        pass(&mut run, 200);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(added(&run), before + 1, "seed {seed}");
    }
}

#[test]
fn a_joiner_without_progress_is_replaced_after_its_time_and_no_sooner() {
    for seed in seeds(5) {
        for patience in [None, Some(60), Some(3600)] {
            let what = format!("{patience:?}, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.join_patience = patience;
            run.world.link = Some(Link {
                rate: 8 * GIB,
                ..SLOW
            });
            run.world.make_sluggish(1);
            run.world.empty_volume(1);
            run.turns(60);
            assert!(!run.world.memory().learners.is_empty(), "{what}");
            let before = added(&run);
            let most = patience.unwrap_or(600);
            pass(&mut run, most - 55);
            assert_eq!(added(&run), before, "{what}: too soon");
            pass(&mut run, 120);
            settle(&mut run, &what);
            assert_eq!(added(&run), before + 1, "{what}");
        }
    }
}
