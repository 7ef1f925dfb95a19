//! Space in the databases.

use std::fmt;

use api::Reason;
use jiff::Timestamp;

/// Why, where databases are full, or have more space than they use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Space {
    /// This member has been defragmented since then.
    DefragmentationRuns(String, Timestamp),
    /// What lies below this revision has been compacted since then.
    CompactionRuns(u64, Timestamp),
    /// A call that was begun failed. The member that was defragmented; `None` for a compaction.
    Failed(Option<String>),
    /// A call that was begun has ended, and is begun again. The member that was defragmented; `None` for a compaction.
    Repeated(Option<String>),
    /// Every database has free space again.
    Free,
    /// All but so many revisions are compacted.
    Compacting(u64),
    /// A member is defragmented next.
    Next(Database, Need),
    /// A member is defragmented.
    Defragmenting(Database, Need),
    /// The first member leads, and hands over to the second before it is defragmented.
    HandsOver(String, String, Need),
    /// This member needs no defragmentation any more.
    NotNeeded(String, Need),
    /// This member could not be defragmented.
    GivenUp(String, Need),
    /// This member is back, and the next one is restarted after space was freed.
    RolloutSuspended(String),
    /// Nothing is left to be done.
    Exhausted(Full, Advice),
}

/// What a database is defragmented for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// etcd takes no writes, or is about to.
    Full,
    /// Its file is mostly empty.
    Fragmented,
}

/// The database of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The member.
    pub member: String,
    /// Bytes that are in use.
    pub in_use: u64,
    /// Bytes of the file.
    pub size: u64,
}

/// A database that is full, or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// etcd takes no writes.
    pub alarm: bool,
    /// The database.
    pub database: Database,
    /// Bytes that it may have, where that is known.
    pub quota: Option<u64>,
}

/// What a person can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Raise the limits, or delete keys.
    Raise,
    /// The owner forbade compaction.
    Compact,
}

impl Need {
    fn reason(self) -> Reason {
        match self {
            Self::Full => Reason::NoSpace,
            Self::Fragmented => Reason::Defragmenting,
        }
    }
}

impl Space {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::DefragmentationRuns(..)
            | Self::CompactionRuns(..)
            | Self::Failed(_)
            | Self::Repeated(_) => Reason::Defragmenting,
            Self::Free | Self::Compacting(_) | Self::RolloutSuspended(_) | Self::Exhausted(..) => {
                Reason::NoSpace
            }
            Self::Next(_, need)
            | Self::Defragmenting(_, need)
            | Self::HandsOver(_, _, need)
            | Self::NotNeeded(_, need)
            | Self::GivenUp(_, need) => need.reason(),
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefragmentationRuns(member, since) => write!(
                out,
                "defragmentation of {member} has been running since {}; the member may not respond meanwhile",
                since.strftime("%H:%M:%S UTC")
            ),
            Self::CompactionRuns(revision, since) => write!(
                out,
                "compaction of revisions below {revision} has been running since {}",
                since.strftime("%H:%M:%S UTC")
            ),
            Self::Failed(Some(member)) => write!(out, "{member} cannot be defragmented"),
            Self::Failed(None) => out.write_str("the history cannot be compacted"),
            Self::Repeated(Some(member)) => write!(out, "defragmenting {member}"),
            Self::Repeated(None) => out.write_str("compacting the history"),
            Self::Free => out.write_str("every database has free space again; etcd accepts writes"),
            Self::Compacting(kept) => write!(out, "compacting all but the last {kept} revisions"),
            Self::Next(database, _) => write!(
                out,
                "{} is defragmented next: {} of {} are in use",
                database.member,
                human(database.in_use),
                human(database.size)
            ),
            Self::Defragmenting(database, _) => write!(
                out,
                "defragmenting {}: {} of {} are in use",
                database.member,
                human(database.in_use),
                human(database.size)
            ),
            Self::HandsOver(member, to, _) => write!(
                out,
                "{member} is the leader and will be defragmented: transferring leadership to {to}"
            ),
            Self::NotNeeded(member, _) => {
                write!(out, "{member} needs no defragmentation any more")
            }
            Self::GivenUp(member, _) => write!(
                out,
                "{member} could not be defragmented; nothing else waits for it"
            ),
            Self::RolloutSuspended(member) => write!(
                out,
                "{member} is back; the rollout is suspended until space has been freed up in the databases, and continues after that"
            ),
            Self::Exhausted(full, advice) => write!(out, "{full}: {advice}"),
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.alarm {
            "etcd accepts no writes"
        } else {
            "etcd will soon accept no writes"
        };
        let of = self.quota.map_or_else(
            || "an unknown quota".to_owned(),
            |quota| format!("its quota of {}", human(quota)),
        );
        write!(
            out,
            "{what}: the database of {} has {} of {of}, {} of them in use",
            self.database.member,
            human(self.database.size),
            human(self.database.in_use)
        )
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raise = "raise spec.etcd.quotaBackendBytes, with spec.storage.size at least two and a half times as large, or delete keys";
        match self {
            Self::Raise => out.write_str(raise),
            Self::Compact => write!(
                out,
                "old revisions are not compacted, because spec.maintenance.compact is Never: compact them (etcdctl compact REVISION), set Auto, or {raise}"
            ),
        }
    }
}

fn human(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}
