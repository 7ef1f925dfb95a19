//! Clusters with TLS: certificates come before pods, data starts on the schemes that it was stopped with, and no authority is
//! replaced under members that trust it.

use std::collections::BTreeSet;

use api::Reason;
use api::{Plane, Transport};
use manifests::Template;
use plan::decision::Issue;
use plan::invariants::{Violation, check};
use plan::shape::decide_shape;
use plan::{Observed, Step, decide};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle};
use testkit::world::tls::LIFETIME;
use testkit::{Run, World};

const TLS: Transport = Transport {
    client: Plane::Tls,
    peer: Plane::Tls,
};

fn locked(size: u32, minor: u8, seed: u64) -> World {
    let mut world = World::new(size, minor, seed);
    world.object.tls = true;
    world
}

fn settled(size: u32, minor: u8, seed: u64) -> Run<'static> {
    let mut run = Run::new(locked(size, minor, seed));
    settle(&mut run, &format!("size {size}, 3.{minor}, seed {seed}"));
    run
}

/// The schemes under which members of all clusters are listed.
fn schemes(world: &World) -> BTreeSet<String> {
    let members = world.clusters.values().flat_map(|cluster| &cluster.members);
    let urls = members.flat_map(|member| &member.peer_urls);
    let schemes = urls.filter_map(|url| url.split_once("://"));
    schemes.map(|(scheme, _)| scheme.to_owned()).collect()
}

fn transports(world: &World) -> BTreeSet<Transport> {
    let pods = world.pods.values();
    pods.map(|pod| pod.template.transport).collect()
}

#[test]
fn a_cluster_with_tls_is_created_on_every_minor_version() {
    for minor in [5, 6, 7] {
        for size in [1, 3, 5] {
            for seed in seeds(5) {
                let run = settled(size, minor, seed);
                assert_eq!(run.world.healthy_voters(), usize::try_from(size).unwrap());
                assert_eq!(schemes(&run.world), ["https".to_owned()].into());
                assert_eq!(transports(&run.world), [TLS].into());
                assert_eq!(run.world.certificates.made, 1, "one authority");
                let status = &run.world.object.status;
                assert!(status.certificates.is_some());
                assert!(status.client_endpoints[0].starts_with("https://"));
            }
        }
    }
}

