//! What goes wrong, and what the user is told to do.

use insta::assert_snapshot;
use kube::core::Status;
use serde_json::json;

use super::clusters::{pipe, terminal};
use crate::trouble::{Asked, Trouble};

fn refused(status: serde_json::Value) -> kube::Error {
    let status: Status = serde_json::from_value(status).unwrap();
    kube::Error::Api(status.boxed())
}

#[test]
fn every_trouble_says_what_to_do() {
    let asked = Asked::list("etcdclusters.etcd.etcd.io", Some("prod"));
    let everywhere = Asked::list("etcdclusters.etcd.etcd.io", None);
    let forbidden = || {
        refused(json!({
            "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "etcdclusters.etcd.etcd.io is forbidden: User \"u\" cannot list resource",
        }))
    };
    let absent = |near: &[&str]| Trouble::Absent {
        kind: "EtcdCluster",
        name: "dbb".to_owned(),
        namespace: "prod".to_owned(),
        near: near.iter().map(|name| (*name).to_owned()).collect(),
    };
    let all = [
        Trouble::NoConfig("the file ~/.kube/config does not exist".to_owned()),
        asked.failed(forbidden()),
        everywhere.failed(forbidden()),
        everywhere.failed(refused(
            json!({"code": 404, "message": "404 page not found", "reason": ""}),
        )),
        asked.failed(refused(
            json!({"code": 500, "message": "etcdserver: request timed out"}),
        )),
        absent(&[]),
        absent(&["db", "ci/db-2"]),
        Trouble::Unreadable {
            object: "EtcdCluster prod/db".to_owned(),
            why: "unknown variant `Hibernating`".to_owned(),
            ours: "0.1.0",
            crd: "0.2.0".to_owned(),
        },
        Trouble::Late {
            what: "prod/db did not become ready".to_owned(),
            seconds: 60,
            now: "RollingOut: db-2 is restarted".to_owned(),
        },
    ];
    let text: Vec<String> = all
        .iter()
        .map(|trouble| format!("exit code {}\n{}", trouble.code(), trouble.tell(&pipe())))
        .collect();
    assert_snapshot!(text.join("\n"));
    assert_snapshot!("narrow", absent(&["db"]).tell(&terminal(40, false)));
}

#[test]
fn what_admission_rejects_is_told_in_its_own_words() {
    let asked = Asked::one("patch", "etcdclusters.etcd.etcd.io", "prod", "db");
    let by_schema = refused(json!({
        "code": 422, "reason": "Invalid",
        "message": "EtcdCluster.etcd.etcd.io \"db\" is invalid: spec.size: Invalid value: 4: the size must be odd",
        "details": {"causes": [
            {"reason": "FieldValueInvalid", "message": "Invalid value: 4: the size must be odd: 3 or 5", "field": "spec.size"},
        ]},
    }));
    let by_webhook = refused(json!({
        "code": 403, "reason": "Forbidden",
        "message": "admission webhook \"etcdclusters.etcd.etcd.io\" denied the request: spec.version: cannot go back",
    }));
    let text = [by_schema, by_webhook].map(|error| {
        let trouble = asked.failed(error);
        format!("exit code {}\n{}", trouble.code(), trouble.tell(&pipe()))
    });
    assert_snapshot!(text.join("\n"));
}
