//! What the commands that look say.

use insta::assert_snapshot;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::clusters::{
    ago, cluster, degraded, down, fresh, pipe, seen, stopped, terminal, well, wide,
};
use crate::report::{
    ClusterReport, Installed, List, Standing, report, subjects, timeline, versions,
};
use crate::screen::width_of;
use crate::view;

fn fleet() -> Vec<ClusterReport> {
    let mut all = Vec::new();
    for (name, object) in [("db", well()), ("cache", degraded()), ("auth", down())] {
        let mut object = object;
        object["metadata"]["name"] = json!(name);
        all.push(report(&cluster(object), None));
    }
    all.extend([fresh(), stopped()].map(|object| report(&cluster(object), None)));
    all
}

#[test]
fn status_of_a_cluster_that_is_well() {
    assert_snapshot!(view::status(&seen(well()), &pipe()));
}

#[test]
fn status_of_a_cluster_that_is_repaired() {
    assert_snapshot!(view::status(&seen(degraded()), &wide()));
}

#[test]
fn status_of_a_cluster_that_is_down_in_a_terminal_with_colours() {
    assert_snapshot!(view::status(&seen(down()), &terminal(100, true)));
}

#[test]
fn status_in_a_narrow_terminal_with_ascii_only() {
    let text = view::status(&seen(degraded()), &terminal(48, false));
    assert!(text.is_ascii(), "{text}");
    assert_snapshot!(text);
}

#[test]
fn status_of_a_cluster_that_no_operator_looked_at() {
    assert_snapshot!(view::status(&report(&cluster(fresh()), None), &pipe()));
}

#[test]
fn status_of_a_cluster_that_was_stopped_and_paused() {
    let mut object = stopped();
    object["metadata"]["annotations"] = json!({"etcd.etcd.io/paused": "true"});
    assert_snapshot!(view::status(&report(&cluster(object), None), &pipe()));
}

#[test]
fn status_without_the_right_to_see_pods() {
    let why = "not allowed to list pods in namespace prod".to_owned();
    let report = report(&cluster(well()), Some(Err(why)));
    assert_snapshot!(view::status(&report, &pipe()));
}

#[test]
fn status_of_many_clusters() {
    assert_snapshot!(view::fleet(&fleet(), true, &wide()));
}

#[test]
fn status_of_many_clusters_in_a_narrow_terminal() {
    let text = view::fleet(&fleet(), true, &terminal(60, false));
    assert!(text.lines().all(|line| width_of(line) <= 60), "{text}");
    assert_snapshot!(text);
}

#[test]
fn status_as_json() {
    let reports = [seen(degraded())];
    let list = List::of("ClusterReportList", &reports);
    assert_snapshot!(serde_json::to_string_pretty(&list).unwrap());
}

#[test]
fn members_of_several_clusters() {
    let reports = [seen(well()), seen(down())];
    assert_snapshot!(view::members(&reports, true, &wide()));
}

#[test]
fn health_of_several_clusters() {
    assert_snapshot!(view::health(&fleet(), &pipe()));
}

#[test]
fn why_a_cluster_is_down() {
    assert_snapshot!(view::why(&seen(down()), &terminal(80, false)));
}

#[test]
fn why_a_cluster_that_is_well_is_so() {
    assert_snapshot!(view::why(&seen(well()), &pipe()));
}

