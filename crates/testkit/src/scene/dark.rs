//! A quorum that is lost, and how far its recovery got.

use api::names;
use api::v1alpha1::cluster::OnQuorumLoss;
use api::v1alpha1::status::{RecoveryIntent, Survivor};
use gate::State;
use jiff::{SignedDuration, Timestamp};
use plan::observed::format_id;

use super::{CLUSTER, Claimed, Does, HEAD, STRANGER, Scene, claim_uid};
use crate::world::NAME;

/// The incarnation that a recovery begins in every scene.
pub const FENCE: u64 = 2;

/// What is known and recorded of a lost quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dark {
    /// Seconds since a quorum served.
    pub seconds: Option<i64>,
    /// What a person said.
    pub word: Word,
    /// The operator may go on by itself.
    pub by_itself: bool,
    /// How far it got.
    pub begun: Begun,
}

/// What a person said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Word {
    /// Nothing.
    #[default]
    None,
    /// To go on with what is left of this cluster.
    This,
    /// To go on with what is left of another one.
    Another,
}

/// How far a recovery got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begun {
    /// Nothing was recorded.
    #[default]
    No,
    /// It has begun.
    Yes,
    /// A survivor was chosen, on the claim that it has, or had.
    Chosen(u32, bool),
    /// It is over: its fence stays.
    Over,
}

/// How far the log on a volume goes that waits at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// As far as the leader's.
    Whole,
    /// One entry less.
    Shorter,
    /// Half as far, but in a later term.
    LaterTerm,
}

impl Log {
    /// Term and index of its last entry.
    pub fn end(self) -> (u64, u64) {
        match self {
            Self::Whole => (2, HEAD),
            Self::Shorter => (2, HEAD - 1),
            Self::LaterTerm => (3, HEAD / 2),
        }
    }
}

impl Dark {
    /// Dark for longer than any election, and a person gave the word.
    pub fn approved(begun: Begun) -> Self {
        Self {
            seconds: Some(100),
            word: Word::This,
            by_itself: false,
            begun,
        }
    }

    pub(super) fn named(self) -> Option<u64> {
        match self.word {
            Word::None => None,
            Word::This => Some(CLUSTER),
            Word::Another => Some(STRANGER),
        }
    }

    pub(super) fn since(self) -> Option<Timestamp> {
        let ago = SignedDuration::from_secs(self.seconds?);
        Some(Scene::now() - ago)
    }

    pub(super) fn policy(self) -> OnQuorumLoss {
        if self.by_itself {
            OnQuorumLoss::FromSurvivor
        } else {
            OnQuorumLoss::Ask
        }
    }

    /// A recovery is under way.
    pub fn is_recovering(self) -> bool {
        matches!(self.begun, Begun::Yes | Begun::Chosen(..))
    }

    /// Incarnation of the data.
    pub fn incarnation(self) -> u64 {
        self.fence().unwrap_or(1)
    }

    pub(super) fn fence(self) -> Option<u64> {
        (self.begun != Begun::No).then_some(FENCE)
    }

    pub(super) fn recovery(self) -> Option<RecoveryIntent> {
        let survivor = match self.begun {
            Begun::No | Begun::Over => return None,
            Begun::Yes => None,
            Begun::Chosen(ordinal, same) => Some(Survivor {
                member: names::member(NAME, ordinal),
                claim_uid: if same {
                    claim_uid(ordinal)
                } else {
                    format!("former-{}", claim_uid(ordinal))
                },
            }),
        };
        Some(RecoveryIntent {
            cluster_id: format_id(CLUSTER),
            survivor,
            excused: Vec::new(),
        })
    }
}

impl Scene {
    /// Its data was deleted on purpose, and nothing is left.
    pub fn has_ended(&self) -> bool {
        let nothing_left = self
            .slots
            .iter()
            .all(|slot| slot.does == Does::Absent && slot.claim == Claimed::Absent);
        self.ending && nothing_left && !self.clients
    }

    /// What lies on its volume is of the incarnation that was given up.
    pub fn is_given_up(&self, ordinal: u32) -> bool {
        let fenced = self.slot(ordinal).does == Does::Waits(State::Fenced);
        fenced && self.dark.begun == Begun::Over
    }

    /// The survivor that was chosen serves another cluster, behind the fence.
    pub fn continues(&self) -> bool {
        let Begun::Chosen(ordinal, _) = self.dark.begun else {
            return false;
        };
        let survivor = (0..).zip(&self.slots).find(|(n, _)| *n == ordinal);
        survivor.is_some_and(|(_, slot)| slot.does == Does::ServesStranger && slot.fenced)
    }
}
