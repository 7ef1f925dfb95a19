//! The page, from what is counted and what the caches hold.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DeserializeGuard;
use kube::runtime::{reflector, watcher};
use proptest::prelude::*;
use serde_json::{Value, json};
use signals::metrics::{backup as of_backup, cluster as of_cluster, operator as of_operator};

use super::*;
use crate::board::{Database, Seen};

const PLACE: &str = "namespace=\"prod\",cluster=\"db\"";

fn seen() -> Seen {
    Seen {
        at: Timestamp::from_second(100).unwrap(),
        voters: Some(3),
        wanted: api::EtcdVersion::parse("3.6.16"),
        database: Some(Database {
            size: 40,
            in_use: 30,
            quota: Some(50),
        }),
        lag: Some(2),
    }
}

/// So many clusters, all alike but for their names.
pub(crate) fn fleet(count: usize) -> Store<Guarded> {
    let mut writer = reflector::store::Writer::<Guarded>::default();
    for number in 0..count {
        let cluster = json!({
            "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"namespace": "prod", "name": format!("db-{number}"), "uid": format!("u-{number}")},
            "spec": {"size": 3}, "status": full(),
        });
        let cluster: Guarded = DeserializeGuard(Ok(serde_json::from_value(cluster).unwrap()));
        writer.apply_watcher_event(&watcher::Event::Apply(cluster));
    }
    writer.as_reader()
}

fn page(metrics: Metrics, health: Health) -> String {
    let mut text = String::new();
    Arc::new(metrics)
        .write(&Arc::new(health), &mut text)
        .unwrap();
    text
}

/// The page of one cluster with this status, and of what a look saw of it.
fn of(status: &Value, seen: Option<Seen>) -> String {
    let metrics = Metrics::default();
    let board = Arc::new(Board::default());
    if let Some(seen) = seen {
        board.put("u", seen);
    }
    let cluster = json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"namespace": "prod", "name": "db", "uid": "u"},
        "spec": {"size": 3}, "status": status,
    });
    let mut writer = reflector::store::Writer::<Guarded>::default();
    let cluster: Guarded = DeserializeGuard(Ok(serde_json::from_value(cluster).unwrap()));
    writer.apply_watcher_event(&watcher::Event::Apply(cluster));
    metrics.watch(writer.as_reader(), board);
    page(metrics, Health::default())
}

/// The page of one EtcdBackup with this status.
fn of_one_backup(status: &Value) -> String {
    let metrics = Metrics::default();
    let backup = json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"namespace": "prod", "name": "nightly"},
        "spec": {"clusterName": "db", "storageType": "S3"}, "status": status,
    });
    let mut writer = reflector::store::Writer::<backup::Guarded>::default();
    let backup: backup::Guarded = DeserializeGuard(Ok(serde_json::from_value(backup).unwrap()));
    writer.apply_watcher_event(&watcher::Event::Apply(backup));
    metrics.watch_backups(writer.as_reader());
    page(metrics, Health::default())
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "",
           "lastTransitionTime": "1970-01-01T00:00:00Z"})
}

fn full() -> Value {
    json!({
        "phase": "Running", "readyReplicas": 2, "version": "3.5.35",
        "certificates": {"notAfter": "1970-01-01T00:00:09Z", "renewalTime": "1970-01-01T00:00:06Z",
            "authorityNotAfter": "1970-01-01T00:00:08Z", "clientSecret": "db-client-tls"},
        "conditions": [condition("Available", "True", "QuorumHealthy"),
            condition("Progressing", "True", "RollingOut"),
            condition("Degraded", "False", "AsExpected"), condition("Ready", "Unknown", "RollingOut")],
    })
}

#[track_caller]
fn has(text: &str, expected: &[String]) {
    for expected in expected {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
}

fn series<'a>(text: &'a str, holds: &str) -> Vec<&'a str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter(|line| line.contains(holds)).collect()
}

