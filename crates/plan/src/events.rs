//! Events: emitted once, when something changed.

use api::Reason;
use api::v1alpha1::memory::ReplaceStage;
use api::v1alpha1::status::Phase;

use crate::decision::{Decision, Fetch, Step};
use crate::observed::{
    AlarmKind, Answer, Attempt, AuthChange, Latched, Observed, Refusals, Refused, UpkeepTask, Wish,
    what_is_lost,
};
use crate::status::Outcome;
use crate::why::{InPlace, Leave, Restore, Why};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
    /// A person should look.
    pub warning: bool,
}

/// What a step that succeeded is worth telling, and what the change of phase is.
pub fn decide_events(
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
    phases: (Option<Phase>, Option<Phase>),
) -> Vec<Event> {
    let of_step = of_step(observed, &decision.step)
        .or_else(|| of_latch(decision))
        .or_else(|| of_rollout(observed, decision))
        .or_else(|| of_restore(observed, decision))
        .or_else(|| of_vanished(decision));
    let of_step = of_step.filter(|_| *outcome == Outcome::Done);
    let of_phase = of_phase(observed, decision, phases);
    let of_objects = match outcome {
        Outcome::Applied(attempts) => refused(observed, attempts),
        Outcome::Done | Outcome::NotNow(_) | Outcome::Failed(_) => Vec::new(),
    };
    of_step
        .into_iter()
        .chain(of_upkeep_done(observed))
        .chain(of_phase)
        .chain(of_objects)
        .collect()
}

/// Objects that cannot be written, each reported when that begins.
fn refused(observed: &Observed, attempts: &[Attempt]) -> Vec<Event> {
    let before = |wish: &Wish| {
        let mut known = observed.objects.refused.iter();
        known.find(|known| (known.wish.kind, &known.wish.name) == (wish.kind, &wish.name))
    };
    let mut after = Refusals::of(&observed.objects.refused);
    after.note(observed.now, attempts);
    let new = after.list().into_iter().filter(|known| {
        let tried = attempts.iter().any(|attempt| attempt.wish == known.wish);
        tried && known.is_told() && !before(&known.wish).is_some_and(Refused::is_told)
    });
    new.map(|known| Event {
        reason: match known.answer {
            Answer::Foreign => Reason::ForeignObject,
            Answer::Written | Answer::Later(_) | Answer::Refused(_) => Reason::WriteRefused,
        },
        message: known.describe(),
        warning: true,
    })
    .collect()
}

/// What is recorded and worth telling: that the cluster of an earlier operator was taken over, and every step of a
/// recovery from lost quorum, for which a person should look.
fn of_latch(decision: &Decision) -> Option<Event> {
    let told = matches!(decision.reason(), Reason::Adopting | Reason::Recovering);
    (told && matches!(decision.step, Step::Latch(_))).then(|| Event {
        reason: decision.reason(),
        message: decision.why.to_string(),
        warning: decision.reason() == Reason::Recovering,
    })
}

/// How it goes with the backup that a cluster begins with.
fn of_restore(observed: &Observed, decision: &Decision) -> Option<Event> {
    let Step::Latch(next) = &decision.step else {
        return None;
    };
    if let Some(replaced) = of_replace(observed, decision, next) {
        return Some(replaced);
    }
    let restore = next.restore.as_ref()?;
    let formed = observed.bringing().is_some() && next.cluster_id.is_some();
    if let Some(fetched) = restore.fetched.as_ref().filter(|_| formed) {
        let it = &fetched.restored;
        let message = format!(
            "the cluster has formed with backup {}, revision {}",
            it.backup, it.revision
        );
        return Some(Event {
            reason: Reason::ClusterRestored,
            message,
            warning: false,
        });
    }
    let failed = matches!(decision.why, Why::Restore(Restore::Failed(_)));
    failed.then(|| Event {
        reason: decision.reason(),
        message: decision.why.to_string(),
        warning: true,
    })
}

/// How far it is with a backup that takes the place of the data. What is waited for is no event.
fn of_replace(observed: &Observed, decision: &Decision, next: &Latched) -> Option<Event> {
    let Why::InPlace(why) = &decision.why else {
        return None;
    };
    let before = observed
        .cluster
        .latched
        .replacing(ReplaceStage::Bootstrapping);
    let begun = next.restore.as_ref().and_then(|it| it.fetched.as_ref());
    let begun = begun.filter(|_| before.is_some() && next.recovery.is_none());
    let (reason, message) = match begun {
        Some(fetched) => {
            let it = &fetched.restored;
            let message = format!(
                "backup {}, revision {}, took the place of the data",
                it.backup, it.revision
            );
            (Reason::ClusterRestored, message)
        }
        None => (decision.reason(), why.to_string()),
    };
    let warning = matches!(
        why,
        InPlace::Blocked(_) | InPlace::Failed(_) | InPlace::GivenUp(_) | InPlace::Stops(_)
    );
    Some(Event {
        reason,
        message,
        warning,
    })
}

