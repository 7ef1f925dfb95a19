//! What `doctor` finds, and what it does not make up.

use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::clusters::{NOW, ago, cluster, down, fresh, pipe, pods, stopped, terminal, well};
use crate::doctor::{Diagnosis, Level, Seen, diagnose, installation};
use crate::report::{Installed, versions};
use crate::screen::width_of;
use crate::view;

/// Everything around a cluster as it should be; a test spoils what it is about.
struct Around {
    pods: Value,
    claims: Value,
    budgets: Value,
    services: Value,
    backups: Value,
}

impl Around {
    fn well() -> Self {
        let claim = |ordinal: u32| json!({"metadata": {"name": format!("data-db-{ordinal}")}, "status": {"phase": "Bound"}});
        let backup = json!({
            "metadata": {"name": "nightly", "namespace": "prod"}, "spec": {"clusterName": "db", "storageType": "S3"},
            "status": {"conditions": [super::clusters::condition("Ready", "True", "BackupScheduled", "")]},
        });
        Self {
            pods: json!(pods()),
            claims: json!([claim(0), claim(1), claim(2)]),
            budgets: json!([{"metadata": {"name": "db"}, "status": {
                "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
            }}]),
            services: json!([{"metadata": {"name": "db-peer"}}, {"metadata": {"name": "db-client"}}]),
            backups: json!([backup]),
        }
    }

    fn of(self, object: Value) -> Diagnosis {
        let cluster = cluster(object);
        let pods: Vec<_> = serde_json::from_value(self.pods).unwrap();
        let claims: Vec<_> = serde_json::from_value(self.claims).unwrap();
        let budgets: Vec<_> = serde_json::from_value(self.budgets).unwrap();
        let services: Vec<_> = serde_json::from_value(self.services).unwrap();
        let backups: Vec<_> = serde_json::from_value(self.backups).unwrap();
        diagnose(&Seen {
            cluster: &cluster,
            pods: Ok(&pods),
            claims: Ok(&claims),
            budgets: Ok(&budgets),
            services: Ok(&services),
            backups: Ok(&backups),
            now: Timestamp::from_second(NOW).unwrap(),
        })
    }
}

/// What is not as it should be, by level and what was looked at.
fn found(diagnosis: &Diagnosis) -> Vec<(Level, &'static str)> {
    let findings = diagnosis.findings.iter();
    let found = findings.filter(|finding| finding.level != Level::Ok);
    found.map(|finding| (finding.level, finding.id)).collect()
}

/// Where one pod was restarted often.
fn calm() -> Around {
    let mut around = Around::well();
    around.pods[1]["status"]["containerStatuses"][0]["restartCount"] = json!(0);
    around
}

#[test]
fn nothing_is_found_where_all_is_as_it_should_be() {
    let diagnosis = calm().of(well());
    assert!(found(&diagnosis).is_empty(), "{diagnosis:?}");
    assert_snapshot!(view::doctor(&[diagnosis], &pipe()));
    let night = found(&calm().of(stopped()));
    assert!(!night.contains(&(Level::Fail, "quorum")), "{night:?}");
}

type Spoil = fn(&mut Around, &mut Value);

/// What is done to a calm cluster, and what is then found.
const SPOILS: [(Spoil, (Level, &str)); 14] = [
    (
        |_, object| object["metadata"]["annotations"] = json!({"etcd.etcd.io/paused": "true"}),
        (Level::Warn, "pause"),
    ),
    (
        |_, object| object["status"]["members"][1]["version"] = json!("3.5.35"),
        (Level::Warn, "versions"),
    ),
    (
        |_, object| object["spec"]["version"] = json!("v3.7.3"),
        (Level::Warn, "versions"),
    ),
    (
        |around, _| around.pods[1]["spec"]["nodeName"] = json!("node-1"),
        (Level::Warn, "placement"),
    ),
    (
        |around, _| around.pods[0]["status"]["containerStatuses"][0]["restartCount"] = json!(5),
        (Level::Warn, "restarts"),
    ),
    (
        |around, _| {
            around.pods[0]["status"]["containerStatuses"][0]["lastState"] =
                json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        },
        (Level::Warn, "restarts"),
    ),
    (
        |around, _| around.claims[2]["status"]["phase"] = json!("Lost"),
        (Level::Fail, "volumes"),
    ),
    (
        |around, _| around.budgets = json!([]),
        (Level::Warn, "budget"),
    ),
    (
        |around, _| around.budgets[0]["status"]["disruptionsAllowed"] = json!(0),
        (Level::Warn, "budget"),
    ),
    (
        |around, _| around.services = json!([{"metadata": {"name": "db-peer"}}]),
        (Level::Fail, "services"),
    ),
    (
        |around, _| around.backups = json!([]),
        (Level::Warn, "backups"),
    ),
    (
        |around, _| around.backups[0]["spec"]["suspend"] = json!(true),
        (Level::Warn, "backups"),
    ),
    (
        |around, _| {
            around.backups[0]["status"]["conditions"][0] = super::clusters::condition(
                "Ready",
                "False",
                "BackupFailed",
                "the store rejects it",
            );
        },
        (Level::Fail, "backups"),
    ),
    (
        |around, _| around.backups[0]["status"]["nextBackupTime"] = json!(ago(4000)),
        (Level::Warn, "backups"),
    ),
];

