//! What members say of their release and their data.

use crate::observed::{Doing, Member, MemberList, Observed, Serving};
use crate::why::Late;

/// Every member, and what it says.
pub(super) fn all<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = Option<&'a Serving>> {
    let members = list.members.iter();
    members.map(|member| observed.serving_as(member.id))
}

/// Every member whose data counts, and what it says.
pub(super) fn counted<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = (&'a Member, Option<&'a Serving>)> {
    let members = list.members.iter();
    members
        .filter(|member| !has_tried_in_vain(observed, member))
        .map(|member| (member, observed.serving_as(member.id)))
}

/// What the members say whose data counts.
pub(super) fn heard<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = &'a Serving> {
    counted(observed, list).filter_map(|(_, serving)| serving)
}

/// The members whose data counts and of which this does not hold, or is not known.
pub(super) fn without<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
    holds: impl Fn(&Serving) -> bool,
) -> Vec<&'a Member> {
    counted(observed, list)
        .filter(|(_, serving)| !serving.is_some_and(&holds))
        .map(|(member, _)| member)
        .collect()
}

/// It runs nothing, on a template that is not the proven one: its data was ready before it was restarted on that, and
/// nothing has touched it since.
fn has_tried_in_vain(observed: &Observed, member: &Member) -> bool {
    let proven = observed.cluster.latched.proven.as_ref();
    let ordinal = observed.ordinal_of(member);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    pod.zip(proven)
        .is_some_and(|(pod, proven)| pod.runs_nothing() && pod.template != proven.template)
}

/// Which member it is, and what keeps it.
pub(super) fn say(observed: &Observed, member: &Member) -> Late {
    let ordinal = observed.ordinal_of(member);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    let name = ordinal.map_or_else(|| member.name.clone(), |n| observed.member_name(n));
    let well = observed.is_healthy(member) && pod.is_some_and(|pod| pod.serving().is_some());
    Late {
        member: name,
        doing: (!well).then(|| Doing::of(pod)),
    }
}
