//! Whether there are backups, and whether they can be relied on.

use api::v1alpha1::backup::EtcdBackup;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::{Finding, Level};
use crate::report::ClusterReport;

const PAGE: &str = "docs/user/guides/backups.md";
/// Seconds after which a backup that is due should have been begun.
const LATE: i64 = 600;

pub(super) fn backups(
    told: &ClusterReport,
    backups: &[EtcdBackup],
    now: Timestamp,
) -> Vec<Finding> {
    let ours: Vec<&EtcdBackup> = backups
        .iter()
        .filter(|it| it.spec.cluster_name == told.name)
        .collect();
    if ours.is_empty() {
        let finding = Finding::new(Level::Warn, "backups", "no EtcdBackup is of this cluster");
        return vec![finding.fix("create an EtcdBackup").page(PAGE)];
    }
    ours.into_iter()
        .flat_map(|backup| of_one(backup, now))
        .collect()
}

fn of_one(backup: &EtcdBackup, now: Timestamp) -> Vec<Finding> {
    let (name, namespace) = (backup.name_any(), backup.namespace().unwrap_or_default());
    let status = backup.status.clone().unwrap_or_default();
    let find = |kind: &str| {
        status
            .conditions
            .iter()
            .find(|it| it.type_ == kind && it.status == "False")
    };
    let fix = format!("kubectl describe etcdbackup {name} -n {namespace}");
    let say = |level: Level, text: String| {
        Finding::new(level, "backups", text)
            .fix(fix.clone())
            .page(PAGE)
    };
    let told =
        |condition: &Condition| format!("{name}: {}: {}", condition.reason, condition.message);
    let mut findings = Vec::new();
    if backup.spec.suspend == Some(true) {
        findings.push(say(
            Level::Warn,
            format!("{name} is suspended: no backup is begun"),
        ));
        return findings;
    }
    if let Some(damaged) = find("Verified").filter(|it| it.reason == "BackupDamaged") {
        findings.push(say(Level::Fail, told(damaged)));
    }
    if let Some(unready) =
        find("Ready").filter(|it| it.reason != "BackupRunning" && it.reason != "BackupDamaged")
    {
        let level = if unready.reason == "BackupWaiting" {
            Level::Warn
        } else {
            Level::Fail
        };
        findings.push(say(level, told(unready)));
    }
    let due = status
        .next_backup_time
        .as_ref()
        .map(|due| now.duration_since(due.0).as_secs());
    if let Some(late) = due.filter(|late| *late > LATE) {
        let late = crate::screen::duration(late);
        findings.push(say(
            Level::Warn,
            format!("{name}: a backup has been due for {late}"),
        ));
    }
    findings
}
