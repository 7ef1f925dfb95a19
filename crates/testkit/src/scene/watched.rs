//! What was watched and remembered of members: that they do not keep up, that they were restarted for it, who voted, how
//! long a learner has been one, and what may be in the logs.

use std::collections::BTreeMap;

use api::names;
use api::v1alpha1::status::{HangIntent, KnownVoter};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::observed::{Joining, Stall, Writes, format_id};

use super::{For, HEAD, Listed, Scene, Slot, member_id, pod_uid};
use crate::world::NAME;

/// Seconds after which a learner that does not serve is given up.
const LATE: i64 = 300;

/// How a member keeps up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stalls {
    /// It does.
    No,
    /// It has applied nothing for a moment.
    Briefly,
    /// It has applied nothing for long.
    Stuck,
    /// Its disk has taken seconds for each write for long.
    SlowDisk,
}

impl Stalls {
    pub(super) fn stall(self) -> Option<Stall> {
        let writes = |count, millis| Some(Writes { count, millis });
        let (seconds, stuck, log) = match self {
            Self::No => return None,
            Self::Briefly => (10, true, writes(900, 900)),
            Self::Stuck => (40, true, writes(4000, 4000)),
            Self::SlowDisk => (40, false, writes(8, 40_000)),
        };
        Some(Stall {
            since: ago(seconds),
            stuck,
            log,
            database: None,
        })
    }
}

/// What may be in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Logs {
    /// Entries of the minor version that is asked for.
    AsAsked,
    /// Entries of this minor version.
    Since(u8),
    /// That is not known.
    Unknown,
}

impl Slot {
    /// A voter that has not kept up for long enough to say that it hangs.
    pub fn hangs(&self) -> bool {
        let long = matches!(self.stalls, Stalls::Stuck | Stalls::SlowDisk);
        long && self.listed == Listed::Voter && !self.terminating
    }

    /// It hangs in another pod than the one that was restarted for it.
    pub fn hangs_again(&self) -> bool {
        self.hangs() && self.hung == For::FormerWait
    }
}

impl Scene {
    /// A learner that has had the time to join.
    pub fn is_late(&self, ordinal: u32) -> bool {
        let learner = matches!(self.slot(ordinal).listed, Listed::New | Listed::Learner);
        learner && self.learning.is_some_and(|seconds| seconds >= LATE)
    }

    pub(super) fn known_voters(&self) -> Vec<KnownVoter> {
        let voters = self.each().filter(|(_, slot)| slot.listed == Listed::Voter);
        let voters = voters.filter(|_| self.known && self.formed);
        voters
            .map(|(ordinal, _)| KnownVoter {
                member: names::member(NAME, ordinal),
                member_id: format_id(member_id(ordinal)),
                index: i64::try_from(HEAD).ok(),
            })
            .collect()
    }

    pub(super) fn known_learners(&self) -> BTreeMap<u64, Joining> {
        let is_learner =
            |slot: &Slot| matches!(slot.listed, Listed::New | Listed::Learner) && self.formed;
        let learners = self.each().filter(|(_, slot)| is_learner(slot));
        learners
            .filter_map(|(ordinal, _)| {
                let since = ago(self.learning?);
                let joining = Joining {
                    since,
                    received: None,
                    behind: None,
                };
                Some((member_id(ordinal), joining))
            })
            .collect()
    }

    pub(super) fn hung(&self) -> Vec<HangIntent> {
        let hung = self.each().filter(|(_, slot)| slot.hung != For::NoWait);
        hung.map(|(ordinal, slot)| HangIntent {
            member: names::member(NAME, ordinal),
            member_id: format_id(member_id(ordinal)),
            pod_uid: match slot.hung {
                For::FormerWait => format!("former-{}", pod_uid(ordinal)),
                For::NoWait | For::ThisWait => pod_uid(ordinal),
            },
            time: Time(ago(60)),
        })
        .collect()
    }

    pub(super) fn log_line(&self) -> Option<u8> {
        match self.logs {
            Logs::AsAsked => self.formed.then_some(self.minor),
            Logs::Since(minor) => self.formed.then_some(minor),
            Logs::Unknown => None,
        }
    }
}

fn ago(seconds: i64) -> Timestamp {
    Scene::now() - SignedDuration::from_secs(seconds)
}
