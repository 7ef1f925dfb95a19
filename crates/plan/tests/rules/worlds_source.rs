//! Certificates of another source: what can be used is copied, what cannot changes nothing, and no authority is exchanged
//! under members that trust the one before.

use api::certificates::Copied;
use api::{Plane, Reason};
use plan::decision::Issue;
use plan::invariants::{Violation, check};
use plan::observed::Offered;
use plan::{Step, decide};
use testkit::run::killed_at_every_write;
use testkit::story::{BOUND, seeds, settle};
use testkit::world::tls::LIFETIME;
use testkit::{Run, World};

fn offer(leaves: &str, trust: &str) -> Copied {
    Copied {
        leaves: leaves.to_owned(),
        trust: trust.to_owned(),
    }
}

fn bad() -> String {
    "Secret theirs, key tls.crt: it is missing".to_owned()
}

fn given(theirs: Result<Copied, String>, seed: u64) -> World {
    let mut world = World::new(3, 6, seed);
    world.object.tls = true;
    world.certificates.theirs = Some(theirs);
    world
}

fn settled(seed: u64) -> Run<'static> {
    let mut run = Run::new(given(Ok(offer("one", "theirs")), seed));
    settle(&mut run, &format!("seed {seed}"));
    run
}

fn uids(run: &Run<'_>) -> Vec<String> {
    run.world.pods.values().map(|pod| pod.uid.clone()).collect()
}

fn shown(run: &Run<'_>) -> Option<Copied> {
    run.world.certificates.members.as_ref()?.copied.clone()
}

fn told(run: &Run<'_>, words: &str) {
    let conditions = &run.world.object.status.conditions;
    let degraded = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    assert_eq!(degraded.reason, Reason::CertificateProblem.to_string());
    assert!(degraded.message.contains(words), "{}", degraded.message);
}

#[test]
fn a_cluster_begins_with_certificates_of_another_source() {
    for seed in seeds(5) {
        let run = settled(seed);
        assert_eq!(run.world.healthy_voters(), 3);
        assert_eq!(shown(&run), Some(offer("one", "theirs")));
        assert_eq!(run.world.certificates.made, 1, "for clients, and for us");
        let clients = run.world.certificates.clients.as_ref().unwrap();
        assert_eq!(clients.asked, "theirs", "clients verify what members show");
    }
    let world = given(Ok(offer("one", "theirs")), 1);
    killed_at_every_write(&world, &|run| run.settle(BOUND)).unwrap();
}

#[test]
fn nothing_begins_before_there_are_certificates_that_can_be_used() {
    let mut run = Run::new(given(Err(bad()), 3));
    run.turns(100);
    assert!(run.world.clusters.is_empty());
    assert!(run.world.pods.is_empty(), "no pod could start");
    told(&run, "key tls.crt: it is missing");
    run.world.certificates.theirs = Some(Ok(offer("one", "theirs")));
    settle(&mut run, "there at last");
    assert_eq!(run.world.healthy_voters(), 3);
}

#[test]
fn what_cannot_be_used_changes_nothing_and_what_is_corrected_comes_without_a_restart() {
    let mut run = settled(2);
    let (pods, before) = (uids(&run), run.world.certificates.members.clone());
    run.world.certificates.theirs = Some(Err(bad()));
    run.turns(60);
    assert_eq!(run.world.certificates.members, before);
    told(&run, "expire at");
    // Nor does it hold up a repair, or the certificate for clients.
    run.world.certificates.clients = None;
    run.world.lose_claim(1);
    run.turns(300);
    assert_eq!(run.world.healthy_voters(), 3);
    assert!(run.world.certificates.clients.is_some());
    let replaced = uids(&run);
    assert_ne!(replaced, pods);
    run.world.certificates.theirs = Some(Ok(offer("two", "theirs")));
    settle(&mut run, "corrected");
    assert_eq!(shown(&run), Some(offer("two", "theirs")));
    run.world.sleep(10);
    settle(&mut run, "and brought");
    let data = run.world.certificates.members.as_ref().unwrap();
    let mut all = run.world.pods.values();
    assert!(all.all(|pod| {
        pod.refreshed
            .as_ref()
            .is_some_and(|it| it.data == data.data)
    }));
    assert_eq!(uids(&run), replaced, "no member is restarted");
}

/// What was copied is not copied again because it grows old, and its owner is told.
#[test]
fn certificates_that_their_source_does_not_renew_are_told() {
    let mut run = settled(2);
    let before = run.world.certificates.members.clone();
    run.world.sleep(LIFETIME / 6 * 5 + 60);
    settle(&mut run, "later");
    assert_eq!(run.world.certificates.members, before);
    told(&run, "renew them where they were copied from");
}

#[test]
fn a_deleted_secret_of_the_members_comes_back_only_from_what_can_be_used() {
    let mut run = settled(2);
    run.world.certificates.members = None;
    run.world.certificates.theirs = Some(Err(bad()));
    run.turns(60);
    assert!(run.world.certificates.members.is_none());
    assert_eq!(run.world.healthy_voters(), 3, "members that run go on");
    run.world.certificates.theirs = Some(Ok(offer("one", "theirs")));
    settle(&mut run, "back");
    assert_eq!(shown(&run), Some(offer("one", "theirs")));
}

