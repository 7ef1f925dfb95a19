//! What must hold for a step, whichever rule proposed it. Checked once more before every act: a violation is
//! a bug in the rules, is not carried out, and is shouted about. Written from the invariants'
//! sentences, not from the rules, so that a mistake has to be made twice.

mod auth;
mod begin;
mod certificates;
mod change;
mod claims;
mod departed;
mod facts;
mod hang;
mod in_place;
mod maintain;
mod proof;
mod recover;
mod replace;
mod stranger;
mod trust;

use api::v1alpha1::status::JoinIntent;
use gate::{Action, State};
use thiserror::Error;

use self::departed::Departure;
use crate::decision::Step;
use crate::observed::{Latched, Member, MemberList, Observed, Pod, parse_id, quorum};

/// Entries that a learner may be behind the leader when it gets a vote.
const MAX_LAG: u64 = 1000;

/// A step that must not be taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Invariant 1.
    #[error("invariant 1: the step would leave fewer healthy voters than a quorum")]
    Quorum,
    /// Invariant 1.
    #[error("invariant 1: the member list would change while a grant is open")]
    OpenGrant,
    /// Invariant 2.
    #[error("invariant 2: a bootstrap that was not recorded first, or a second bootstrap")]
    SecondBootstrap,
    /// Invariant 2.
    #[error("invariant 2: clients would be served before the cluster ID is recorded")]
    ClientsTooEarly,
    /// Invariant 3.
    #[error("invariant 3: a grant that is not for the current wait of this pod")]
    NotThisWait,
    /// Invariant 3.
    #[error("invariant 3: a member ID that may have been granted before")]
    GrantedBefore,
    /// Invariant 3.
    #[error("invariant 3: the grant does not match the member list")]
    WrongMemberList,
    /// Invariant 4.
    #[error("invariant 4: too many learners, or a promotion too early")]
    Learner,
    /// Invariant 1.
    #[error(
        "invariant 1: neither the spec nor a recorded reason asks for this member to be removed"
    )]
    NotAskedFor,
    /// Invariant 5.
    #[error("invariant 5: data would be deleted before its member is removed")]
    DataBeforeMember,
    /// Invariant 6.
    #[error("invariant 6: the volume may have the last copy of the data")]
    LastCopy,
    /// Invariant 7.
    #[error("invariant 7: the step rests on a fact that could not be read")]
    Unknown,
    /// Invariant 10.
    #[error(
        "invariant 10: members would be more than one minor version apart, or newer than their data allows"
    )]
    Line,
    /// Invariant 9.
    #[error("invariant 9: an untried template would reach more than one member")]
    Unproven,
    /// Invariant 11.
    #[error("invariant 11: revisions that must be kept would be compacted")]
    History,
    /// Invariant 11.
    #[error(
        "invariant 11: a member would be defragmented without a record, or during another change"
    )]
    Busy,
    /// Invariant 11.
    #[error("invariant 11: an alarm would be disarmed before its cause is gone")]
    Cause,
    /// Invariant 12.
    #[error(
        "invariant 12: a member would speak a scheme under which the others cannot reach it, or trust another authority than they do"
    )]
    Transport,
    /// Invariant 13.
    #[error("invariant 13: the operator, or every client, could be locked out of etcd")]
    LockOut,
    /// Invariant 14.
    #[error(
        "invariant 14: a cluster that is to begin with a backup would begin without it, or with something else"
    )]
    Restore,
    /// The memory would forget what it must keep.
    #[error("invariant 2: a recorded fact would change")]
    Forgets,
}

