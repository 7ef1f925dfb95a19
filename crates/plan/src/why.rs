//! Why a step is taken, what is waited for, and what is left to a person: closed lists whose values carry the facts. The
//! reason in one word follows from the value, so that the two cannot disagree, and the sentence is made from it where a user
//! reads it. Code and tests know a wait by its value, never by its words.

mod auth;
mod bootstrap;
mod certificates;
mod in_place;
mod incomplete;
mod join;
mod leave;
mod object;
mod quorum;
mod recovery;
mod release;
mod repair;
mod restore;
mod resume;
mod revive;
mod rollout;
mod space;
mod stop;
mod vain;
mod volumes;
mod way;

use std::fmt;

use api::Reason;

pub use auth::Auth;
pub use bootstrap::Bootstrap;
pub use certificates::Certificates;
pub use in_place::{Blocked, InPlace};
pub use incomplete::Incomplete;
pub use join::Join;
pub use leave::Leave;
pub use object::Object;
pub use quorum::{Command, Quorum, Voters};
pub use recovery::{GiveUp, Recovery, Survivor};
pub use release::{Formats, Late, Release};
pub use repair::{Away, Repair};
pub use restore::Restore;
pub use resume::{Found, Resume, Unreadable};
pub use revive::Revive;
pub use rollout::{Next, Progress, Rollout, Trial, Tried, Unlisted};
pub use space::{Advice, Database, Full, Need, Space};
pub use stop::Stop;
pub use vain::Vain;
pub use volumes::{Small, Volumes};
pub use way::{ByItself, Known, Way};

/// Declares [`Why`], one variant for each group of rules. Each group has its own file, its reasons and its sentences.
macro_rules! groups {
    ($($(#[$doc:meta])* $group:ident,)*) => {
        /// Why, by the group of rules that says it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Why {
            $($(#[$doc])* $group($group),)*
        }

        impl Why {
            /// In one word.
            pub fn reason(&self) -> Reason {
                match self {
                    $(Self::$group(why) => why.reason(),)*
                }
            }
        }

        impl fmt::Display for Why {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$group(why) => why.fmt(out),)*
                }
            }
        }

        $(impl From<$group> for Why {
            fn from(why: $group) -> Self {
                Self::$group(why)
            }
        })*
    };
}

groups! {
    /// The object and its parts.
    Object,
    /// A step that cannot be taken.
    Vain,
    /// A cluster that is stopped.
    Stop,
    /// The first member.
    Bootstrap,
    /// A backup that the cluster begins with.
    Restore,
    /// A backup that takes the place of the data.
    InPlace,
    /// Data and members that were there before.
    Resume,
    /// A member that joins.
    Join,
    /// A member that leaves.
    Leave,
    /// A member that is repaired.
    Repair,
    /// What is waited for where nothing can be done.
    Incomplete,
    /// Space in the databases.
    Space,
    /// A template that is rolled out.
    Rollout,
    /// The same without a quorum.
    Revive,
    /// What etcd must have done before another release.
    Release,
    /// Volumes that grow.
    Volumes,
    /// Quorum that is lost.
    Quorum,
    /// The recovery from that.
    Recovery,
    /// Certificates.
    Certificates,
    /// Authentication of etcd, its users and roles.
    Auth,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes on beside a wait is told in its own words, for the reason of the wait.
    #[test]
    fn what_is_done_meanwhile_has_the_reason_of_what_is_waited_for() {
        let growth = Volumes::Expanding("data-db-0".to_owned(), "2Gi".to_owned());
        let meanwhile = Why::from(Volumes::Meanwhile {
            growth: Box::new(growth.clone().into()),
            wait: Box::new(Incomplete::NoQuorum(Vec::new()).into()),
        });
        let (reason, sentence) = (meanwhile.reason(), meanwhile.to_string());
        assert_eq!(reason, Reason::EtcdUnreachable);
        assert_eq!(sentence, growth.to_string());
        let starting = Join::Starts("db-0".to_owned());
        let recovers = Why::from(Recovery::OnTheWay(Box::new(starting.clone().into())));
        assert_eq!(recovers.reason(), Reason::Recovering);
        assert_eq!(recovers.to_string(), starting.to_string());
    }
}
