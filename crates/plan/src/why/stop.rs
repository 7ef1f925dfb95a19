//! A cluster that is stopped, and what becomes of its data.

use std::fmt;

use api::Reason;

/// Why, of a cluster whose size is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// So many pods have not stopped yet.
    PodsStopping(usize),
    /// No member runs, and the data is kept.
    Retained,
    /// No member runs, and the data was deleted.
    Deleted,
    /// The data will be deleted.
    Ending,
    /// This claim is deleted; so many are there.
    DeletingClaim(String, usize),
    /// What was deleted last is not gone yet.
    Terminating,
    /// All data is deleted.
    Ended,
}

impl Stop {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Retained | Self::Deleted => Reason::Stopped,
            Self::PodsStopping(_)
            | Self::Ending
            | Self::DeletingClaim(..)
            | Self::Terminating
            | Self::Ended => Reason::Stopping,
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodsStopping(pods) => write!(out, "{pods} pods are still stopping"),
            Self::Retained => {
                out.write_str("spec.size is 0: no member runs, the data is retained")
            }
            Self::Deleted => out.write_str(
                "spec.size is 0: no member runs, and the data was deleted by spec.storage.claimPolicy.whenStopped",
            ),
            Self::Ending => out.write_str(
                "stopped: the data will be deleted by spec.storage.claimPolicy.whenStopped",
            ),
            Self::DeletingClaim(claim, left) => write!(
                out,
                "deleting {claim} by spec.storage.claimPolicy.whenStopped; {left} claims remain"
            ),
            Self::Terminating => {
                out.write_str("the last claims and the client Service are being deleted")
            }
            Self::Ended => {
                out.write_str("the data is deleted; the next start bootstraps a new incarnation")
            }
        }
    }
}
