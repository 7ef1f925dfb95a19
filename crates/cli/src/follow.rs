//! A change as it goes on: one line for each thing that is new. What a line says, and when it is over, is pure.

use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::{EtcdRestore, RestorePhase};
use api::{EtcdCluster, Reason, labels};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use crate::change::Goal;
use crate::report::{ClusterReport, Standing};
use crate::screen::Screen;

/// How a cluster stands, on one line: `Scaling  db-0 leader, db-1 follower, db-2 learner..  AddingMember: …`.
pub fn line(report: &ClusterReport, screen: &Screen) -> String {
    let members: Vec<String> = report
        .members
        .iter()
        .map(|member| {
            let role = member.role.map(|role| format!("{role:?}").to_lowercase());
            let waits = if member.ready { "" } else { "..." };
            format!("{} {}{waits}", member.name, role.as_deref().unwrap_or("-"))
        })
        .collect();
    let find = |kind: &str| report.conditions.iter().find(|it| it.kind == kind);
    let doing = find("Progressing").filter(|it| it.status == "True");
    let wrong = find("Degraded").filter(|it| it.status == "True");
    let said = match (doing.or(wrong), report.standing) {
        (_, Standing::Ok) => "ready".to_owned(),
        (_, Standing::Stopped) => "stopped".to_owned(),
        (Some(condition), _) => format!("{}: {}", condition.reason, condition.message),
        (None, _) => report.standing.word().to_owned(),
    };
    let phase = report.phase.as_deref().unwrap_or("-");
    screen.clean(&format!("{phase:<10} {}  {said}", members.join(", ")))
}

/// Whether a cluster has come where it was to come; of its pods only a restart wants to know.
pub fn is_there(goal: &Goal, cluster: &EtcdCluster, report: &ClusterReport, pods: &[Pod]) -> bool {
    let paused = Reason::Paused.to_string();
    let says_paused = report.conditions.iter().any(|it| it.reason == paused);
    let settled = matches!(report.standing, Standing::Ok | Standing::Stopped) && !report.behind;
    match goal {
        Goal::Settled => settled,
        Goal::Restarted(value) => {
            let asked =
                |pod: &Pod| pod.annotations().get(labels::RESTARTED_AT_ANNOTATION) == Some(value);
            settled && !pods.is_empty() && pods.iter().all(asked)
        }
        Goal::Paused => says_paused,
        Goal::Resumed => !says_paused && !report.conditions.is_empty(),
        Goal::Recovered(id) => {
            let status = cluster.status.as_ref();
            let now = status.and_then(|status| status.cluster_id.as_ref());
            now.is_some_and(|now| now != id) && report.can_lose.is_some()
        }
        // Of other objects.
        Goal::BackedUp(_) | Goal::Restored => false,
    }
}

/// How a backup goes on.
pub fn backup_line(backup: &EtcdBackup, screen: &Screen) -> String {
    let status = backup.status.clone().unwrap_or_default();
    let phase = status.phase.map(|phase| format!("{phase:?}"));
    condition_line(phase, &status.conditions, screen)
}

/// Whether a request was seen to.
pub fn is_backed_up(backup: &EtcdBackup, value: &str) -> bool {
    let memory = backup
        .status
        .as_ref()
        .and_then(|status| status.memory.as_ref());
    memory.is_some_and(|memory| memory.asked.as_deref() == Some(value))
}

/// How a restore goes on.
pub fn restore_line(restore: &EtcdRestore, screen: &Screen) -> String {
    let status = restore.status.clone().unwrap_or_default();
    let phase = status.phase.map(|phase| format!("{phase:?}"));
    condition_line(phase, &status.conditions, screen)
}

/// Whether the cluster serves with what was brought.
pub fn is_restored(restore: &EtcdRestore) -> bool {
    let phase = restore.status.as_ref().and_then(|status| status.phase);
    phase == Some(RestorePhase::Completed)
}

fn condition_line(phase: Option<String>, conditions: &[Condition], screen: &Screen) -> String {
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready");
    let said = ready.map_or_else(String::new, |ready| {
        format!("{}: {}", ready.reason, ready.message)
    });
    let phase = phase.unwrap_or_else(|| "-".to_owned());
    screen.clean(format!("{phase:<10} {said}").trim_end())
}