/// May this step be taken?
pub fn check(observed: &Observed, step: &Step) -> Result<(), Violation> {
    match step {
        // What comes of a request is judged when it is copied.
        Step::Nothing
        | Step::Wait
        | Step::Refuse
        | Step::RemoveFinalizer
        | Step::RequestCertificate => Ok(()),
        Step::ApplyObjects(shape) => {
            let formed = observed.cluster.latched.cluster_id.is_some();
            ensure(formed || !shape.client_service, Violation::ClientsTooEarly)?;
            certificates::check_template(observed, shape.template)?;
            change::check_template(observed, shape.template)
        }
        Step::RestoreTemplate(shape) => change::check_restore(observed, shape.template),
        Step::Latch(new) => check_latch(observed, new),
        Step::Fetch(fetch) => begin::check_fetch(observed, fetch),
        Step::EndFetch { name, uid } => begin::check_end(observed, name, uid),
        Step::Grant {
            ordinal,
            pod_uid,
            grant,
        } => check_wait(observed, (*ordinal, pod_uid), grant),
        Step::AddLearner { ordinal, peer_url } => check_add(observed, *ordinal, peer_url),
        Step::UpdatePeer { .. } => certificates::check_update(observed, step),
        Step::Promote { id, .. } => check_promote(observed, *id),
        Step::RestartPod { ordinal, uid } => change::check_restart(observed, *ordinal, uid),
        Step::Downgrade { to } => change::check_downgrade(observed, *to),
        Step::ExpandClaim { ordinal, uid, size } => {
            change::check_expand(observed, *ordinal, uid, size)
        }
        Step::OrphanPods { uid } => change::check_orphan(observed, uid),
        Step::MarkRemoved {
            ordinal,
            uid,
            members,
        } => change::check_told(observed, *ordinal, uid, members),
        Step::AddDebugContainer { ordinal, uid }
        | Step::RefreshCertificates { ordinal, uid, .. } => check_pod(observed, *ordinal, uid),
        Step::IssueCertificates(issue) => trust::check_issue(observed, *issue),
        Step::RotateAuthority(what) => trust::check_rotation(observed, *what),
        Step::ChangeAuth(change) => auth::check_change(observed, change),
        Step::RepeatGrant { ordinal, uid, .. } => check_repeat(observed, *ordinal, uid),
        Step::Compact { revision } => maintain::check_compact(observed, *revision),
        Step::Defragment { id, ordinal } => maintain::check_defragment(observed, *id, *ordinal),
        Step::Disarm { alarm } => maintain::check_disarm(observed, *alarm),
        Step::MoveLeader { to, .. } => check_heir(observed, *to),
        Step::RetireMember { id, ordinal } => check_retire(observed, *id, *ordinal),
        Step::StopPod {
            ordinal,
            uid,
            force,
        } => replace::check_free(observed, *ordinal, uid, *force),
        Step::DeleteClaim { ordinal, uid } => check_delete(observed, *ordinal, uid),
        Step::RemoveMember { id, ordinal, nonce } => check_remove(observed, *id, *ordinal, nonce),
    }
}

/// A grant is for the wait that was seen, of a pod that may start.
fn check_wait(
    observed: &Observed,
    (ordinal, uid): (u32, &str),
    grant: &gate::Grant,
) -> Result<(), Violation> {
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    let report = stranger::own_report(pod)?;
    ensure(
        grant.nonce == report.nonce && uid == pod.uid,
        Violation::NotThisWait,
    )?;
    certificates::check_grant(observed, ordinal, pod)?;
    check_grant(observed, (ordinal, pod), &grant.action)
}

/// The pod still waits with the grant that it was given.
fn check_repeat(observed: &Observed, ordinal: u32, uid: &str) -> Result<(), Violation> {
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    let waits = pod.uid == uid && facts::is_granted(pod);
    ensure(waits, Violation::NotThisWait)
}

/// The pod is the one that was seen.
fn check_pod(observed: &Observed, ordinal: u32, uid: &str) -> Result<(), Violation> {
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    ensure(pod.uid == uid, Violation::Unknown)
}

