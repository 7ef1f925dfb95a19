//! What to run next, as a table: it follows from the spec and the memory alone.

use api::intent::InvalidSpec;
use api::v1alpha1::cluster::EtcdClusterSpec;
use api::v1alpha1::maintenance::{Compact, Maintenance};
use api::v1alpha1::status::KnownVoter;
use api::{ClusterIntent, EtcdVersion, Plane, Transport};
use plan::observed::{Latched, Proven};
use plan::target::{Target, decide_target, keep_in_force};
use testkit::intent::intent;

fn version(text: &str) -> EtcdVersion {
    EtcdVersion::parse(text).unwrap()
}

fn asking(for_version: &str, walk: bool) -> ClusterIntent {
    ClusterIntent {
        version: version(for_version),
        allow_intermediate: walk,
        ..intent(3, 6)
    }
}

fn proven(runs: &str, everywhere: bool) -> Latched {
    Latched {
        incarnation: 1,
        cluster_id: Some(1),
        proven: Some(Proven {
            template: "proven".to_owned(),
            version: version(runs),
            everywhere,
            before: (!everywhere).then(|| version("3.5.35")),
        }),
        ..Latched::default()
    }
}

/// The release that is next, or a part of why there is none.
fn outcome(target: &Target) -> Result<String, String> {
    match &target.refused {
        None => Ok(target.intent.version.to_string()),
        Some(why) => Err(why.to_string()),
    }
}

#[test]
fn the_next_release_follows_from_the_one_that_is_proven() {
    for (runs, everywhere, asked, walk, expected) in [
        // Nothing to do, and another patch of the same minor version, up and down.
        ("3.6.16", true, "3.6.16", false, "3.6.16"),
        ("3.6.11", true, "3.6.16", false, "3.6.16"),
        ("3.6.16", true, "3.6.11", false, "3.6.11"),
        ("3.6.11", false, "3.6.16", false, "3.6.16"),
        // One minor version up, once the last one has reached every member.
        ("3.5.35", true, "3.6.16", false, "3.6.16"),
        ("3.5.35", false, "3.6.16", false, "3.5.35"),
        ("3.6.16", true, "3.7.3", false, "3.7.3"),
        // Two minor versions up are walked.
        ("3.5.35", true, "3.7.3", true, "3.6.16"),
        ("3.6.16", false, "3.7.3", true, "3.6.16"),
        // From below a floor through the newest of the minor version.
        ("3.5.10", true, "3.6.16", true, "3.5.35"),
        // One minor version down, at any moment: what was begun is reverted.
        ("3.6.16", true, "3.5.35", false, "3.5.35"),
        ("3.6.16", false, "3.5.35", false, "3.5.35"),
        ("3.7.3", true, "3.5.35", true, "3.6.16"),
    ] {
        let target = decide_target(&asking(asked, walk), &proven(runs, everywhere));
        let what = format!("{runs} ({everywhere}) to {asked}");
        assert_eq!(outcome(&target), Ok(expected.to_owned()), "{what}");
        assert_eq!(
            target.template,
            manifests::template_hash(&target.intent),
            "{what}"
        );
    }
}

#[test]
fn a_release_that_cannot_be_reached_leaves_everything_as_it_is() {
    for (runs, asked, first) in [
        ("3.5.35", "3.7.3", "3.6.16"),
        ("3.5.10", "3.6.16", "3.5.35"),
        ("3.7.3", "3.5.35", "3.6.16"),
    ] {
        let target = decide_target(&asking(asked, false), &proven(runs, true));
        let why = target.refused.unwrap().to_string();
        assert!(why.contains(first), "{runs} to {asked}: {why}");
        assert_eq!(target.template, "proven");
        assert_eq!(target.intent.version, version(runs));
    }
}

#[test]
fn a_walk_needs_an_image_that_follows_the_version() {
    let mut pinned = asking("3.7.3", true);
    pinned.image.tag = Some("v3.7.3".to_owned());
    let target = decide_target(&pinned, &proven("3.5.35", true));
    let why = target.refused.unwrap().to_string();
    assert!(why.contains("pinned") && why.contains("3.6.16"), "{why}");
    assert_eq!(target.template, "proven");
    // A StatefulSet that has to be rendered gets the release that runs, never the one that was refused.
    pinned.image.digest = Some("sha256:ab".to_owned());
    for image in [
        &pinned,
        &ClusterIntent {
            allow_intermediate: false,
            ..pinned.clone()
        },
    ] {
        let target = decide_target(image, &proven("3.5.35", true));
        assert_eq!(target.intent.version, version("3.5.35"));
        let reference = target.intent.image_reference();
        assert!(reference.ends_with(":v3.5.35"), "{reference}");
    }
    pinned.image.digest = None;
    // One minor version needs no walk.
    let target = decide_target(&pinned, &proven("3.6.16", true));
    assert_eq!(outcome(&target), Ok("3.7.3".to_owned()));
}

#[test]
fn before_there_is_a_cluster_the_spec_is_the_target() {
    for latched in [
        Latched::default(),
        Latched {
            cluster_id: None,
            ..proven("3.5.35", true)
        },
        Latched {
            proven: None,
            ..proven("3.5.35", true)
        },
    ] {
        let target = decide_target(&asking("3.7.3", false), &latched);
        assert_eq!(outcome(&target), Ok("3.7.3".to_owned()));
    }
}

