//! When the indexes of voters were last recorded, as far as this process has seen: each time costs a write of the
//! StatefulSet. Kept in memory between two looks; losing it costs one more write. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::observed::Observed;

/// What was recorded, and when that was seen to change: the operator's memory of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    indexes: Option<BTreeMap<String, i64>>,
    at: Option<Timestamp>,
}

impl Recorded {
    /// The wall clock was set by so much.
    pub(crate) fn shift(&mut self, by: SignedDuration) {
        self.at = self.at.and_then(|at| at.checked_add(by).ok());
    }

    /// Puts it into the picture.
    pub(crate) fn sort(&mut self, observed: &mut Observed) {
        let voters = observed.cluster.latched.voters.iter();
        let indexes = voters.filter_map(|voter| Some((voter.member_id.clone(), voter.index?)));
        let indexes: BTreeMap<String, i64> = indexes.collect();
        if self.indexes.as_ref().is_some_and(|known| *known != indexes) {
            self.at = Some(observed.now);
        }
        self.indexes = Some(indexes);
        observed.indexes_recorded = self.at;
    }
}
