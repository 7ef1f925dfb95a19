//! What the members say: each is asked with a deadline of its own, so that a dead one does not hold up
//! the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{EtcdCluster, EtcdVersion};
use etcd::{Cause, Consistency, GateAnswer};
use futures::FutureExt;
use futures::future::join_all;
use plan::Observed;
use plan::observed::{Member, MemberList, NO_CERTIFICATE, Process, Serving, Space};

use super::budget::Budget;
use super::first::first;
use super::targets;
use crate::context::{Context, Dial};

/// A member in good health answers within milliseconds.
const DEADLINE: Duration = Duration::from_secs(2);
/// The gate, and a metrics port, have nothing to wait for.
const PROMPT: Duration = Duration::from_secs(1);
/// A pod that is being deleted may be gone at any moment, and its address then answers nothing at all.
const BRIEF: Duration = Duration::from_millis(300);

/// Invariant: the gates are asked before the member list. The other way round a list from before a member was added
/// could meet a wait from after it was granted, and the ID would be granted again.
pub(super) async fn look(
    observed: &mut Observed,
    cluster: &EtcdCluster,
    ctx: &Context,
    budget: &Budget,
) {
    let mut targets = targets(cluster, ctx);
    let pods = &observed.pods;
    // Of one that was written off no answer is expected, and the member that takes its place shall not wait for one.
    let given_up: BTreeSet<u32> = observed
        .leaving()
        .filter(|leaving| leaving.intent.replaced.is_some() && leaving.claim.is_some())
        .map(|leaving| leaving.ordinal)
        .collect();
    let answers = targets.iter().map(|(ordinal, target)| async {
        let leaving = pods.get(ordinal).is_none_or(|pod| pod.terminating);
        let deadline = if leaving || given_up.contains(ordinal) {
            BRIEF
        } else {
            DEADLINE
        };
        (*ordinal, process(ctx, target, deadline).await)
    });
    for (ordinal, process) in join_all(answers).await {
        if let Some(pod) = observed.pods.get_mut(&ordinal) {
            pod.process = process;
        }
    }
    observed.disown_waits();
    keep_serving(&mut targets, observed);
    let has_answers = plan::cluster::has_answers(observed);
    if has_answers {
        observed.etcd.members = member_list(ctx, &targets, observed).await;
    }
    prove(observed, &targets, ctx).await;
    keep_serving(&mut targets, observed);
    if !has_answers {
        return;
    }
    let list = observed.etcd.members.as_ref();
    if budget.is_spent() {
        return;
    }
    if list.is_some_and(|list| list.members.iter().any(Member::is_unstarted)) {
        if plan::cluster::is_awaited(observed) {
            nudge(&targets, ctx).await;
        }
        for (ordinal, view) in views(ctx, &targets).await {
            if let Some(pod) = observed.pods.get_mut(&ordinal)
                && let Process::Serving(serving) = &mut pod.process
            {
                serving.view = Some(view);
            }
        }
    }
    if observed.is_changing() && !budget.is_spent() {
        for (ordinal, answers) in reads(ctx, &targets).await {
            if let Some(pod) = observed.pods.get_mut(&ordinal)
                && let Process::Serving(serving) = &mut pod.process
            {
                serving.reads = Some(answers);
            }
        }
    }
}

fn keep_serving(targets: &mut BTreeMap<u32, Dial>, observed: &Observed) {
    targets.retain(|ordinal, _| {
        let pod = observed.pods.get(ordinal);
        pod.is_some_and(|pod| pod.serving().is_some())
    });
}

/// Whose answers these are, before anything follows from them: the address of a pod may lead to another one by now.
async fn prove(observed: &mut Observed, serving: &BTreeMap<u32, Dial>, ctx: &Context) {
    let asked = observed.unproved().into_iter();
    let asked = asked.filter_map(|ordinal| Some((ordinal, serving.get(&ordinal)?)));
    let answers = asked.map(|(ordinal, target)| async move {
        let member = ctx.member(target).with_deadline(DEADLINE);
        let list = member.member_list(Consistency::Local).await.ok()?;
        Some((ordinal, members(list)))
    });
    let own = join_all(answers).await.into_iter().flatten().collect();
    observed.disown_members(&own);
    for (ordinal, pod) in &observed.pods {
        if let Some(stranger) = &pod.stranger {
            let pod = observed.member_name(*ordinal);
            tracing::warn!(%pod, %stranger, "another one answers at the address of a pod");
        }
    }
}

/// A learner that got a snapshot of more than 5,000 entries refuses to announce itself until another entry comes, which
/// in an idle cluster is never. The question for alarms goes through the log, and changes nothing.
async fn nudge(serving: &BTreeMap<u32, Dial>, ctx: &Context) {
    if let Some(target) = serving.values().next() {
        let asked = ctx.member(target).with_deadline(PROMPT).alarms().await;
        if let Err(error) = asked {
            tracing::debug!(%error, "no member was nudged");
        }
    }
}

