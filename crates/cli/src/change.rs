//! What a command writes: fields and annotations of objects that a user owns, never more. Pure: from the object as it is to a
//! patch, a sentence, and the state in which it is done.

use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::{EtcdRestore, EtcdRestoreSpec, RestoreType};
use api::{EtcdCluster, labels};
use commands::{BackUp, Restore, Verb};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use crate::report::{ClusterReport, Standing};
use crate::screen::{Screen, put};
use crate::trouble::Trouble;
use crate::view;

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What is written; nothing where it is so already.
    pub patch: Option<Value>,
    /// What changes, in words.
    pub said: String,
    /// When it is done.
    pub goal: Goal,
}

/// When a change is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The cluster is as its newest spec asks, ready or stopped.
    Settled,
    /// The same, and every pod was made for this restart.
    Restarted(String),
    /// The operator says that it is paused.
    Paused,
    /// The operator says so no longer.
    Resumed,
    /// It serves, and as another cluster than this one.
    Recovered(String),
    /// The EtcdBackup has seen to this request.
    BackedUp(String),
    /// The EtcdRestore is complete.
    Restored,
}

/// What a verb writes on a cluster.
pub fn change(verb: &Verb, cluster: &EtcdCluster, now: Timestamp) -> Change {
    let uid = cluster.uid();
    let spec =
        |field: &str, value: Value| json!({"metadata": {"uid": uid}, "spec": {field: value}});
    let annotation =
        |name: &str, value: Value| json!({"metadata": {"uid": uid, "annotations": {name: value}}});
    let is_paused = crate::report::is_paused(cluster);
    match verb {
        Verb::Scale { size } => {
            let old = cluster.spec.size.unwrap_or_default();
            Change {
                patch: (old != *size).then(|| spec("size", json!(size))),
                said: from_to("size", &old.to_string(), &size.to_string()),
                goal: Goal::Settled,
            }
        }
        Verb::Upgrade { version } => {
            let old = cluster.spec.version.clone().unwrap_or_default();
            Change {
                patch: (old != *version).then(|| spec("version", json!(version))),
                said: from_to("version", &old, version),
                goal: Goal::Settled,
            }
        }
        Verb::Restart => Change {
            patch: Some(annotation(
                labels::RESTARTED_AT_ANNOTATION,
                json!(now.to_string()),
            )),
            said: "every member is restarted, one after another".to_owned(),
            goal: Goal::Restarted(now.to_string()),
        },
        Verb::Pause => Change {
            patch: (!is_paused).then(|| annotation(labels::PAUSED_ANNOTATION, json!("true"))),
            said: already(is_paused, "paused: the operator looks and does not act"),
            goal: Goal::Paused,
        },
        Verb::Resume => Change {
            patch: is_paused.then(|| annotation(labels::PAUSED_ANNOTATION, Value::Null)),
            said: already(!is_paused, "not paused: the operator acts"),
            goal: Goal::Resumed,
        },
    }
}

fn from_to(what: &str, old: &str, new: &str) -> String {
    if old == new {
        format!("{what} is {new} already")
    } else if old.is_empty() {
        format!("{what} {new}")
    } else {
        format!("{what} {old} -> {new}")
    }
}

fn already(is_so: bool, text: &str) -> String {
    if is_so {
        format!("already {text}")
    } else {
        text.to_owned()
    }
}

/// Recovery from lost quorum: only with the name of the cluster typed twice, and only where none serves.
pub fn recover(
    cluster: &EtcdCluster,
    report: &ClusterReport,
    confirmed: Option<&str>,
    screen: &Screen,
) -> Result<Change, Trouble> {
    let name = cluster.name_any();
    let rejected = |sentence: String| Trouble::Rejected {
        object: name.clone(),
        sentence,
    };
    let Some(id) = report.cluster_id.clone() else {
        return Err(rejected(
            "it has not formed, so there is nothing to recover".to_owned(),
        ));
    };
    if report.can_lose.is_some() && report.standing != Standing::Down {
        let healthy = view::voters(report);
        return Err(rejected(format!(
            "a quorum serves ({healthy}), so there is nothing to recover"
        )));
    }
    match confirmed {
        None => {
            let namespace = &report.namespace;
            let mut evidence = view::status(report, screen);
            put(&mut evidence, format_args!("{}", view::why(report, screen)));
            Err(Trouble::Unconfirmed {
                evidence,
                sentence: format!(
                    "{name} was not changed: the operator would go on with what is left of cluster {id}, and writes that only lost members have are gone"
                ),
                command: format!("kubectl etcd recover {name} -n {namespace} --confirm {name}"),
            })
        }
        Some(typed) if typed != name => Err(rejected(format!("--confirm names {typed}"))),
        Some(_name) => Ok(Change {
            patch: Some(json!({"metadata": {
                "uid": cluster.uid(),
                "annotations": {labels::RECOVER_ANNOTATION: id},
            }})),
            said: format!("the operator may go on with what is left of cluster {id}"),
            goal: Goal::Recovered(id),
        }),
    }
}

