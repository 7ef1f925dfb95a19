//! Databases in a scene: how full they are, which alarm stands, whose data differs.

use plan::observed::{Hash, Space, quorum};

use super::{Does, Fate, HEAD, Listed, Made, Scene, Slot, member_id};

/// The quota of every scene, in bytes.
pub const QUOTA: u64 = 1 << 30;

/// How full a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fill {
    /// Hardly anything.
    Roomy,
    /// At the quota, and half of it is free.
    Loose,
    /// At the quota, and nothing of it is free.
    Full,
    /// Far from the quota, large, and mostly free.
    Fragmented,
}

impl Fill {
    /// The numbers.
    pub fn space(self) -> Space {
        let (size, in_use) = match self {
            Self::Roomy => (QUOTA / 100, QUOTA / 100),
            Self::Loose => (QUOTA, QUOTA / 2),
            Self::Full => (QUOTA, QUOTA - 1),
            Self::Fragmented => (QUOTA / 3, QUOTA / 30),
        };
        Space {
            size,
            in_use,
            quota: Some(QUOTA),
            revision: HEAD,
        }
    }
}

/// What a member's hash says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Differs {
    /// It was not asked.
    Unasked,
    /// What most say.
    Agrees,
    /// Something else.
    Differs,
}

impl Differs {
    /// The hash.
    pub fn hash(self) -> Option<Hash> {
        let hash = match self {
            Self::Unasked => return None,
            Self::Agrees => 1,
            Self::Differs => 2,
        };
        let (revision, compacted) = (HEAD, -1);
        Some(Hash {
            revision,
            compacted,
            hash,
        })
    }
}

/// An alarm that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarmed {
    /// None.
    No,
    /// For want of space.
    NoSpace,
    /// For data that differs.
    Corrupt,
}

impl Scene {
    /// Nothing answers, and it cannot come back: its node or volume is gone, or etcd ends of its data on a release that
    /// serves elsewhere. Or the data of a majority says so, or it hangs again after a restart, or never got to a vote.
    pub fn is_dead(&self, ordinal: u32) -> bool {
        let slot = self.slot(ordinal);
        let observed = self.observed();
        let proven = observed.cluster.latched.proven.as_ref();
        let pod = observed.pods.get(&ordinal).filter(|pod| !pod.terminating);
        let on_proven = pod
            .zip(proven)
            .is_some_and(|(pod, proven)| pod.template == proven.template);
        let target = observed.cluster.target.as_ref();
        let next = target.map(|target| target.intent.version.minor);
        let same_release = slot.made == Made::AsAsked && next == Some(self.from);
        let ends = slot.fate == Fate::Broken && (on_proven || same_release);
        let silent = matches!(slot.does, Does::Absent | Does::Unknown);
        let vain = slot.hangs_again() || self.is_late(ordinal);
        silent && (slot.fate.is_final() || ends) || self.is_outvoted(ordinal) || vain
    }

    /// A majority of all voters has one hash, and this voter another.
    pub fn is_outvoted(&self, ordinal: u32) -> bool {
        let slot = self.slot(ordinal);
        let serves = |slot: &Slot| {
            matches!(slot.does, Does::Serves | Does::Lags | Does::Leaderless)
                && slot.listed == Listed::Voter
        };
        let other = match slot.differs {
            Differs::Unasked => return false,
            Differs::Agrees => Differs::Differs,
            Differs::Differs => Differs::Agrees,
        };
        let against = self.voters().filter(|s| serves(s) && s.differs == other);
        self.list && serves(&slot) && against.count() >= quorum(self.voters().count())
    }

    pub(super) fn errors(&self) -> Vec<String> {
        let text = |kind: &str| vec![format!("memberID:{} alarm:{kind} ", member_id(0))];
        match self.alarm {
            Alarmed::No => Vec::new(),
            Alarmed::NoSpace => text("NOSPACE"),
            Alarmed::Corrupt => text("CORRUPT"),
        }
    }
}
