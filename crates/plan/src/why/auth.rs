//! Authentication of etcd, its users and roles.

use std::fmt;

use api::Reason;

use crate::observed::AuthChange;

/// Why, of authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// This is changed.
    Changing(AuthChange),
    /// Which users and roles are declared is recorded.
    Recording,
    /// It is switched on once every member is healthy and demands certificates.
    AwaitingMembers,
    /// It is switched off shortly.
    SwitchingOff,
    /// etcd has not told yet which users and roles it has.
    Reading,
}

impl Auth {
    #[expect(
        clippy::unused_self,
        reason = "every group is asked for the reason of its value"
    )]
    pub(super) fn reason(&self) -> Reason {
        Reason::ConfiguringAuth
    }
}

impl fmt::Display for Auth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changing(change) => change.fmt(out),
            Self::Recording => out.write_str("recording which users and roles are declared"),
            Self::AwaitingMembers => out.write_str(
                "authentication is switched on once every member is healthy and demands certificates",
            ),
            Self::SwitchingOff => out.write_str("authentication is switched off shortly"),
            Self::Reading => {
                out.write_str("waiting for etcd to tell which users and roles it has")
            }
        }
    }
}