/// The EtcdBackup that makes one more backup of a cluster: the one that is named, or the only one.
pub fn choose<'a>(
    asked: &BackUp,
    namespace: &str,
    backups: &'a [EtcdBackup],
) -> Result<&'a EtcdBackup, Trouble> {
    let of_cluster = backups
        .iter()
        .filter(|it| it.spec.cluster_name == asked.name);
    let of_cluster: Vec<&EtcdBackup> = of_cluster.collect();
    let names: Vec<String> = of_cluster.iter().map(|it| it.name_any()).collect();
    if let Some(using) = &asked.using {
        let chosen = of_cluster.iter().find(|it| it.name_any() == *using);
        return chosen.copied().ok_or_else(|| Trouble::Absent {
            kind: "EtcdBackup",
            name: using.clone(),
            namespace: namespace.to_owned(),
            near: names,
        });
    }
    match of_cluster.as_slice() {
        [only] => Ok(*only),
        [] => Err(Trouble::Usage(
            format!(
                "no EtcdBackup of namespace {namespace} is of cluster {}",
                asked.name
            ),
            Some("an EtcdBackup says where backups go: docs/user/guides/backups.md".to_owned()),
        )),
        _several => Err(Trouble::Usage(
            format!(
                "several EtcdBackups are of cluster {}: {}",
                asked.name,
                names.join(", ")
            ),
            Some("name one with --using".to_owned()),
        )),
    }
}

/// One more backup.
pub fn back_up(backup: &EtcdBackup, now: Timestamp) -> Change {
    let asked = now.to_string();
    Change {
        patch: Some(json!({"metadata": {
            "uid": backup.uid(),
            "annotations": {labels::BACKUP_NOW_ANNOTATION: asked},
        }})),
        said: "one more backup is made".to_owned(),
        goal: Goal::BackedUp(asked),
    }
}

/// The EtcdRestore that brings a backup back; taking the place of data that is there only with the name typed twice.
pub fn restore(
    asked: &Restore,
    existing: Option<&EtcdCluster>,
    namespace: &str,
) -> Result<(EtcdRestore, String), Trouble> {
    let name = &asked.name;
    let from = asked
        .backup
        .as_deref()
        .unwrap_or("the newest backup that did not fail its verification");
    let mut spec = EtcdRestoreSpec {
        backup_name: Some(asked.from.clone()),
        backup: asked.backup.clone(),
        cluster_name: name.clone(),
        identity_secret: asked.identity_secret.clone(),
        ..EtcdRestoreSpec::default()
    };
    let said = match (asked.replace, existing) {
        (false, Some(_)) => {
            return Err(Trouble::Usage(
                format!("there is an EtcdCluster {name} in namespace {namespace} already"),
                Some(
                    "name another one, or give it the data of the backup with --replace".to_owned(),
                ),
            ));
        }
        (false, None) => format!("{from} of {} comes back as EtcdCluster {name}", asked.from),
        (true, existing) => {
            let id = existing.and_then(|it| it.status.as_ref()?.cluster_id.clone());
            let Some(id) = id else {
                return Err(Trouble::Usage(
                    format!(
                        "there is no EtcdCluster {name} in namespace {namespace} that has formed"
                    ),
                    Some(
                        "without --replace the backup comes back as a cluster of its own"
                            .to_owned(),
                    ),
                ));
            };
            confirm_replacement(asked, namespace, &id, from)?;
            spec.restore_type = Some(RestoreType::Replace);
            spec.replaces = Some(id.clone());
            format!(
                "{from} of {} takes the place of the data of {name}, cluster {id}",
                asked.from
            )
        }
    };
    let mut restore = EtcdRestore::new("", spec);
    restore.metadata = ObjectMeta {
        generate_name: Some(format!("{name}-")),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    Ok((restore, said))
}

fn confirm_replacement(
    asked: &Restore,
    namespace: &str,
    id: &str,
    from: &str,
) -> Result<(), Trouble> {
    let (name, backup) = (&asked.name, &asked.from);
    // All that was asked for: without the ID it would be another backup.
    let mut command = format!("kubectl etcd restore {name} -n {namespace} --from {backup}");
    for (flag, value) in [
        ("--backup", &asked.backup),
        ("--identity-secret", &asked.identity_secret),
    ] {
        if let Some(value) = value {
            put(&mut command, format_args!(" {flag} {value}"));
        }
    }
    put(&mut command, format_args!(" --replace --confirm {name}"));
    match asked.confirm.as_deref() {
        Some(typed) if typed == name => Ok(()),
        Some(typed) => Err(Trouble::Rejected {
            object: name.clone(),
            sentence: format!("--confirm names {typed}"),
        }),
        None => Err(Trouble::Unconfirmed {
            evidence: String::new(),
            sentence: format!(
                "{name} was not changed: {from} of {backup} would take the place of all data of cluster {id}, and what was written since is lost"
            ),
            command,
        }),
    }
}