#[test]
fn each_thing_that_is_spoilt_is_found_and_nothing_else() {
    let mut text = Vec::new();
    for (at, (spoil, expected)) in SPOILS.into_iter().enumerate() {
        let (mut around, mut object) = (calm(), well());
        spoil(&mut around, &mut object);
        let diagnosis = around.of(object);
        assert_eq!(found(&diagnosis), [expected], "spoilt {at}");
        text.push(view::doctor(&[diagnosis], &pipe()));
    }
    assert_snapshot!(text.join("\n"));
}

#[test]
fn certificates_are_told_of_before_they_expire() {
    let with = |leaf: i64, authority: i64| {
        let mut object = well();
        object["status"]["certificates"] = json!({
            "notAfter": ago(-leaf), "renewalTime": ago(0), "authorityNotAfter": ago(-authority), "clientSecret": "db-client-tls",
        });
        found(&calm().of(object))
    };
    let (day, year) = (86_400, 31_536_000);
    assert!(with(60 * day, year).is_empty());
    assert_eq!(with(2 * day, year), [(Level::Warn, "certificates")]);
    assert_eq!(with(-1, year), [(Level::Fail, "certificates")]);
    assert_eq!(with(60 * day, 20 * day), [(Level::Warn, "certificates")]);
}

#[test]
fn a_cluster_without_a_quorum_comes_with_what_to_type() {
    let diagnosis = Around::well().of(down());
    let text = view::doctor(&[diagnosis], &terminal(72, false));
    assert!(
        text.lines().all(|line| width_of(line) <= 72) && text.is_ascii(),
        "{text}"
    );
    assert_snapshot!(text);
}

#[test]
fn a_cluster_that_no_operator_looked_at_is_told_of() {
    let diagnosis = calm().of(fresh());
    assert!(
        found(&diagnosis).contains(&(Level::Fail, "operator")),
        "{diagnosis:?}"
    );
}

#[test]
fn what_may_not_be_seen_is_neither_fine_nor_wrong() {
    let cluster = cluster(well());
    let diagnosis = diagnose(&Seen {
        cluster: &cluster,
        pods: Err("not allowed to list".to_owned()),
        claims: Err("not allowed to list".to_owned()),
        budgets: Err("not allowed to list".to_owned()),
        services: Err("not allowed to list".to_owned()),
        backups: Err("not allowed to list".to_owned()),
        now: Timestamp::from_second(NOW).unwrap(),
    });
    let unseen = [
        "backups",
        "budget",
        "placement",
        "restarts",
        "services",
        "volumes",
    ];
    assert_eq!(found(&diagnosis), unseen.map(|id| (Level::Unseen, id)));
    assert_snapshot!(view::doctor(&[diagnosis], &pipe()));
}

#[test]
fn an_installation_without_an_operator_is_warned_of_and_one_that_is_not_seen_is_not() {
    let mut installed = Installed {
        kubernetes: Ok("v1.33.1".to_owned()),
        operators: Ok(&[]),
        crd: Err("not allowed".to_owned()),
    };
    let none = installation(&versions(&installed, "0.1.0"));
    assert_eq!(
        found(&none),
        [(Level::Warn, "operator"), (Level::Unseen, "CRDs")]
    );
    installed.operators = Err("not allowed".to_owned());
    let unseen = installation(&versions(&installed, "0.1.0"));
    assert_eq!(
        found(&unseen),
        [(Level::Unseen, "CRDs"), (Level::Unseen, "operator")]
    );
}