fn ensure(holds: bool, otherwise: Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn check_latch(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    ensure(new.incarnation >= old.incarnation, Violation::Forgets)?;
    if old.ending && !new.ending {
        return change::check_end(observed, new);
    }
    auth::check_latch(observed, new)?;
    certificates::check_latch(observed, new)?;
    stranger::check_latch(observed, new)?;
    change::check_ending(observed, new)?;
    maintain::check_written(observed, new)?;
    hang::check_written(observed, new)?;
    claims::check_written(observed, new)?;
    change::check_proof(observed, new)?;
    change::check_lines(observed, new)?;
    change::check_resumed(observed, new)?;
    change::check_trial(observed, new)?;
    begin::check_latch(observed, new)?;
    if in_place::check_latch(observed, new)? {
        return Ok(());
    }
    recover::check_latch(observed, new)?;
    if old.recovery.is_some() && new.recovery.is_none() {
        return Ok(());
    }
    ensure(
        old.cluster_id.is_none() || old.cluster_id == new.cluster_id,
        Violation::Forgets,
    )?;
    // Another member may bootstrap the cluster only in another incarnation.
    let same = old.bootstrap.is_none() || old.bootstrap == new.bootstrap;
    ensure(
        same || new.incarnation > old.incarnation,
        Violation::SecondBootstrap,
    )?;
    ensure(old.cluster_id.is_none() || same, Violation::SecondBootstrap)?;
    // Where clients were let in once, nothing begins again, whatever the status remembers.
    let begins = new.bootstrap.is_some() && old.bootstrap != new.bootstrap;
    ensure(
        !begins || !observed.objects.client_service,
        Violation::SecondBootstrap,
    )?;
    let unknown = |join: &&JoinIntent| !old.joins.contains(join);
    new.joins
        .iter()
        .filter(unknown)
        .try_for_each(|join| check_join(observed, join))
}

/// A wait may be recorded only while it stands and no member is listed for it: otherwise an ID that was
/// granted to an earlier wait would be granted again.
fn check_join(observed: &Observed, join: &JoinIntent) -> Result<(), Violation> {
    ensure(observed.etcd.members.is_some(), Violation::Unknown)?;
    let waits = |(ordinal, pod): &(&u32, &Pod)| {
        observed.member_name(**ordinal) == join.member
            && pod.uid == join.pod_uid
            && facts::without_data(observed, **ordinal)
                .is_some_and(|report| report.nonce == join.nonce)
    };
    let (ordinal, _) = observed
        .pods
        .iter()
        .find(waits)
        .ok_or(Violation::NotThisWait)?;
    let listed = facts::member_of(observed, *ordinal).is_some();
    ensure(!listed, Violation::GrantedBefore)
}

fn check_grant(
    observed: &Observed,
    (ordinal, pod): (u32, &Pod),
    action: &Action,
) -> Result<(), Violation> {
    let report = pod.held().ok_or(Violation::Unknown)?;
    let latched = &observed.cluster.latched;
    match action {
        Action::Bootstrap { discard, .. } => {
            begin::check_first(observed, (ordinal, pod), report)?;
            begin::check_begins_empty(observed)?;
            ensure(
                *discard == (report.state == State::Damaged),
                Violation::LastCopy,
            )
        }
        Action::Join { .. } => check_join_grant(observed, (ordinal, pod), action),
        Action::Resume {
            member_id,
            cluster_id,
        } => {
            let data = report.data.as_ref().ok_or(Violation::Unknown)?;
            let same = data.member_id == *member_id && data.cluster_id == *cluster_id;
            let ours = parse_id(cluster_id) == latched.cluster_id;
            ensure(same && ours, Violation::NotThisWait)?;
            ensure(latched.recovery.is_none(), Violation::SecondBootstrap)?;
            let id = parse_id(member_id);
            let Some(list) = &observed.etcd.members else {
                return ensure(latched.resumed, Violation::Unknown);
            };
            let mut members = list.members.iter();
            let removed = !members.any(|member| Some(member.id) == id);
            let runs = id.is_some_and(|id| facts::serving_as(observed, id).is_some());
            ensure(!runs, Violation::GrantedBefore)?;
            ensure(!removed, Violation::DataBeforeMember)
        }
        Action::Recover {
            token,
            member_id,
            cluster_id,
            ..
        } => recover::check_grant(observed, ordinal, pod, (token, member_id, cluster_id)),
        Action::Restore { .. } => begin::check_grant(observed, (ordinal, pod), report, action),
    }
}

fn check_join_grant(
    observed: &Observed,
    (ordinal, pod): (u32, &Pod),
    action: &Action,
) -> Result<(), Violation> {
    let Action::Join {
        initial_cluster: given,
        member_id,
        cluster_id,
        discard,
        ..
    } = action
    else {
        return Err(Violation::NotThisWait);
    };
    let report = pod.held().ok_or(Violation::Unknown)?;
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let member = facts::member_of(observed, ordinal).ok_or(Violation::WrongMemberList)?;
    let admitted = facts::is_admitted(observed, ordinal, pod, report);
    let fresh = facts::never_started(member) && member.learner;
    ensure(admitted && fresh, Violation::GrantedBefore)?;
    ensure(facts::no_grant_is_open(observed), Violation::OpenGrant)?;
    let exact = parse_id(member_id) == Some(member.id)
        && parse_id(cluster_id) == Some(list.cluster_id)
        && facts::is_initial_cluster(observed, list, (ordinal, given))
        && facts::all_voters_agree_on(observed, list);
    ensure(exact, Violation::WrongMemberList)?;
    let of_another = |data: &gate::Data| parse_id(&data.cluster_id) != Some(list.cluster_id);
    let free = match report.state {
        State::Empty | State::Damaged | State::RolledBack => true,
        // What was fenced may be discarded once its own cluster is given up.
        State::Fenced => {
            observed.cluster.latched.recovery.is_none()
                && report.data.as_ref().is_some_and(of_another)
        }
        State::OtherObject | State::Unidentified | State::Mismatch => {
            facts::is_not_its_own(observed, ordinal, report)
        }
    };
    ensure(free, Violation::LastCopy)?;
    // What is moved aside is not the last copy while a quorum of others is healthy.
    ensure(
        !*discard || facts::has_quorum(observed, list),
        Violation::LastCopy,
    )
}

fn check_add(observed: &Observed, ordinal: u32, peer_url: &str) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    let report = facts::without_data(observed, ordinal).ok_or(Violation::Unknown)?;
    let unlisted = facts::member_of(observed, ordinal).is_none();
    ensure(
        unlisted && observed.peer_url(ordinal) == peer_url,
        Violation::WrongMemberList,
    )?;
    let admitted = facts::is_admitted(observed, ordinal, pod, report);
    ensure(admitted, Violation::GrantedBefore)?;
    ensure(facts::no_grant_is_open(observed), Violation::OpenGrant)?;
    let first = list.learners().next().is_none();
    ensure(
        first || facts::can_have_many_learners(observed, list),
        Violation::Learner,
    )
}