#[test]
fn what_happened_to_a_cluster_and_what_belongs_to_it_and_to_no_other() {
    let event = |kind: &str, name: &str, reason: &str, seconds: i64| {
        json!({
            "metadata": {"name": format!("{name}.{seconds}"), "namespace": "prod"},
            "involvedObject": {"kind": kind, "name": name}, "type": "Normal", "reason": reason,
            "message": format!("{reason} of {name}"), "reportingComponent": "etcd-operator",
        })
    };
    let mut series = event("Pod", "db-1", "BackOff", 1);
    series["type"] = json!("Warning");
    series["series"] = json!({"count": 7, "lastObservedTime": "2026-11-19T11:58:20.000000Z"});
    let mut old = event("EtcdCluster", "db", "MemberAdded", 2);
    old["eventTime"] = json!("2026-11-19T11:50:00.000000Z");
    let mut core = event(
        "PersistentVolumeClaim",
        "data-db-2",
        "ProvisioningSucceeded",
        3,
    );
    core["lastTimestamp"] = json!(ago(3000));
    core["count"] = json!(1);
    core["source"] = json!({"component": "provisioner"});
    core["reportingComponent"] = json!("");
    let mut backup = event("EtcdBackup", "nightly", "BackupCreated", 5);
    backup["eventTime"] = json!("2026-11-19T11:59:59.000000Z");
    let others = [
        event("EtcdCluster", "db-1", "MemberAdded", 4),
        event("Pod", "cache-0", "Started", 6),
    ];
    let mut all = vec![series, old, core, backup];
    all.extend(others);
    let events: Vec<Event> = serde_json::from_value(json!(all)).unwrap();
    let backups = json!([
        {"metadata": {"name": "nightly"}, "spec": {"clusterName": "db", "storageType": "S3"}},
        {"metadata": {"name": "other"}, "spec": {"clusterName": "cache", "storageType": "S3"}},
    ]);
    let backups: Vec<_> = serde_json::from_value(backups).unwrap();
    let subjects = subjects("db", &backups, &[]);
    let all = timeline(&events, &subjects);
    assert_eq!(all.len(), 4);
    assert_snapshot!(view::events(&all, &wide()));
}

fn deployment(version: &str) -> Deployment {
    let object = json!({
        "metadata": {
            "name": "etcd-operator", "namespace": "etcd-operator-system", "labels": {"app.kubernetes.io/version": version},
        },
        "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "operator", "image": "registry/etcd-operator:1"}]}}},
        "status": {"availableReplicas": 1},
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn releases_that_fit_and_that_do_not() {
    let crd: CustomResourceDefinition = api::crd::all().unwrap().swap_remove(0);
    let operators = [deployment(env!("CARGO_PKG_VERSION"))];
    let mut installed = Installed {
        kubernetes: Ok("v1.33.1".to_owned()),
        operators: Ok(&operators),
        crd: Ok(&crd),
    };
    let fits = versions(&installed, env!("CARGO_PKG_VERSION"));
    assert!(fits.mismatches.is_empty(), "{fits:?}");
    let mut old = crd.clone();
    old.metadata.labels = None;
    let others = [deployment("0.0.9")];
    installed.crd = Ok(&old);
    installed.operators = Ok(&others);
    assert_snapshot!(view::version(&versions(&installed, "0.1.0"), &pipe()));
}

#[test]
fn releases_that_may_not_be_seen() {
    let installed = Installed {
        kubernetes: Ok("v1.33.1".to_owned()),
        operators: Err("not allowed to list deployments.apps in all namespaces".to_owned()),
        crd: Err("not allowed to get customresourcedefinitions.apiextensions.k8s.io".to_owned()),
    };
    let report = versions(&installed, "0.1.0");
    assert!(report.mismatches.is_empty());
    assert_snapshot!(view::version(&report, &pipe()));
}

#[test]
fn a_cluster_stands_as_its_conditions_say() {
    let standing = |object| report(&cluster(object), None).standing;
    assert_eq!(standing(well()), Standing::Ok);
    assert_eq!(standing(degraded()), Standing::Degraded);
    assert_eq!(standing(down()), Standing::Down);
    assert_eq!(standing(fresh()), Standing::Unknown);
    assert_eq!(standing(stopped()), Standing::Stopped);
    let mut newer = well();
    newer["metadata"]["generation"] = json!(3);
    assert_eq!(
        standing(newer),
        Standing::Working,
        "Ready was said of an older spec"
    );
    let mut starting = stopped();
    starting["spec"]["size"] = json!(3);
    assert_eq!(
        standing(starting),
        Standing::Down,
        "it was stopped, and is asked to run"
    );
}
