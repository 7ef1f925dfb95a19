//! Down: etcd is asked to prepare its data for the older minor version, before any member runs that.

use super::Stage;
use super::serving::{heard, without};
use crate::observed::{Member, MemberList, Observed, Serving};

/// The minor version of a downgrade that is enabled, if it is not this one.
pub(in crate::cluster) fn other_than(
    observed: &Observed,
    list: &MemberList,
    minor: u8,
) -> Option<u8> {
    let enabled = heard(observed, list).find_map(|serving| serving.downgrade)?;
    (enabled != minor).then_some(enabled)
}

/// No member runs an older minor version before every member's data says that it can be read there, and nothing can change
/// that under way: a member of that version that runs, or a downgrade that is enabled in etcd.
pub(super) fn stage<'a>(observed: &'a Observed, list: &'a MemberList, to: u8) -> Option<Stage<'a>> {
    let runs_older = |serving: &Serving| serving.version.is_some_and(|version| version.minor <= to);
    let readable = |serving: &Serving| {
        runs_older(serving) || serving.storage.is_some_and(|storage| storage <= to)
    };
    let late = without(observed, list, readable);
    let enabled = heard(observed, list).any(|serving| serving.downgrade == Some(to));
    let older = heard(observed, list).any(runs_older);
    match (late.is_empty(), enabled, older) {
        (true, true, _) | (true, _, true) => None,
        (true, false, false) => Some(Stage::UpgradeNotFinished { to }),
        (false, true, _) => Some(Stage::DowngradeEnabled { to, late }),
        (false, false, _) => Some(match unfit(observed, list, to) {
            Some(member) => Stage::MemberNotFit { to, member },
            None => Stage::DowngradeDue { to },
        }),
    }
}

/// A member that takes no part, or runs another minor version than the next above. Here none is left out: the data of one
/// that cannot run would not be prepared, and one that runs two minor versions above it would be thrown out.
fn unfit<'a>(observed: &Observed, list: &'a MemberList, to: u8) -> Option<&'a Member> {
    let fit = |member: &Member| {
        let serving = observed.serving_as(member.id);
        let version = serving.and_then(|serving| serving.version);
        let near = version.is_some_and(|version| version.minor == to.saturating_add(1));
        near && observed.is_healthy(member) && !observed.is_away(member)
    };
    list.members.iter().find(|member| !fit(member))
}