fn check_promote(observed: &Observed, id: u64) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let member = list
        .learners()
        .find(|learner| learner.id == id)
        .ok_or(Violation::Learner)?;
    // It counts from now on, so it must be known to take part, and so must enough of the others.
    let healthy = facts::is_healthy(observed, list, member);
    ensure(healthy, Violation::Unknown)?;
    ensure(!facts::is_away(observed, member), Violation::Quorum)?;
    let healthy = facts::healthy_voters(observed, list).saturating_add(1);
    let after = quorum(list.voters().count().saturating_add(1));
    ensure(healthy >= after, Violation::Quorum)?;
    let learner = facts::serving_as(observed, id).ok_or(Violation::Unknown)?;
    let leader = facts::leader(observed);
    let leader = leader.and_then(|leader| facts::serving_as(observed, leader));
    let head = leader.ok_or(Violation::Unknown)?.raft_index;
    ensure(
        head.saturating_sub(learner.applied_index) <= MAX_LAG,
        Violation::Learner,
    )
}

fn check_remove(observed: &Observed, id: u64, ordinal: u32, nonce: &str) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    stranger::own_report(pod)?;
    let report = facts::without_data(observed, ordinal);
    let report = report.filter(|report| report.nonce == nonce);
    let report = report.ok_or(Violation::Unknown)?;
    let admitted = facts::is_admitted(observed, ordinal, pod, report);
    ensure(!admitted, Violation::NotThisWait)?;
    ensure(facts::no_grant_is_open(observed), Violation::OpenGrant)?;
    ensure(keeps_quorum(observed, list, id), Violation::Quorum)
}

