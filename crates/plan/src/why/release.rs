//! What etcd must have done before members may run on another minor version.

use std::fmt;

use api::Reason;

use crate::observed::Doing;
use crate::target::Refused;

/// Why, on the way to another release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Every member writes a snapshot before 3.7.
    SnapshotsFirst,
    /// Some members have none yet.
    SnapshotsAwaited,
    /// Every member has one.
    SnapshotsTaken,
    /// They are not needed any more.
    SnapshotsNotNeeded,
    /// The data of some members does not have the format of this minor version, which they run.
    NotUpgraded(u8, Formats),
    /// The data of some members is prepared for this minor version.
    Preparing(u8, Formats),
    /// The upgrade before the downgrade to this minor version has not ended.
    UpgradeNotFinished(u8),
    /// The downgrade to this minor version waits for a member.
    NotFit(u8, Late),
    /// The downgrade to this minor version is enabled.
    Enabling(u8),
    /// The downgrade to this minor version is not asked for any more.
    DowngradeReverted(u8),
    /// What is asked for cannot be reached.
    Refused(Refused),
}

/// Whose data has a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formats {
    /// So many members there are.
    pub all: usize,
    /// These do not have it.
    pub late: Vec<Late>,
}

/// A member that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Its name.
    pub member: String,
    /// What its pod does, where that is what keeps it.
    pub doing: Option<Doing>,
}

impl Release {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::SnapshotsFirst
            | Self::SnapshotsAwaited
            | Self::SnapshotsTaken
            | Self::SnapshotsNotNeeded
            | Self::NotUpgraded(..) => Reason::RollingOut,
            Self::Preparing(..)
            | Self::UpgradeNotFinished(_)
            | Self::NotFit(..)
            | Self::Enabling(_)
            | Self::DowngradeReverted(_) => Reason::Downgrading,
            Self::Refused(Refused::Invalid { .. }) => Reason::InvalidSpec,
            Self::Refused(Refused::Pinned { .. } | Refused::Path(_)) => Reason::ChangeRefused,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SnapshotsFirst => out.write_str(
                "every member writes a snapshot first: 3.7 cannot read log entries of 3.5",
            ),
            Self::SnapshotsAwaited => {
                out.write_str("waiting until every member has a snapshot that 3.7 can start from")
            }
            Self::SnapshotsTaken => {
                out.write_str("every member has a snapshot that 3.7 can start from")
            }
            Self::SnapshotsNotNeeded => {
                out.write_str("no snapshots are needed any more: the upgrade to 3.7 was reverted")
            }
            Self::NotUpgraded(minor, formats) | Self::Preparing(minor, formats) => {
                let all = formats.all;
                let done = all.saturating_sub(formats.late.len());
                let late: Vec<String> = formats.late.iter().map(ToString::to_string).collect();
                write!(
                    out,
                    "the data of {done} of {all} members has the format of 3.{minor}: waiting for {}",
                    late.join("; ")
                )
            }
            Self::UpgradeNotFinished(to) => write!(
                out,
                "waiting until etcd has finished the upgrade; then it prepares its data for 3.{to}"
            ),
            Self::NotFit(to, late) => write!(
                out,
                "etcd prepares its data for 3.{to} once every member is healthy: waiting for {late}"
            ),
            Self::Enabling(to) => write!(out, "enabling the downgrade to 3.{to} in etcd"),
            Self::DowngradeReverted(to) => write!(out, "the downgrade to 3.{to} was reverted"),
            Self::Refused(refused) => refused.fmt(out),
        }
    }
}

impl fmt::Display for Late {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.member)?;
        match &self.doing {
            Some(doing) => write!(out, ", which {doing}"),
            None => Ok(()),
        }
    }
}