/// A rollout has reached every member. Where nothing is known of a version before, there was none.
fn of_rollout(observed: &Observed, decision: &Decision) -> Option<Event> {
    let Step::Latch(next) = &decision.step else {
        return None;
    };
    let old = observed.cluster.latched.proven.as_ref()?;
    let new = next.proven.as_ref()?;
    let before = old.before?;
    if old.everywhere || !new.everywhere {
        return None;
    }
    let (reason, message) = if before == new.version {
        let message = "every member runs the new pod template".to_owned();
        (Reason::ClusterUpdated, message)
    } else {
        let message = format!("every member runs v{}, before v{before}", new.version);
        (Reason::ClusterUpgraded, message)
    };
    Some(Event {
        reason,
        message,
        warning: false,
    })
}

/// A user removed a member, and may not know what that does.
fn of_vanished(decision: &Decision) -> Option<Event> {
    let vanished = matches!(decision.why, Why::Leave(Leave::Vanished(..)));
    vanished.then(|| Event {
        reason: Reason::MemberRemoved,
        message: decision.why.to_string(),
        warning: true,
    })
}

fn of_step(observed: &Observed, step: &Step) -> Option<Event> {
    let name = |ordinal: &u32| observed.member_name(*ordinal);
    let (reason, message) = match step {
        Step::AddLearner { ordinal, .. } => (
            Reason::MemberAdded,
            format!("added {} as a learner", name(ordinal)),
        ),
        Step::Promote { ordinal, id } => (
            Reason::MemberPromoted,
            format!("promoted {} ({id:x}) to voter", name(ordinal)),
        ),
        Step::UpdatePeer {
            ordinal, peer_urls, ..
        } => (Reason::RollingOut, updated(&name(ordinal), peer_urls)),
        Step::RemoveMember { ordinal, id, .. } => {
            (Reason::MemberRemoved, lost(observed, *ordinal, *id))
        }
        Step::RetireMember { ordinal, id } => {
            (Reason::MemberRemoved, removed(observed, *ordinal, *id))
        }
        Step::Grant { ordinal, grant, .. } => {
            let what = granted(&grant.action);
            (Reason::MemberAdmitted, format!("{} {what}", name(ordinal)))
        }
        Step::RestartPod { ordinal, uid } => return Some(restarted(observed, *ordinal, uid)),
        Step::Downgrade { to: Some(to) } => (Reason::Downgrading, prepared(to)),
        Step::Defragment { .. } | Step::Compact { .. } | Step::Disarm { .. } => {
            return of_upkeep(observed, step);
        }
        Step::IssueCertificates(issue) => (
            Reason::CertificatesIssued,
            format!("issued {}", issue.describe()),
        ),
        Step::RotateAuthority(what) => (Reason::CertificatesIssued, what.describe().to_owned()),
        Step::ChangeAuth(change) => return of_auth(change),
        Step::Fetch(fetch) => return of_fetch(observed, fetch),
        Step::Nothing
        | Step::Wait
        | Step::Refuse
        | Step::RemoveFinalizer
        | Step::ApplyObjects(_)
        | Step::RestoreTemplate(_)
        | Step::EndFetch { .. }
        | Step::MoveLeader { .. }
        | Step::DeleteClaim { .. }
        | Step::StopPod { .. }
        | Step::Downgrade { to: None }
        | Step::ExpandClaim { .. }
        | Step::OrphanPods { .. }
        | Step::MarkRemoved { .. }
        | Step::RepeatGrant { .. }
        | Step::RequestCertificate
        | Step::RefreshCertificates { .. }
        | Step::AddDebugContainer { .. }
        | Step::Latch(_) => return None,
    };
    Some(Event {
        reason,
        message,
        warning: false,
    })
}

/// One that only reads is no event.
fn of_fetch(observed: &Observed, fetch: &Fetch) -> Option<Event> {
    let member = observed.member_name(fetch.ordinal);
    (!fetch.check).then(|| Event {
        reason: Reason::Restoring,
        message: format!("a Job brings the backup to the volume of {member}"),
        warning: false,
    })
}

fn prepared(minor: &impl std::fmt::Display) -> String {
    format!("etcd prepares its data for 3.{minor}")
}

/// What concerns every client. Of users and roles their own objects tell.
fn of_auth(change: &AuthChange) -> Option<Event> {
    let (reason, message) = match change {
        AuthChange::Enable => (
            Reason::AuthEnabled,
            "authentication is on: etcd asks its clients who they are",
        ),
        AuthChange::Disable => (
            Reason::AuthDisabled,
            "authentication is off: etcd asks no client who it is",
        ),
        _of_users => return None,
    };
    Some(Event {
        reason,
        message: message.to_owned(),
        warning: false,
    })
}

fn updated(name: &str, urls: &[String]) -> String {
    format!(
        "{name} is listed for the other members as {}",
        urls.join(", ")
    )
}

/// What a pod was let through for.
fn granted(action: &gate::Action) -> &'static str {
    match action {
        gate::Action::Bootstrap { .. } => "bootstraps the cluster",
        gate::Action::Join { .. } => "starts as a learner",
        gate::Action::Resume { .. } => "resumes on its retained data",
        gate::Action::Recover { .. } => "starts a new cluster from its data",
        gate::Action::Restore { .. } => "bootstraps the cluster with the backup",
    }
}