#[test]
fn how_a_cluster_is_can_be_read() {
    let text = of(&full(), Some(seen()));
    let number = |name: &str, value: i64| format!("etcd_cluster_{name}{{{PLACE}}} {value}");
    has(
        &text,
        &[
            number("size", 3),
            number("voters", 3),
            number("healthy_voters", 2),
            number("health", 1),
            format!("etcd_cluster_phase{{{PLACE},phase=\"Running\"}} 1"),
            format!(
                "etcd_cluster_condition{{{PLACE},condition=\"Available\",reason=\"QuorumHealthy\"}} 1"
            ),
            format!(
                "etcd_cluster_condition{{{PLACE},condition=\"Degraded\",reason=\"AsExpected\"}} 0"
            ),
            format!(
                "etcd_cluster_condition{{{PLACE},condition=\"Ready\",reason=\"RollingOut\"}} -1"
            ),
            format!("etcd_cluster_info{{{PLACE},version=\"3.5.35\",wanted=\"3.6.16\"}} 1"),
            number("db_size_bytes", 40),
            number("db_in_use_bytes", 30),
            number("db_quota_bytes", 50),
            number("lag_entries", 2),
            number("looked_timestamp_seconds", 100),
            // The authority is what ends first.
            number("certificate_expires_seconds", 8),
            number("certificate_renewal_seconds", 6),
        ],
    );
    assert_eq!(series(&text, PLACE).len(), of_cluster::MOST, "{text}");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_cluster_that_is_stopped_or_never_was_is_neither_healthy_nor_down() {
    for (reason, unavailable, expected) in [
        ("QuorumHealthy", false, Some(1)),
        ("NoSpace", false, Some(1)),
        ("QuorumLost", true, Some(0)),
        ("EtcdUnreachable", true, Some(0)),
        ("Stopped", false, None),
        ("NotFormed", false, None),
    ] {
        let status = if reason == "QuorumHealthy" {
            "True"
        } else {
            "False"
        };
        let mut told = json!({"conditions": [condition("Available", status, reason)]});
        if unavailable {
            told["unavailableSince"] = json!("1970-01-01T00:00:07Z");
        }
        let text = of(&told, Some(seen()));
        let health = series(&text, "etcd_cluster_health{");
        let expected: Vec<_> = expected
            .iter()
            .map(|value| format!("etcd_cluster_health{{{PLACE}}} {value}"))
            .collect();
        assert_eq!(health, expected, "{reason}");
        let voters = series(&text, "etcd_cluster_voters{").len();
        assert_eq!(voters, expected.len(), "{reason}");
        // What is behind a leader needs one.
        let lag = series(&text, "etcd_cluster_lag_entries{").len();
        assert_eq!(lag, usize::from(!unavailable), "{reason}");
    }
    assert!(series(&of(&json!({}), None), "etcd_cluster_health{").is_empty());
}

#[test]
fn after_a_restart_voters_are_those_that_were_recorded() {
    let voter = |name: &str| json!({"member": name, "memberID": "1"});
    let mut told = full();
    told["memory"] = json!({"objectUID": "u", "voters": [voter("db-0"), voter("db-1")]});
    let blind = Seen {
        voters: None,
        ..seen()
    };
    let text = of(&told, Some(blind));
    has(&text, &[format!("etcd_cluster_voters{{{PLACE}}} 2")]);
}

#[test]
fn what_was_done_can_be_read() {
    let metrics = Arc::new(Metrics::default());
    for _ in 0..2 {
        metrics.count("RetireMember", Reason::ReplacingMember, &Outcome::Done);
    }
    metrics.time_step("RetireMember", Duration::from_millis(30));
    metrics.count_request(ApiRequest {
        verb: "get",
        resource: "pods".into(),
        code: 404,
    });
    metrics.lead();
    drop(metrics.begin_look());
    let _look = metrics.begin_look();
    let mut old: EtcdClusterStatus = serde_json::from_value(full()).unwrap();
    let mut new = old.clone();
    new.conditions[3].status = "True".into();
    let later = Timestamp::from_second(15).unwrap();
    metrics.changed(&old, &new, later);
    // What was Ready before has not changed.
    old.conditions[3].status = "True".into();
    metrics.changed(&old, &new, later);
    let health = Health::default();
    let pods = health.scope(Some("prod")).cache("Pod");
    pods.fail(false);
    pods.hear(true);
    let mut text = String::new();
    metrics.write(&Arc::new(health), &mut text).unwrap();
    has(&text, &[
        "etcd_operator_steps_total{step=\"RetireMember\",reason=\"ReplacingMember\",outcome=\"done\"} 2".to_owned(),
        "etcd_operator_step_duration_seconds_bucket{le=\"0.025\",step=\"RetireMember\"} 0".to_owned(),
        "etcd_operator_step_duration_seconds_bucket{le=\"0.05\",step=\"RetireMember\"} 1".to_owned(),
        "etcd_operator_change_duration_seconds_sum{kind=\"Running\"} 15.0".to_owned(),
        "etcd_operator_change_duration_seconds_count{kind=\"Running\"} 1".to_owned(),
        "etcd_operator_api_requests_total{verb=\"get\",resource=\"pods\",code=\"404\"} 1".to_owned(),
        "etcd_operator_watch_failures_total{kind=\"Pod\"} 1".to_owned(),
        "etcd_operator_cache_filled{kind=\"Pod\"} 1".to_owned(),
        "etcd_operator_namespace_readable{namespace=\"prod\"} 1".to_owned(),
        "etcd_operator_leading 1".to_owned(),
        "etcd_operator_looks_in_flight 1".to_owned(),
        "etcd_operator_look_duration_seconds_count 1".to_owned(),
    ]);
}

#[test]
fn how_a_backup_is_can_be_read() {
    let text = of_one_backup(&json!({
        "phase": "Failed", "failures": 2, "backupSize": 10, "backupSeconds": 4,
        "completionTime": "1970-01-01T00:00:09Z", "nextBackupTime": "1970-01-01T00:00:20Z",
        "lastVerified": {"id": "a", "time": "1970-01-01T00:00:08Z", "backupTime": "1970-01-01T00:00:05Z",
                         "revision": 1, "compared": "HashKV"},
        "backups": [
            {"id": "b", "time": "1970-01-01T00:00:09Z", "revision": 2, "bytes": 10, "damaged": true},
            {"id": "a", "time": "1970-01-01T00:00:05Z", "revision": 1, "bytes": 9}],
        "conditions": [condition("Ready", "False", "BackupDamaged")],
    }));
    let labels = "{namespace=\"prod\",cluster=\"db\",backup=\"nightly\"}";
    let line = |name: &str, number: i64| format!("etcd_backup_{name}{labels} {number}");
    has(
        &text,
        &[
            line("ready", 0),
            // The damaged one does not count.
            line("newest_seconds", 5),
            line("size_bytes", 10),
            line("duration_seconds", 4),
            line("failures", 2),
            line("next_seconds", 20),
            line("verified_seconds", 8),
            line("verified_backup_seconds", 5),
            line("damaged", 1),
        ],
    );
    assert!(series(&text, labels).len() <= of_backup::MOST);
}

#[test]
fn checksums_alone_are_no_verification() {
    let text = of_one_backup(&json!({
        "lastVerified": {"id": "a", "time": "1970-01-01T00:00:08Z", "revision": 1, "compared": "ChecksumOnly"},
    }));
    assert!(!text.contains("etcd_backup_verified_seconds{"), "{text}");
}

/// What is in the table is on the page and the other way round, each once, with its kind and its sentence.
#[test]
fn the_page_and_the_table_name_the_same_metrics() {
    let text = page(Metrics::default(), Health::default());
    let mut heads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for head in text.lines().filter_map(|line| line.strip_prefix("# ")) {
        let (what, rest) = head.split_once(' ').unwrap_or((head, ""));
        heads.entry(what).or_default().push(rest);
    }
    let table = || {
        of_operator::ALL
            .iter()
            .chain(of_cluster::ALL)
            .chain(of_backup::ALL)
    };
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let told = |what: &str| sorted(heads[what].iter().map(|line| (*line).to_owned()).collect());
    let help = table().map(|it| format!("{} {}", it.family(), it.help));
    assert_eq!(told("HELP"), sorted(help.collect()));
    let kinds = table().map(|it| format!("{} {}", it.family(), it.kind.word()));
    assert_eq!(told("TYPE"), sorted(kinds.collect()));
}

fn words(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(words)
}

/// Conditions of ours and of others, once and more than once, with reasons that no release knows.
fn conditions() -> impl Strategy<Value = Vec<Value>> {
    let kind = words(&[
        "Available",
        "Progressing",
        "Degraded",
        "Ready",
        "Verified",
        "Theirs",
    ]);
    let status = words(&["True", "False", "Unknown", "", "odd"]);
    let reason = words(&[
        "QuorumHealthy",
        "Stopped",
        "NotFormed",
        "Paused",
        "QuorumLost",
        "a\"b\\c\nd",
    ]);
    let one =
        (kind, status, reason).prop_map(|(kind, status, reason)| condition(kind, status, reason));
    proptest::collection::vec(one, 0..12)
}

prop_compose! {
    fn status()(
        conditions in conditions(),
        phase in proptest::option::of(words(&["Creating", "Running", "Failed", "Stopped"])),
        unavailable in any::<bool>(),
        certificates in any::<bool>(),
        version in proptest::option::of(words(&["3.5.35", "\"\n\\"])),
        ready in proptest::option::of(any::<i32>()),
    ) -> Value {
        let mut status = if certificates { json!({"certificates": full()["certificates"]}) } else { json!({}) };
        status["conditions"] = json!(conditions);
        for (key, value) in [("phase", phase), ("version", version)] {
            if let Some(value) = value {
                status[key] = json!(value);
            }
        }
        if let Some(ready) = ready {
            status["readyReplicas"] = json!(ready);
        }
        if unavailable {
            status["unavailableSince"] = json!("1970-01-01T00:00:07Z");
        }
        status
    }
}

prop_compose! {
    fn looked()(
        voters in proptest::option::of(any::<u64>()),
        wanted in any::<bool>(),
        database in proptest::option::of((any::<u64>(), any::<u64>(), proptest::option::of(any::<u64>()))),
        lag in proptest::option::of(any::<u64>()),
    ) -> Seen {
        let database = database.map(|(size, in_use, quota)| Database { size, in_use, quota });
        let wanted = seen().wanted.filter(|_| wanted);
        Seen { voters, wanted, database, lag, ..seen() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever its status says: never more than the table promises, never the same series twice, and every line can be read.
    #[test]
    fn a_cluster_has_at_most_seventeen_series(
        status in status(), seen in proptest::option::of(looked()),
    ) {
        let text = of(&status, seen);
        let series = series(&text, PLACE);
        prop_assert!(series.len() <= of_cluster::MOST, "{}: {text}", series.len());
        let names = series.iter().map(|line| line.rsplit_once(' ').unwrap().0);
        prop_assert_eq!(names.collect::<BTreeSet<_>>().len(), series.len());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let value = line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
            prop_assert!(value.is_some(), "{line}");
        }
    }
}