#[test]
fn tls_is_switched_on_only_with_certificates_that_can_be_used() {
    for seed in seeds(3) {
        let mut run = Run::new(World::new(3, 6, seed));
        settle(&mut run, "plaintext");
        run.world.object.live_switch = true;
        run.world.certificates.theirs = Some(Err(bad()));
        run.world.ask_for_tls(true);
        run.turns(150);
        let plain = |run: &Run<'_>| {
            let mut pods = run.world.pods.values();
            pods.all(|pod| pod.template.transport.is_plain())
        };
        assert!(plain(&run), "no rung without certificates");
        told(&run, "key tls.crt: it is missing");
        run.world.certificates.theirs = Some(Ok(offer("one", "theirs")));
        settle(&mut run, &format!("switched, seed {seed}"));
        let mut pods = run.world.pods.values();
        assert!(pods.all(|pod| pod.template.transport.peer == Plane::Tls));
        assert_eq!(shown(&run), Some(offer("one", "theirs")));
    }
}

/// Certificates of another source are left from an earlier switch.
#[test]
fn tls_is_not_switched_on_with_what_another_source_left() {
    let mut world = World::new(3, 6, 6);
    world.object.live_switch = true;
    world.object.tls = true;
    let mut run = Run::new(world);
    settle(&mut run, "with the operator's own");
    run.world.ask_for_tls(false);
    settle(&mut run, "switched off");
    assert!(run.world.certificates.members.is_some());
    run.world.certificates.theirs = Some(Err(bad()));
    run.world.ask_for_tls(true);
    for _turn in 0..150 {
        assert_eq!(run.turn().forbidden, None);
    }
    let mut pods = run.world.pods.values();
    assert!(pods.all(|pod| pod.template.transport.is_plain()));
    told(&run, "key tls.crt: it is missing");
    run.world.certificates.theirs = Some(Ok(offer("one", "theirs")));
    settle(&mut run, "switched on");
    assert_eq!(shown(&run), Some(offer("one", "theirs")));
    assert_eq!(run.world.healthy_voters(), 3);
}

#[test]
fn what_breaks_while_a_cluster_forms_does_not_hold_it_up() {
    for turns in [5, 10, 15, 20, 30] {
        let mut run = Run::new(given(Ok(offer("one", "theirs")), 7));
        run.turns(turns);
        let begun = run.world.certificates.members.is_some();
        run.world.certificates.theirs = Some(Err(bad()));
        run.turns(400);
        let voters = if begun { 3 } else { 0 };
        assert_eq!(run.world.healthy_voters(), voters, "after {turns} turns");
    }
}

#[test]
fn neither_another_authority_nor_what_cannot_be_used_is_ever_written_under_members() {
    let mut run = settled(5);
    let step = Step::IssueCertificates(Issue {
        members: true,
        ..Issue::default()
    });
    let mut observed = run.look().observed;
    for (offered, allowed) in [
        (Offered::Usable(offer("two", "theirs")), true),
        (Offered::Usable(offer("two", "others")), false),
        (Offered::Unusable(bad()), false),
        (Offered::Own, false),
    ] {
        observed.certificates.offered = offered.clone();
        let expected = if allowed {
            Ok(())
        } else {
            Err(Violation::Transport)
        };
        assert_eq!(check(&observed, &step), expected, "{offered:?}");
        let decided = decide(&observed);
        assert_eq!(decided.step == step, allowed, "{offered:?}");
        assert_eq!(decided.forbidden, None);
    }
}

/// cert-manager is asked before anything waits for it; where the request is rejected, the wait is told, and ends once it is not.
#[test]
fn cert_manager_is_asked_first_and_a_request_that_is_rejected_ends_nothing() {
    for seed in seeds(5) {
        let mut world = given(Err(bad()), seed);
        world.certificates.awaits = Some(Ok(offer("one", "theirs")));
        let mut run = Run::new(world);
        run.world.reject("RequestCertificate", None);
        run.turns(60);
        assert!(run.world.pods.is_empty(), "nothing began, seed {seed}");
        run.world.rejects.clear();
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(shown(&run), Some(offer("one", "theirs")));
        // Another request, of members that run, which is rejected: they go on.
        let before = uids(&run);
        run.world.certificates.awaits = Some(Ok(offer("two", "theirs")));
        run.world.reject("RequestCertificate", None);
        run.turns(60);
        assert_eq!(
            (uids(&run), shown(&run)),
            (before.clone(), Some(offer("one", "theirs")))
        );
        run.world.rejects.clear();
        // What was rejected rests for a while, and is then tried again.
        let two = Some(offer("two", "theirs"));
        let asked = (0..BOUND).any(|_| {
            run.turn();
            shown(&run) == two
        });
        assert!(asked, "seed {seed}");
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!((uids(&run), shown(&run)), (before, two));
    }
}
