//! What properties ask of a scene: in terms of how it was painted, never of how the rules read it.

use gate::State;

use super::{Claimed, Does, For, Listed, Made, Scene, Slot, member_id};

impl Slot {
    /// Healthy in the sense of the design: known to serve this cluster, to follow a leader, and not to hang.
    pub fn takes_part(&self) -> bool {
        matches!(self.does, Does::Serves | Does::Lags) && !self.hangs()
    }

    /// It waits on a volume without data that can be read, with less than it had, or that was exchanged for another.
    pub fn is_blank(&self) -> bool {
        let exchanged = self.does == Does::WaitsWithStranger && self.claim == Claimed::Ours;
        let blank = matches!(
            self.does,
            Does::Waits(State::Empty | State::Damaged | State::RolledBack)
        );
        blank || exchanged
    }

    /// Kubernetes says that its container cannot start, and no answer says otherwise.
    pub fn runs_nothing(&self) -> bool {
        self.stuck && matches!(self.does, Does::Unknown)
    }

    /// Its pod is gone or going.
    pub fn is_away(&self) -> bool {
        self.does == Does::Absent || self.terminating
    }
}

impl Scene {
    /// The slot of an ordinal.
    pub fn slot(&self, ordinal: u32) -> Slot {
        let found = self.each().find(|(known, _)| *known == ordinal);
        found.map_or_else(|| Slot::new(Does::Absent, Listed::No), |(_, slot)| *slot)
    }

    /// The slot of a member.
    pub fn slot_of(&self, id: u64) -> Slot {
        let ordinal = (0..9).find(|ordinal| member_id(*ordinal) == id);
        self.slot(ordinal.unwrap_or(u32::MAX))
    }

    /// Every voter.
    pub fn voters(&self) -> impl Iterator<Item = &Slot> {
        let slots = self.slots.iter();
        slots.filter(|slot| slot.listed == Listed::Voter)
    }

    /// Every voter but one.
    pub fn other_voters(&self, ordinal: u32) -> impl Iterator<Item = &Slot> {
        let others = self.each().filter(move |(other, _)| *other != ordinal);
        others
            .map(|(_, slot)| slot)
            .filter(|slot| slot.listed == Listed::Voter)
    }

    /// It took the ID of a member that had been removed: the list does not have it, and its data belongs to no member.
    pub fn is_misled(&self, ordinal: u32) -> bool {
        let slot = self.slot(ordinal);
        self.list && slot.does == Does::Waits(State::Mismatch) && slot.listed == Listed::No
    }

    /// A member that was let through and has not been heard of since.
    pub fn grant_is_open(&self) -> bool {
        self.each().any(|(ordinal, slot)| {
            let bootstraps = !self.formed
                && self
                    .bootstrap
                    .is_some_and(|(bootstrap, _)| bootstrap == ordinal);
            let waits_again = matches!(slot.does, Does::Waits(_) | Does::WaitsWithStranger)
                && slot.grant == For::FormerWait;
            let granted = slot.grant != For::NoWait && !bootstraps;
            // A process that runs has asked the others who they are.
            let runs = matches!(
                slot.does,
                Does::Starts | Does::Serves | Does::Lags | Does::Leaderless | Does::ServesStranger
            );
            let unheard = slot.does != Does::Absent && !waits_again && !runs;
            slot.listed == Listed::New && granted && unheard
        })
    }

    /// A member runs on another template than is asked for, or tries it.
    pub fn is_changing(&self) -> bool {
        let differs = |slot: &Slot| slot.made != Made::AsAsked;
        self.edited || self.from != self.minor || self.predecessor || self.slots.iter().any(differs)
    }
}
