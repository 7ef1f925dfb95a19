//! The container for debugging.

use crate::decision::{Decision, Step};
use crate::observed::{MemberList, Observed, Pod};
use crate::why::Object;

/// The container for debugging joins a running pod; it is no reason to restart one.
pub(super) fn debug(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let intent = observed.cluster.intent.as_ref().ok();
    intent.filter(|intent| intent.debug.is_some())?;
    let lacks = |pod: &Pod| !pod.debug && !pod.terminating && pod.serving().is_some();
    let (ordinal, pod) = observed.pods.iter().find(|(_, pod)| lacks(pod))?;
    let step = Step::AddDebugContainer {
        ordinal: *ordinal,
        uid: pod.uid.clone(),
    };
    let why = Object::DebugContainer(observed.member_name(*ordinal));
    Some(Decision::act(step, why))
}