#[test]
fn with_tls_creation_and_a_replacement_survive_a_kill_at_every_write() {
    for (size, minor) in [(1, 5), (3, 6)] {
        killed_at_every_write(&locked(size, minor, 1), &|run| run.settle(BOUND)).unwrap();
    }
    let mut run = settled(3, 6, 7);
    run.world.writes = 0;
    for lose in [World::lose_claim, World::empty_volume] {
        let mut world = run.world.clone();
        lose(&mut world, 1);
        killed_at_every_write(&world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn with_tls_creation_survives_every_fault_at_once() {
    for seed in seeds(20) {
        let mut run = Run::new(locked(3, 6, seed));
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(schemes(&run.world), ["https".to_owned()].into());
    }
}

/// Members find each other again only as they were listed.
#[test]
fn retained_data_starts_on_the_schemes_that_it_was_stopped_with() {
    for before in [true, false] {
        for seed in seeds(5) {
            let mut world = World::new(3, 6, seed);
            world.object.tls = before;
            let mut run = Run::new(world);
            settle(&mut run, "before");
            let (listed, spoke) = (schemes(&run.world), transports(&run.world));
            run.world.create_again(3);
            run.world.object.tls = !before;
            settle(
                &mut run,
                &format!("resumed, TLS before: {before}, seed {seed}"),
            );
            assert_eq!(schemes(&run.world), listed, "TLS before: {before}");
            assert_eq!(transports(&run.world), spoke, "TLS before: {before}");
            assert_eq!(run.world.clusters.len(), 1);
        }
    }
}

#[test]
fn resuming_on_other_schemes_survives_a_kill_at_every_write() {
    for before in [true, false] {
        let mut world = World::new(3, 6, 3);
        world.object.tls = before;
        let mut run = Run::new(world);
        settle(&mut run, "before");
        run.world.create_again(3);
        run.world.object.tls = !before;
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn a_stop_an_edit_of_tls_and_a_start_bring_back_what_was_stopped() {
    for before in [true, false] {
        let mut world = World::new(3, 6, 5);
        world.object.tls = before;
        let mut run = Run::new(world);
        settle(&mut run, "before");
        let listed = schemes(&run.world);
        run.world.resize(0);
        settle(&mut run, "stopped");
        run.world.ask_for_tls(!before);
        // Not even a wiped status forgets it: the claims tell.
        run.world.wipe_status();
        run.world.resize(3);
        settle(&mut run, "started");
        assert_eq!(schemes(&run.world), listed);
        assert_eq!(run.world.healthy_voters(), 3);
    }
}

#[test]
fn an_edit_that_switches_tls_changes_nothing_and_is_told() {
    for before in [true, false] {
        let mut world = World::new(3, 6, 5);
        world.object.tls = before;
        let mut run = Run::new(world);
        settle(&mut run, "before");
        let uids: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
        run.world.ask_for_tls(!before);
        run.turns(60);
        let decision = decide(&run.look().observed);
        assert_eq!(decision.step, Step::Nothing);
        let after: Vec<String> = run.world.pods.values().map(|pod| pod.uid.clone()).collect();
        assert_eq!(uids, after, "no member is restarted");
        let conditions = &run.world.object.status.conditions;
        let told = |kind: &str, words: &str| {
            let mut conditions = conditions.iter().filter(|c| c.type_ == kind);
            conditions.any(|c| c.message.contains(words))
        };
        if before {
            assert!(told("Degraded", "asks for plaintext"), "{conditions:?}");
        } else {
            assert!(told("Progressing", "without the TLS"), "{conditions:?}");
        }
    }
}

#[test]
fn a_status_that_is_wiped_at_any_moment_changes_no_scheme() {
    for seed in seeds(10) {
        let mut run = Run::new(locked(3, 6, seed));
        for _turn in 0..40 {
            run.turns(4);
            run.world.wipe_status();
        }
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(
            schemes(&run.world),
            ["https".to_owned()].into(),
            "seed {seed}"
        );
        assert_eq!(transports(&run.world), [TLS].into(), "seed {seed}");
    }
}

#[test]
fn a_deleted_secret_is_issued_again_by_the_same_authority() {
    let mut run = settled(3, 6, 2);
    let authorities = |run: &Run<'_>| {
        let issued = &run.world.certificates;
        [&issued.members, &issued.clients].map(|it| it.as_ref().map(|it| it.authorities.clone()))
    };
    let before = authorities(&run);
    run.world.certificates.members = None;
    run.world.certificates.clients = None;
    settle(&mut run, "issued again");
    assert_eq!(authorities(&run), before);
    assert_eq!(run.world.certificates.made, 1);
}

/// What members trust is known by no Secret any more.
#[test]
fn where_all_is_deleted_it_is_told_holds_up_no_repair_and_is_replaced_by_a_stop() {
    let mut run = settled(3, 6, 2);
    run.world.certificates.authority = None;
    run.world.certificates.members = None;
    run.world.certificates.clients = None;
    run.turns(150);
    assert_eq!(run.world.certificates.made, 1, "never simply another one");
    assert_eq!(run.world.healthy_voters(), 3);
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    assert_eq!(told.reason, Reason::CertificateProblem.to_string());
    assert!(told.message.contains("spec.size to 0"), "{}", told.message);
    // The remedy that is named.
    run.world.resize(0);
    run.turns(100);
    run.world.resize(3);
    settle(&mut run, "started with another authority");
    assert_eq!(run.world.certificates.made, 2);
    assert_eq!(run.world.clusters.len(), 1, "the same data");
}

#[test]
fn certificates_are_renewed_in_time_and_no_member_is_restarted() {
    let mut run = settled(3, 6, 2);
    let uids = |run: &Run<'_>| -> Vec<String> {
        run.world.pods.values().map(|pod| pod.uid.clone()).collect()
    };
    let (pods, before) = (uids(&run), run.world.certificates.members.clone().unwrap());
    run.world.sleep(LIFETIME / 3 * 2 + 1);
    for _turn in 0..20 {
        run.turn();
        let phase = run.world.object.status.phase;
        assert_eq!(phase, Some(api::v1alpha1::status::Phase::Running));
    }
    settle(&mut run, "renewed");
    let after = run.world.certificates.members.clone().unwrap();
    assert_ne!(before.data, after.data);
    assert_eq!(before.authorities, after.authorities);
    assert_eq!(uids(&run), pods);
    // Every kubelet is told, and once more when it has surely heard.
    run.world.sleep(10);
    settle(&mut run, "told again");
    let told = run
        .world
        .pods
        .values()
        .map(|pod| pod.refreshed.clone().unwrap());
    for told in told {
        assert_eq!(told.data, after.data);
        assert!(told.at >= after.issued_at.0.as_second() + 5, "{told}");
    }
}

#[test]
fn secrets_that_cannot_be_written_hold_up_no_repair_and_are_told() {
    let mut run = settled(3, 6, 4);
    run.world.sleep(LIFETIME / 3 * 2 + 1);
    run.world.reject("IssueCertificates", None);
    run.world.lose_claim(1);
    run.turns(400);
    assert_eq!(run.world.healthy_voters(), 3, "the member was replaced");
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    assert!(
        told.message.contains("denied IssueCertificates"),
        "{}",
        told.message
    );
}

#[test]
fn a_cluster_whose_first_certificates_cannot_be_written_begins_once_they_can() {
    let mut run = Run::new(locked(3, 6, 4));
    run.world.reject("IssueCertificates", None);
    run.turns(200);
    assert!(
        run.world.clusters.is_empty(),
        "nothing begins without certificates"
    );
    run.world.rejects.clear();
    // The pause that has grown is over.
    run.world.sleep(120);
    settle(&mut run, "written at last");
    assert_eq!(run.world.certificates.made, 1);
}

#[test]
fn what_a_remedy_would_delete_is_said_before() {
    let mut run = settled(3, 6, 2);
    run.world.object.when_stopped = api::v1alpha1::cluster::Retention::Delete;
    run.world.certificates.authority = None;
    run.world.certificates.members = None;
    run.turns(20);
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    assert!(
        told.message.contains("whenStopped to Retain"),
        "{}",
        told.message
    );
}

#[test]
fn certificates_that_are_not_renewed_in_a_pause_are_told() {
    let mut run = settled(3, 6, 2);
    run.world.pause(true);
    run.world.sleep(LIFETIME / 6 * 5 + 60);
    run.turns(20);
    let conditions = &run.world.object.status.conditions;
    let told = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    assert!(
        told.message.contains("should have been renewed"),
        "{}",
        told.message
    );
}

/// Claims that were made by hand, for volumes that were restored from snapshots, tell nothing.
#[test]
fn volumes_tell_their_transport_where_their_claims_do_not() {
    let mut run = settled(3, 6, 2);
    run.world.create_again(3);
    run.world.object.tls = false;
    for claim in run.world.claims.values_mut() {
        claim.lineage = String::new();
        let identity = claim.volume.identity.as_mut().unwrap();
        identity.transport = Some(TLS.to_string());
    }
    settle(&mut run, "resumed");
    assert_eq!(transports(&run.world), [TLS].into());
}

/// Until the StatefulSet controller has seen another template, no pod counts as outdated.
#[test]
fn no_start_is_granted_to_a_pod_that_was_made_for_another_transport() {
    let mut world = World::new(3, 6, 3);
    world.object.tls = true;
    let mut run = Run::new(world);
    settle(&mut run, "before");
    run.world.create_again(3);
    run.world.object.tls = false;
    for _turn in 0..200 {
        let mut observed = run.look().observed;
        for pod in observed.pods.values_mut() {
            pod.outdated = false;
        }
        let (asked, step) = (observed.transport(), decide(&observed).step);
        match step {
            Step::Grant { ordinal, .. } => {
                assert_eq!(observed.pods[&ordinal].transport, asked);
            }
            Step::Latch(latched) if latched.cluster_id.is_some() => {
                let mut pods = observed.pods.values();
                assert!(pods.all(|pod| pod.transport == asked), "{observed:?}");
            }
            _other => {}
        }
        // A grant to such a pod is refused, whichever rule proposes it.
        for (ordinal, pod) in &observed.pods {
            if let Some(report) = pod.held().filter(|_| pod.transport != asked) {
                let grant = gate::Grant {
                    nonce: report.nonce.clone(),
                    cluster_uid: observed.cluster.uid.clone(),
                    incarnation: 1,
                    action: gate::Action::Resume {
                        member_id: "1".to_owned(),
                        cluster_id: "1".to_owned(),
                    },
                };
                let step = Step::Grant {
                    ordinal: *ordinal,
                    pod_uid: pod.uid.clone(),
                    grant,
                };
                assert_eq!(check(&observed, &step), Err(Violation::Transport));
            }
        }
        run.turn();
    }
}

/// Issues another authority while members trust the first.
fn issues_another_authority(observed: &Observed) -> Option<Step> {
    let trusts = observed.pods.values().any(|pod| pod.transport == TLS);
    trusts.then_some(Step::IssueCertificates(Issue {
        authority: true,
        members: true,
        clients: true,
        ..Issue::default()
    }))
}

/// Records other schemes than the members have.
fn records_other_schemes(observed: &Observed) -> Option<Step> {
    let mut latched = observed.cluster.latched.clone();
    latched.cluster_id?;
    latched.transport = Some(Transport::default());
    Some(Step::Latch(latched))
}

fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let mut run = Run::with(settled(3, 6, 1).world, &wrong);
    run.unchecked = unchecked;
    // Where there is one, the API server refuses to create another.
    run.world.certificates.authority = None;
    run.turns(40);
    caught.note(&run);
    caught
}

fn refused_as(mutant: Mutant, violation: &Violation) {
    stories(mutant, false).assert_refused(violation);
}

#[test]
fn another_authority_and_other_schemes_are_refused() {
    refused_as(issues_another_authority, &Violation::Transport);
    refused_as(records_other_schemes, &Violation::Transport);
    stories(issues_another_authority, true).assert_harm("another authority");
}

#[test]
fn no_template_is_rendered_with_other_schemes_than_the_members_have() {
    let mut run = settled(3, 6, 1);
    let mut observed = run.look().observed;
    let shape = decide_shape(&observed).unwrap();
    for template in [Template::Render, Template::Try] {
        let mut shape = shape.clone();
        shape.template = template;
        let target = observed.cluster.target.as_mut().unwrap();
        target.runs = Transport::default();
        target.intent.tls.transport = Transport::default();
        let checked = check(&observed, &Step::ApplyObjects(shape));
        assert_eq!(checked, Err(Violation::Transport), "{template:?}");
    }
}