/// Whether each answers a linearizable read; asked while a change is rolled out, where the next restart depends on it.
async fn reads(ctx: &Context, serving: &BTreeMap<u32, Dial>) -> Vec<(u32, bool)> {
    let answers = serving.iter().map(|(ordinal, target)| async {
        let member = ctx.member(target).with_deadline(DEADLINE);
        let read = member.read_linearizable().await;
        // etcd confirms a read with the others before it asks who reads.
        let denied = |error: &etcd::Error| matches!(error.cause, Cause::PermissionDenied);
        (*ordinal, read.as_ref().err().is_none_or(denied))
    });
    join_all(answers).await
}

/// etcd first: its port refuses at once while the gate holds the pod, and the gate is asked then. Where not even
/// a connection comes about, the gate's port would not answer either.
async fn process(ctx: &Context, dial: &Dial, deadline: Duration) -> Process {
    match ctx.member(dial).with_deadline(deadline).status().await {
        Ok(status) => return serving(status),
        Err(error) if is_out_of_reach(&error) => return Process::Unknown,
        Err(error) => {
            if let Some(refusing) = refusing(&error) {
                return refusing;
            }
        }
    }
    // Either responds at once, or neither does.
    let deadline = deadline.min(PROMPT);
    let (target, security) = (&dial.target, &dial.security);
    match etcd::gate_report(ctx.connect.as_ref(), target, security, deadline).await {
        Ok(GateAnswer::Waiting(report)) => Process::Held(report),
        Ok(GateAnswer::Running) => Process::Starting,
        Err(error) => refusing(&error).unwrap_or(Process::Unknown),
    }
}

/// It answers, but not to us, or not as the one that was asked: neither silent nor starting.
fn refusing(error: &etcd::Error) -> Option<Process> {
    let why = match &error.cause {
        Cause::Handshake { source } => format!("{}: {source}", error.cause),
        Cause::Refused { .. } => error.cause.to_string(),
        // Authentication was switched on where no caller has a certificate.
        Cause::NoUser => format!("{}. {NO_CERTIFICATE}", error.cause),
        _other => return None,
    };
    Some(Process::Refusing(why))
}

fn is_out_of_reach(error: &etcd::Error) -> bool {
    match &error.cause {
        Cause::Connect { source } => source.kind() == std::io::ErrorKind::TimedOut,
        _answered => false,
    }
}

fn serving(status: etcd::Status) -> Process {
    let version = EtcdVersion::parse(&status.version);
    Process::Serving(Serving {
        member_id: status.member_id,
        cluster_id: status.cluster_id,
        version,
        leader: status.leader,
        raft_index: status.raft_index,
        applied_index: status.raft_applied_index,
        errors: status.errors,
        view: None,
        reads: None,
        // Data in the format of 3.5 has no version of its own.
        storage: version.filter(|version| version.minor > 5).map(|_| {
            let storage = status.storage_version.as_deref();
            storage
                .and_then(EtcdVersion::parse)
                .map_or(5, |of| of.minor)
        }),
        downgrade: status
            .downgrade
            .as_deref()
            .and_then(EtcdVersion::parse)
            .map(|to| to.minor),
        space: Space {
            size: status.db_size,
            in_use: status.db_size_in_use,
            quota: status.db_size_quota,
            revision: u64::try_from(status.revision).unwrap_or_default(),
        },
        hash: None,
    })
}

/// Confirmed by a quorum of this very cluster: the first member that can give it does. Learners refuse.
async fn member_list(
    ctx: &Context,
    serving: &BTreeMap<u32, Dial>,
    observed: &Observed,
) -> Option<MemberList> {
    let questions = serving.iter().map(|(ordinal, target)| {
        let member = ctx.member(target).with_deadline(DEADLINE);
        async move {
            let list = member.member_list(Consistency::Linearizable).await.ok()?;
            Some(members(list)).filter(|list| observed.is_own_list(*ordinal, list))
        }
        .boxed()
    });
    first(questions.collect(), BRIEF).await
}

fn members(list: etcd::MemberList) -> MemberList {
    let members = list.members.into_iter().map(|member| Member {
        id: member.id,
        name: member.name,
        peer_urls: member.peer_urls,
        learner: member.is_learner,
    });
    MemberList {
        cluster_id: list.cluster_id,
        members: members.collect(),
    }
}

/// What each voter lists by itself, which is what a joiner will get.
async fn views(ctx: &Context, serving: &BTreeMap<u32, Dial>) -> Vec<(u32, BTreeSet<u64>)> {
    let answers = serving.iter().map(|(ordinal, target)| async {
        let member = ctx.member(target).with_deadline(DEADLINE);
        let list = member.member_list(Consistency::Local).await.ok()?;
        Some((
            *ordinal,
            list.members.into_iter().map(|member| member.id).collect(),
        ))
    });
    join_all(answers).await.into_iter().flatten().collect()
}