fn check_heir(observed: &Observed, to: u64) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let transferee = list
        .voters()
        .find(|voter| voter.id == to)
        .ok_or(Violation::Learner)?;
    let healthy = facts::is_healthy(observed, list, transferee);
    let stays = !facts::is_away(observed, transferee);
    ensure(healthy && stays, Violation::Quorum)
}

fn check_retire(observed: &Observed, id: u64, ordinal: u32) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let size = observed
        .cluster
        .intent
        .as_ref()
        .map_or(u32::MAX, |intent| intent.size);
    let mut written = Departure::all(observed).filter(|leaves| leaves.id == Some(id));
    let replaced = Departure::all(observed)
        .any(|leaves| leaves.id == Some(id) && leaves.intent.replaced.is_some());
    let written = written.any(|leaves| leaves.ordinal == ordinal);
    if replaced && ordinal < size {
        return replace::check_removal(observed, list, id, ordinal);
    }
    ensure(
        written && ordinal >= size && size > 0,
        Violation::NotAskedFor,
    )?;
    let dead = replace::is_dead(observed, ordinal);
    let mut open = facts::open_grants(observed).filter(|open| !(dead && *open == ordinal));
    ensure(open.next().is_none(), Violation::OpenGrant)?;
    // Every member that stays is well; one that is dead and not asked for does not stay either.
    let dead = |voter: &Member| {
        let superfluous = observed.ordinal_of(voter).filter(|n| *n >= size);
        superfluous.is_some_and(|n| replace::is_dead(observed, n))
            && keeps_quorum(observed, list, id)
    };
    let well = |voter: &Member| {
        facts::is_healthy(observed, list, voter) && !facts::is_away(observed, voter)
    };
    let mut others = list.voters().filter(|voter| voter.id != id);
    ensure(others.all(|v| well(v) || dead(v)), Violation::Quorum)?;
    ensure(facts::leader(observed) != Some(id), Violation::Quorum)?;
    ensure(list.voters().any(|voter| voter.id != id), Violation::Quorum)
}

/// Data goes after its member, and only the data that was recorded.
fn check_delete(observed: &Observed, ordinal: u32, uid: &str) -> Result<(), Violation> {
    if observed.cluster.latched.ending {
        let claim = observed.claims.get(&ordinal).ok_or(Violation::Unknown)?;
        let ours = facts::is_of_this_object(observed, claim);
        ensure(ours, Violation::LastCopy)?;
        return ensure(observed.pods.is_empty(), Violation::LastCopy);
    }
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    let written = Departure::all(observed).any(|leaves| {
        leaves.ordinal == ordinal && leaves.intent.claim_uid == uid && leaves.has_left(observed)
    });
    ensure(written, Violation::DataBeforeMember)?;
    let listed = facts::member_of(observed, ordinal).is_some();
    ensure(!listed, Violation::DataBeforeMember)?;
    ensure(facts::has_quorum(observed, list), Violation::LastCopy)
}

/// Without this member the healthy voters still are a quorum, of the voters as they are and as they
/// will be.
fn keeps_quorum(observed: &Observed, list: &MemberList, id: u64) -> bool {
    let healthy = list
        .voters()
        .filter(|v| v.id != id && facts::is_healthy(observed, list, v))
        .count();
    let rest = list.voters().filter(|v| v.id != id).count();
    healthy >= quorum(list.voters().count()) && healthy >= quorum(rest)
}
