//! Up: etcd converts its data by itself, once the last member runs the newer minor version.

use super::Stage;
use super::serving::{all, without};
use crate::observed::{MemberList, Observed, Proven, Serving};

/// Every member's data must have the format of the minor version that they run, before the next one is begun.
pub(super) fn stage<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
    from: u8,
) -> Option<Stage<'a>> {
    let followed = |serving: &Serving| {
        let runs = serving.version.is_some_and(|version| version.minor >= from);
        // 3.5 does not tell.
        let converted = from == 5 || serving.storage.is_some_and(|storage| storage >= from);
        runs && converted
    };
    let late = without(observed, list, followed);
    (!late.is_empty()).then_some(Stage::DataNotUpgraded { minor: from, late })
}

/// Every member runs a newer minor version than is proven, and the data is about to follow: no member goes back until it
/// has, or an old binary would meet data that turns new under it.
pub(in crate::cluster) fn is_unfinished(
    observed: &Observed,
    list: &MemberList,
    proven: &Proven,
) -> bool {
    let minor = proven.version.minor;
    let newer = |serving: &Serving| serving.version.is_some_and(|version| version.minor > minor);
    let follows = all(observed, list).all(|serving| serving.is_some_and(newer));
    let held = all(observed, list)
        .flatten()
        .any(|serving| serving.downgrade == Some(minor));
    let target = observed.cluster.target.as_ref();
    let back = target.is_some_and(|target| target.intent.version.minor <= minor);
    follows && !held && back
}
