//! Every order of events, tried one by one: from a start, whatever can happen next by itself, by the operator, by a
//! person or by a fault, with worlds that were met before left out. In every world that is reached nothing may have
//! happened that must never happen, every step must pass the invariants, and once the faults stop the cluster must
//! come to what is asked for, or say what a person has to decide.
//!
//! The model is [`World`], moved by name ([`crate::world::moves`]) instead of by chance, so that what the stories
//! assume of Kubernetes and etcd and what is tried here cannot come apart. The search is our own and short: the one
//! of the `stateright` crate (0.31) finds broken safety as well, but its "eventually" is by its own account blind on
//! paths that meet or go in circles, and coming to rest is half of what is asked here.

mod explore;
mod moves;
mod settle;

use std::sync::Arc;

use api::Transport;
use plan::{Decision, Observed};

use crate::world::World;
use crate::world::canon::Mix;
use crate::world::moves::Happens;
use crate::world::observe::Look;

pub use explore::{Broken, Found, explore};

/// A function that decides, from any thread.
pub type Decide<'a> = &'a (dyn Fn(&Observed) -> Decision + Sync);

/// What is tried.
#[derive(Clone, Debug)]
pub struct Story {
    /// What it is called.
    pub name: &'static str,
    /// Where it begins.
    pub start: World,
    /// Faults in one run at most.
    pub faults: u8,
    /// What can go wrong.
    pub kinds: &'static [Kind],
    /// Looks that are acted on late, at any time after, while others are acted on at once.
    pub late: u8,
    /// Writes of the client.
    pub writes: u8,
    /// Sizes that its owner asks for, one after the other, at any time.
    pub edits: &'static [Edit],
    /// At any time a person may give the word to go on with what is left.
    pub word: bool,
    /// What happens in one pod happens in larger pieces.
    pub coarse: bool,
    /// How often something may happen out of turn: with everything in any order there are too many orders in the large.
    /// The operator, its owner and faults have no turn. `None` is no bound.
    pub out_of_turn: Option<u8>,
    /// Steps that the invariants refuse are taken all the same.
    pub unchecked: bool,
    /// States after which the search ends, incomplete.
    pub most: usize,
}

/// What an owner changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Another size.
    Size(u32),
    /// Something that reaches the pods.
    Pods(u32),
    /// Another transport, for members that run.
    Switch(Transport),
    /// Another authority, by this value of the annotation.
    Rotate(&'static str),
    /// Authentication on, or off.
    Auth(bool),
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A container ends.
    Crash,
    /// A pod is deleted.
    DeletePod,
    /// A volume is empty.
    Empty,
    /// A claim is deleted.
    LoseClaim,
    /// Data cannot be read.
    Damage,
    /// etcd ends of its data.
    Break,
    /// A node falls silent; it may come back.
    Silent,
    /// A node is gone.
    NodeGone,
    /// The operator is killed between two of its writes.
    Killed,
    /// The operator does not reach a pod, or no member gives it the member list.
    Blind,
}

impl Kind {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Crash,
        Self::DeletePod,
        Self::Empty,
        Self::LoseClaim,
        Self::Damage,
        Self::Break,
        Self::Silent,
        Self::NodeGone,
        Self::Killed,
        Self::Blind,
    ];
    /// Those after which something is gone for good, and the operator's own end.
    pub const LOSSES: &'static [Self] = &[
        Self::Empty,
        Self::Damage,
        Self::Break,
        Self::Silent,
        Self::NodeGone,
        Self::Killed,
    ];
}

/// One move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Something happens by itself.
    Happens(Happens),
    /// The operator looks, decides, acts and reports.
    Operator,
    /// An operator looks, and is late to act.
    Look,
    /// It acts on that look.
    ActLate,
    /// The client writes.
    Write,
    /// Some seconds pass.
    Seconds,
    /// Minutes pass.
    Minutes,
    /// The owner's next change.
    Edit,
    /// A person gives the word.
    Word,
    /// A silent node comes back.
    Back(u32),
    /// Something goes wrong with an ordinal.
    Fault(Kind, u32),
}

/// A world, and what is still to come in its story.
#[derive(Clone, Debug)]
struct State {
    world: World,
    late: Option<Arc<(Look, Decision)>>,
    faults: u8,
    looks: u8,
    writes: u8,
    edits: usize,
    /// How often something may still happen out of turn.
    out_of_turn: u8,
}

impl State {
    fn start(story: &Story) -> Self {
        let mut world = story.start.clone();
        world.contrary = true;
        world.forget_words();
        world.follow();
        Self {
            world,
            late: None,
            faults: story.faults,
            looks: story.late,
            writes: story.writes,
            edits: 0,
            out_of_turn: story.out_of_turn.unwrap_or(0),
        }
    }

    fn code(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let late = self.late.as_deref().map(|(look, d)| (look, &d.step));
        let mut hasher = Mix::default();
        let left = (self.faults, self.looks, self.writes, self.edits);
        let left = (left, self.out_of_turn);
        (self.world.canonical(late), left).hash(&mut hasher);
        hasher.finish()
    }
}