/// Who was removed, and what it had lost.
fn lost(observed: &Observed, ordinal: u32, id: u64) -> String {
    let name = observed.member_name(ordinal);
    match observed.needs_new_member(ordinal) {
        Some(report) => {
            let lost = what_is_lost(report.state);
            format!("removed {name} ({id:x}), which {lost}")
        }
        None => format!("removed {name} ({id:x})"),
    }
}

/// A long call that was begun at an earlier look has ended well.
fn of_upkeep_done(observed: &Observed) -> Option<Event> {
    let upkeep = observed.upkeep_done()?;
    let (reason, message) = match upkeep.task {
        UpkeepTask::Defragment { ordinal } => defragmented(observed, ordinal),
        UpkeepTask::Compact { revision } => compacted(revision),
    };
    Some(Event {
        reason,
        message,
        warning: false,
    })
}

fn defragmented(observed: &Observed, ordinal: u32) -> (Reason, String) {
    let name = observed.member_name(ordinal);
    (Reason::MemberDefragmented, format!("defragmented {name}"))
}

fn compacted(revision: u64) -> (Reason, String) {
    let message = format!("compacted revisions below {revision} to free space");
    (Reason::HistoryCompacted, message)
}

/// What was done for the database.
fn of_upkeep(observed: &Observed, step: &Step) -> Option<Event> {
    let (reason, message) = match step {
        Step::Defragment { ordinal, .. } => defragmented(observed, *ordinal),
        Step::Compact { revision } => compacted(*revision),
        Step::Disarm { alarm } => {
            let what = match alarm.kind {
                AlarmKind::NoSpace => "NOSPACE: every database has free space again",
                AlarmKind::Corrupt => "CORRUPT: the data of all voters is consistent",
            };
            (Reason::AlarmDisarmed, format!("disarmed the alarm {what}"))
        }
        _other => return None,
    };
    Some(Event {
        reason,
        message,
        warning: false,
    })
}

/// Who was restarted, and why.
fn restarted(observed: &Observed, ordinal: u32, uid: &str) -> Event {
    let name = observed.member_name(ordinal);
    let stall = observed.pods.get(&ordinal).and_then(|pod| pod.stall);
    let hung = &observed.cluster.latched.hung;
    match stall.filter(|_| hung.iter().any(|intent| intent.pod_uid == uid)) {
        Some(stall) => Event {
            reason: Reason::MemberStalled,
            message: format!(
                "restarted {name}, which did not keep up: {}",
                stall.describe(observed.now)
            ),
            warning: true,
        },
        None => Event {
            reason: Reason::MemberRestarted,
            message: format!("restarted {name} on the new template"),
            warning: false,
        },
    }
}

/// Who was removed, and why.
fn removed(observed: &Observed, ordinal: u32, id: u64) -> String {
    let mut leaving = observed.leaving().filter(|l| l.ordinal == ordinal);
    let why = leaving.find_map(|leaving| leaving.intent.replaced.clone());
    let why = why.unwrap_or_else(|| "spec.size was reduced".to_owned());
    format!("removed {} ({id:x}): {why}", observed.member_name(ordinal))
}

fn of_phase(
    observed: &Observed,
    decision: &Decision,
    (old, new): (Option<Phase>, Option<Phase>),
) -> Option<Event> {
    let new = new.filter(|_| old != new)?;
    let (reason, warning) = match new {
        Phase::Running => match old {
            Some(Phase::Failed | Phase::Recovering) => (Reason::ClusterRecovered, false),
            Some(Phase::Scaling) => (Reason::ClusterScaled, false),
            // What ends a rollout is reported when it is recorded.
            Some(Phase::Upgrading) => return None,
            _begins if is_new(observed) => (Reason::ClusterCreated, false),
            _begins => (Reason::ClusterStarted, false),
        },
        Phase::Failed => (Reason::ClusterFailed, true),
        Phase::Stopped => (Reason::ClusterStopped, false),
        Phase::Creating
        | Phase::Scaling
        | Phase::Upgrading
        | Phase::Deleting
        | Phase::Recovering
        | Phase::Restoring => return None,
    };
    let resumed = if reason == Reason::ClusterCreated && observed.cluster.latched.resumed {
        ", on the retained data"
    } else {
        ""
    };
    Some(Event {
        reason,
        message: format!("{}{resumed}", decision.why),
        warning,
    })
}

/// A pod still bears the permission with which the cluster, or the object's use of kept data, began. A cluster that was
/// stopped starts without one, and one that was taken over from an earlier operator never had one.
fn is_new(observed: &Observed) -> bool {
    let mut grants = observed.pods.values().filter_map(|pod| pod.grant.as_ref());
    grants.any(|grant| {
        matches!(
            grant.action,
            gate::Action::Bootstrap { .. } | gate::Action::Resume { .. }
        )
    })
}