#[test]
fn the_quota_follows_the_size_that_every_volume_has_reached() {
    let mut larger = asking("3.6.16", false);
    larger.storage.size = api::Quantity("8Gi".to_owned());
    larger.storage.bytes = 8 << 30;
    let hash = |storage| {
        let latched = Latched {
            storage,
            ..proven("3.6.16", true)
        };
        decide_target(&larger, &latched).template
    };
    assert_ne!(hash(Some(2 << 30)), hash(Some(8 << 30)));
    assert_eq!(hash(None), hash(Some(8 << 30)));
}

#[test]
fn the_size_and_the_policies_are_no_change_of_the_target() {
    let template = |spec: &ClusterIntent| decide_target(spec, &proven("3.6.16", true)).template;
    let spec = asking("3.6.16", false);
    let mut other = spec.clone();
    other.size = 5;
    other.allow_intermediate = true;
    other.storage.when_stopped = api::v1alpha1::cluster::Retention::Delete;
    assert_eq!(template(&spec), template(&other));
}

#[test]
fn a_minor_version_on_the_way_down_reaches_every_member_before_the_next_one() {
    let mut latched = proven("3.6.16", false);
    latched.proven.as_mut().unwrap().before = Some(version("3.7.3"));
    let down = decide_target(&asking("3.5.35", true), &latched);
    assert_eq!(outcome(&down), Ok("3.6.16".to_owned()));
    // The way back to where the others are is open.
    let back = decide_target(&asking("3.7.3", false), &latched);
    assert_eq!(outcome(&back), Ok("3.7.3".to_owned()));
}

/// While a spec makes no sense, a StatefulSet that was scaled by hand counts no voter down, only the owner's own 0 stops a
/// cluster, and what the owner forbade to compact stays.
#[test]
fn a_spec_that_makes_no_sense_keeps_every_voter_and_all_history() {
    let voter = |ordinal: u32| KnownVoter {
        member: format!("db-{ordinal}"),
        member_id: format!("{ordinal:x}"),
        index: None,
    };
    let latched = Latched {
        voters: (0..3).map(voter).collect(),
        ..proven("3.6.16", true)
    };
    let kept = |spec: &EtcdClusterSpec, replicas: u32| {
        let invalid = InvalidSpec::Window("none".to_owned());
        keep_in_force(spec, (&latched, Some(replicas)), &invalid).unwrap()
    };
    for (asked, replicas, size) in [(3, 0, 3), (3, 2, 3), (3, 5, 5), (0, 0, 0)] {
        let spec = EtcdClusterSpec {
            size: Some(asked),
            ..EtcdClusterSpec::default()
        };
        assert_eq!(
            kept(&spec, replicas).intent.size,
            size,
            "{asked} {replicas}"
        );
    }
    let history = |compact, keep_revisions| {
        let spec = EtcdClusterSpec {
            maintenance: Some(Maintenance {
                compact,
                keep_revisions,
                ..Maintenance::default()
            }),
            ..EtcdClusterSpec::default()
        };
        kept(&spec, 3).intent.maintenance.history
    };
    assert_eq!(history(Compact::Never, None), None);
    assert_eq!(history(Compact::Auto, Some(50_000)), Some(50_000));
}

fn clients(client: Plane) -> Transport {
    let peer = Plane::Plain;
    Transport { client, peer }
}

#[test]
fn the_next_rung_of_the_transport_follows_from_the_one_that_is_proven() {
    let (plain, both, tls) = (Plane::Plain, Plane::Both, Plane::Tls);
    for (runs, before, asked, expected) in [
        // Every member has reached it: one rung at a time, in both directions.
        (plain, None, tls, both),
        (both, None, tls, tls),
        (tls, None, plain, both),
        (both, None, plain, plain),
        (both, None, both, both),
        // Others are still on their way: nothing further, and back to where they are.
        (both, Some(plain), tls, both),
        (both, Some(plain), plain, plain),
        (both, Some(tls), plain, both),
        (both, Some(tls), tls, tls),
        (tls, Some(both), plain, both),
        (plain, Some(both), tls, both),
    ] {
        let everywhere = before.is_none();
        let latched = Latched {
            transport: Some(clients(runs)),
            transport_before: before.map(clients),
            ..proven("3.6.16", everywhere)
        };
        let mut intent = asking("3.6.16", false);
        intent.tls.transport = clients(asked);
        intent.tls.live_switch = true;
        let target = decide_target(&intent, &latched);
        let next = target.intent.tls.transport.client;
        assert_eq!(next, expected, "{runs:?} and {before:?} to {asked:?}");
        assert_eq!(target.runs, clients(runs));
    }
}

/// Nor where a release cannot be reached, which leaves everything as it is.
#[test]
fn without_consent_or_while_a_release_is_refused_no_rung_is_next() {
    let latched = Latched {
        transport: Some(clients(Plane::Plain)),
        ..proven("3.5.35", true)
    };
    for (version, live_switch) in [("3.5.35", false), ("3.7.3", true)] {
        let mut intent = asking(version, false);
        intent.tls.transport = clients(Plane::Tls);
        intent.tls.live_switch = live_switch;
        let target = decide_target(&intent, &latched);
        assert_eq!(target.intent.tls.transport, clients(Plane::Plain));
    }
}
