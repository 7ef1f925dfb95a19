//! Steps that cannot be taken: one that was tried in vain and rests, and one that a rule must not have proposed.

use std::fmt;

use api::Reason;

use super::Why;
use crate::decision::Forbidden;
use crate::observed::{self, FailedStep};

/// Why a step is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vain {
    /// It was tried in vain and may not be tried yet.
    Rests {
        /// What came of it.
        failed: Box<FailedStep>,
        /// Why it is due.
        due: Box<Why>,
    },
    /// The invariants forbid it, and nothing else is to be done.
    Forbidden(Box<Forbidden>),
}

impl Vain {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Rests { failed, due } => match failed.vain {
                observed::Vain::Rejected => Reason::StepFailed,
                observed::Vain::PutOff | observed::Vain::Undone => due.reason(),
            },
            Self::Forbidden(_) => Reason::StepFailed,
        }
    }
}

impl fmt::Display for Vain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rests { failed, .. } => out.write_str(&failed.describe()),
            Self::Forbidden(forbidden) => out.write_str(&forbidden.tell()),
        }
    }
}
