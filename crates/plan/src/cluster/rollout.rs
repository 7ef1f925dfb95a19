//! Every change but that of the size: the template of the pods, carried to one member at a time. The first member tries
//! it while the StatefulSet already holds the proven one again, so that a pod that is recreated for any other reason
//! never gets an untried template. Members that are unwell go first, the leader last and only after leadership was
//! transferred.
//!
//! `stage.rs` says where a rollout is, `answer.rs` what is done there: one answer per stage. `trial.rs` says what became of
//! the member that tries, `order.rs` and `spare.rs` which member is next and whether the others can spare it, `revive.rs`
//! is the same for a cluster without a quorum, and `cluster/versions.rs` says what etcd must have done first.

mod answer;
mod order;
mod revive;
mod spare;
mod stage;
mod trial;

use api::EtcdVersion;
use api::v1alpha1::status::TrialIntent;

use crate::decision::{Decision, SETTLED, Step};
use crate::observed::{Latched, MemberList, Observed, Pod, Proven};
use crate::why::Rollout as Why;

use answer::{answer, stays_called_off};
pub(super) use revive::revive;
use stage::{Stage, stage};

/// Goes on with what has begun; growing and shrinking come after it.
pub(super) fn go_on(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let rollout = Rollout::of(observed, list)?;
    let stage = stage(&rollout).filter(Stage::is_under_way)?;
    let another = matches!(stage, Stage::MemberFollows(_));
    (!another || !is_called(observed)).then(|| answer(&rollout, stage))
}

/// A call to a member has not ended. A restart would break it off, and space would have to be freed again.
fn is_called(observed: &Observed) -> bool {
    observed.upkeep_under_way().is_some() || observed.may_be_defragmented()
}

/// Begins another one, or says which member it waits for.
pub(super) fn begin(observed: &Observed, list: &MemberList) -> Option<Decision> {
    // No member is restarted on purpose that could not start again.
    if observed.lacks_certificates() || is_called(observed) {
        return None;
    }
    let rollout = Rollout::of(observed, list)?;
    let stage = stage(&rollout).filter(|stage| !stage.is_under_way())?;
    Some(answer(&rollout, stage))
}

/// Says that what is asked for was called off, once nothing else is to be done.
pub(super) fn called_off(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let why = complaint(observed)?;
    Some(Decision::wait(why, SETTLED))
}

/// Another template is asked for by now: should the former one be asked for again, it is tried again.
pub(super) fn forget(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    let (_, target) = observed.goal()?;
    // While the spec is not in force, what is asked for is not known.
    let asked = observed.cluster.target.as_ref();
    let known = asked.is_some_and(|asked| asked.refused.is_none());
    let stale = latched.called_off.is_some() && known && !observed.is_called_off(target);
    stale.then(|| {
        let latched = Latched {
            called_off: None,
            ..latched.clone()
        };
        Decision::act(Step::Latch(latched), Why::CallOffForgotten)
    })
}

/// The same for the condition, whatever else is done.
pub(crate) fn complaint(observed: &Observed) -> Option<Why> {
    let (proven, target) = observed.goal()?;
    let stays = proven.template != target && observed.is_called_off(target);
    stays.then(|| stays_called_off(observed))
}

/// What a rollout is judged by.
struct Rollout<'a> {
    observed: &'a Observed,
    list: &'a MemberList,
    /// What members are known to run on.
    proven: &'a Proven,
    /// The template that they are to run on.
    target: &'a str,
    /// The release in it.
    version: EtcdVersion,
    /// The member that tries a template, or is restarted on one.
    trial: Option<&'a TrialIntent>,
}

impl<'a> Rollout<'a> {
    fn of(observed: &'a Observed, list: &'a MemberList) -> Option<Self> {
        let (proven, target) = observed.goal()?;
        Some(Self {
            observed,
            list,
            proven,
            target,
            version: observed.cluster.target.as_ref()?.intent.version,
            trial: observed.cluster.latched.trial(),
        })
    }

    /// The target is proven: the other members follow. Otherwise one member tries it.
    fn is_target_proven(&self) -> bool {
        self.proven.template == self.target
    }

    /// A pod is recreated from what the StatefulSet holds, whatever is asked for.
    fn is_in_the_set(&self, template: &str) -> bool {
        self.observed.objects.template.as_deref() == Some(template)
    }

    /// The pod of the member that tries.
    fn pod_of(&self, trial: &TrialIntent) -> Option<(u32, &'a Pod)> {
        pod_of(self.observed, trial)
    }

    /// Asked for, but no member yet, where an earlier operator's members run.
    fn is_newcomer(&self, ordinal: u32) -> bool {
        let size = self.observed.cluster.intent.as_ref();
        self.proven.template.is_empty()
            && size.is_ok_and(|intent| ordinal < intent.size)
            && self.observed.member_of(ordinal).is_none()
    }
}

/// The pod of the member that tries.
fn pod_of<'a>(observed: &'a Observed, trial: &TrialIntent) -> Option<(u32, &'a Pod)> {
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
    Some((ordinal, observed.pods.get(&ordinal)?))
}
