//! Wrong records and steps on the way to a backup in the place of the data: the invariants refuse each of them.

use api::v1alpha1::memory::ReplaceStage;
use plan::invariants::{Violation, check};
use plan::observed::Latched;
use plan::{Observed, Step};
use testkit::story::settled;
use testkit::world::observe::Blind;
use testkit::{Run, World};

fn seen(world: &World) -> Observed {
    world.look_around(&Blind::default()).observed
}

fn stage(world: &World) -> Option<ReplaceStage> {
    world.memory().replace.map(|replace| replace.stage)
}

fn asked() -> Run<'static> {
    let mut run = settled(3, 6, 9);
    run.world.ask_to_replace("20261118-020000-0a1b2c3d");
    run
}

/// Wrong records and steps, each of which would replace what was not named, begin twice, or end the old data too early.
#[test]
fn wrong_steps_are_refused() {
    let mut run = asked();
    let (mut begun, mut stopped, mut founded, mut granted) = (0, 0, 0, 0);
    for _ in 0..300 {
        let observed = seen(&run.world);
        let step = plan::decide(&observed).step;
        if granted == 0 && stage(&run.world) == Some(ReplaceStage::Bootstrapping) {
            run.world.reject("Grant", None);
        }
        match &step {
            Step::Latch(new) => {
                let now = new.replace.as_ref().map(|replace| replace.stage);
                let before = stage(&run.world);
                let mut unnamed = observed.clone();
                unnamed.restore.requests[0].replaces = Some(7);
                if before != now && now != Some(ReplaceStage::Ended) {
                    let refused = check(&unnamed, &step);
                    assert_eq!(refused, Err(Violation::NotAskedFor), "{now:?}");
                    begun += 1;
                }
                if now == Some(ReplaceStage::Fetching) && before != now {
                    let unread = with(new, |replace| replace.checked = None);
                    assert_eq!(check(&observed, &unread), Err(Violation::Restore));
                    stopped += 1;
                }
                if now == Some(ReplaceStage::Bootstrapping) {
                    refuse_bootstrap(&observed, new);
                    founded += 1;
                }
            }
            Step::Grant { grant, .. } if observed.cluster.latched.is_being_replaced() => {
                let mut running = observed.clone();
                for pod in running.pods.values_mut() {
                    pod.fence = None;
                }
                assert_eq!(check(&running, &step), Err(Violation::OpenGrant));
                let mut earlier = step.clone();
                if let Step::Grant { grant: other, .. } = &mut earlier
                    && let gate::Action::Restore { token, .. } = &mut other.action
                {
                    *token = format!("{}-1", grant.cluster_uid);
                }
                assert_eq!(check(&observed, &earlier), Err(Violation::SecondBootstrap));
                granted += 1;
                run.world.rejects.clear();
            }
            _other => {}
        }
        run.turn();
    }
    assert!(
        begun == 3 && stopped == 1 && founded == 1 && granted > 0,
        "{begun} {stopped} {founded} {granted}"
    );
}

fn with(new: &Latched, change: impl FnOnce(&mut api::v1alpha1::memory::ReplaceMemory)) -> Step {
    let mut new = new.clone();
    let mut replace = new.replace.take().unwrap();
    change(&mut replace);
    new.replace = Some(replace);
    Step::Latch(new)
}

fn refuse_bootstrap(observed: &Observed, new: &Latched) {
    let step = Step::Latch(new.clone());
    let mut busy = observed.clone();
    let before = settled(3, 6, 9);
    busy.pods = seen(&before.world).pods;
    assert_eq!(
        check(&busy, &step),
        Err(Violation::LastCopy),
        "a pod stands"
    );
    let unfenced = Step::Latch(Latched {
        fence: None,
        ..new.clone()
    });
    assert!(check(observed, &unfenced).is_err(), "no fence");
    let same = Step::Latch(Latched {
        incarnation: observed.cluster.latched.incarnation,
        ..new.clone()
    });
    assert!(check(observed, &same).is_err(), "the same incarnation");
    let other = with(new, |replace| {
        if let Some(seed) = &mut replace.seed
            && let Some(fetched) = &mut seed.fetched
        {
            "00".clone_into(&mut fetched.trailer);
        }
    });
    assert_eq!(
        check(observed, &other),
        Err(Violation::Restore),
        "another file"
    );
}
