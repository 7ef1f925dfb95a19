//! What the commands that change something write, what they do not write, and how a change is followed.

use commands::{BackUp, Restore, Verb};
use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::clusters::{NOW, cluster, degraded, down, pipe, pods, seen, stopped, well};
use crate::change::{Goal, back_up, change, choose, recover, restore};
use crate::follow;
use crate::report::report;
use crate::trouble::Trouble;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn verbs() -> Vec<Verb> {
    let version = "v3.7.3".to_owned();
    vec![
        Verb::Scale { size: 5 },
        Verb::Scale { size: 3 },
        Verb::Upgrade { version },
        Verb::Restart,
        Verb::Pause,
        Verb::Resume,
    ]
}

#[test]
fn every_change_is_one_field_or_annotation_of_the_object_that_was_seen() {
    let text = verbs().into_iter().map(|verb| {
        let change = change(&verb, &cluster(well()), now());
        let patch = change
            .patch
            .map_or_else(|| "nothing".to_owned(), |patch| patch.to_string());
        let (said, goal) = (change.said, change.goal);
        format!("{verb:?}\n  {said}\n  writes {patch}\n  until {goal:?}\n")
    });
    let text: String = text.collect();
    assert_snapshot!(text);
}

#[test]
fn what_is_so_already_is_not_written_again() {
    let mut paused = well();
    paused["metadata"]["annotations"] = json!({"etcd.etcd.io/paused": "true"});
    let paused = cluster(paused);
    assert_eq!(change(&Verb::Pause, &paused, now()).patch, None);
    assert!(change(&Verb::Resume, &paused, now()).patch.is_some());
    assert_eq!(change(&Verb::Resume, &cluster(well()), now()).patch, None);
}

fn told(outcome: Result<impl std::fmt::Debug, Trouble>) -> String {
    match outcome {
        Ok(done) => format!("{done:?}\n"),
        Err(trouble) => {
            let evidence = match &trouble {
                Trouble::Unconfirmed { evidence, .. } => evidence.clone(),
                _other => String::new(),
            };
            format!(
                "{evidence}{}exit code {}\n",
                trouble.tell(&pipe()),
                trouble.code()
            )
        }
    }
}

fn recovered(object: Value, confirmed: Option<&str>) -> String {
    let report = seen(object.clone());
    told(recover(&cluster(object), &report, confirmed, &pipe()))
}

#[test]
fn recovery_shows_the_evidence_and_wants_the_name_twice() {
    assert_snapshot!(recovered(down(), None));
    assert_snapshot!("confirmed", recovered(down(), Some("db")));
}

#[test]
fn nothing_is_recovered_that_serves_or_by_another_name() {
    let text = [
        recovered(well(), Some("db")),
        recovered(degraded(), Some("db")),
        recovered(down(), Some("bd")),
    ];
    assert!(
        text.iter().all(|text| text.contains("exit code 4")),
        "{text:?}"
    );
    assert_snapshot!(text.join("\n"));
}

fn restored(replace: bool, confirm: Option<&str>, existing: Option<Value>) -> String {
    let asked = Restore {
        name: "db".to_owned(),
        from: "nightly".to_owned(),
        backup: None,
        identity_secret: None,
        replace,
        confirm: confirm.map(str::to_owned),
    };
    let existing = existing.map(cluster);
    let made = restore(&asked, existing.as_ref(), "prod");
    let made =
        made.map(|(object, said)| format!("{said}: {}", serde_json::to_value(object).unwrap()));
    told(made)
}

#[test]
fn a_backup_comes_back_beside_what_is_there_and_replaces_it_only_by_its_name() {
    let text = [
        restored(false, None, None),
        restored(false, None, Some(well())),
        restored(true, None, Some(well())),
        restored(true, Some("bd"), Some(well())),
        restored(true, Some("db"), Some(well())),
        restored(true, Some("db"), None),
    ];
    assert_snapshot!(text.join("\n"));
}

/// Without the ID, what is typed next would bring back the newest: that which was made after the mistake.
#[test]
fn the_command_that_confirms_is_of_the_same_backup() {
    let asked = Restore {
        name: "db".to_owned(),
        from: "nightly".to_owned(),
        backup: Some("20261119-0600".to_owned()),
        identity_secret: Some("keys".to_owned()),
        replace: true,
        confirm: None,
    };
    let told = told(restore(&asked, Some(&cluster(well())), "prod"));
    let command = "kubectl etcd restore db -n prod --from nightly --backup 20261119-0600 --identity-secret keys --replace --confirm db";
    assert!(told.contains(command), "{told}");
}

#[test]
fn one_more_backup_is_made_by_the_only_one_or_the_one_that_is_named() {
    let backup = |name: &str, of: &str| json!({"metadata": {"name": name, "uid": name}, "spec": {"clusterName": of, "storageType": "S3"}});
    let backups = json!([
        backup("nightly", "db"),
        backup("weekly", "db"),
        backup("only", "cache")
    ]);
    let backups: Vec<api::v1alpha1::backup::EtcdBackup> = serde_json::from_value(backups).unwrap();
    let choose = |name: &str, using: Option<&str>| {
        let asked = BackUp {
            name: name.to_owned(),
            using: using.map(str::to_owned),
        };
        told(choose(&asked, "prod", &backups).map(|backup| back_up(backup, now())))
    };
    let text = [
        choose("cache", None),
        choose("db", Some("weekly")),
        choose("db", None),
        choose("db", Some("nigthly")),
        choose("auth", None),
    ];
    assert_snapshot!(text.join("\n"));
}

#[test]
fn a_line_tells_phase_members_and_what_is_under_way() {
    let lines = [well(), degraded(), down(), stopped()];
    let lines = lines.map(|object| follow::line(&report(&cluster(object), None), &pipe()));
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_change_is_done_when_the_newest_spec_is_true_and_not_before() {
    let there = |goal: &Goal, object: Value, asked: Option<&str>| {
        let mut pods = pods();
        for pod in &mut pods {
            let value =
                asked.map(|value| ("etcd.etcd.io/restartedAt".to_owned(), value.to_owned()));
            pod.metadata.annotations = Some(value.into_iter().collect());
        }
        let cluster = cluster(object);
        follow::is_there(goal, &cluster, &report(&cluster, None), &pods)
    };
    let mut newer = well();
    newer["metadata"]["generation"] = json!(3);
    assert!(there(&Goal::Settled, well(), None));
    assert!(
        !there(&Goal::Settled, newer, None),
        "the operator has not looked at it"
    );
    assert!(!there(&Goal::Settled, degraded(), None));
    assert!(there(&Goal::Settled, stopped(), None));
    let restarted = Goal::Restarted("t2".to_owned());
    assert!(
        !there(&restarted, well(), Some("t1")),
        "the pods are of another restart"
    );
    assert!(!there(&restarted, degraded(), Some("t2")));
    assert!(there(&restarted, well(), Some("t2")));
    let mut paused = well();
    paused["status"]["conditions"][1]["reason"] = json!("Paused");
    assert!(there(&Goal::Paused, paused.clone(), None) && !there(&Goal::Paused, well(), None));
    assert!(there(&Goal::Resumed, well(), None) && !there(&Goal::Resumed, paused, None));
    let lost = Goal::Recovered("cdf818194e3a8c32".to_owned());
    assert!(
        !there(&lost, well(), None),
        "it is the cluster that lost its quorum"
    );
    let mut other = well();
    other["status"]["clusterID"] = json!("1");
    assert!(there(&lost, other, None));
}
