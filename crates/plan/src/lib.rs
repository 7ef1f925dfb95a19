//! Room 3, judgement. From what was observed to one next step and the reason for it; from the same
//! facts to the status that a user reads. No IO, no clock, no randomness, no logging: whatever
//! happens in production can be put into an [`Observed`] and tried here.
//!
//! The story: [`observed`] is what we may know, [`target`] what to run next, [`shape`] how much of the cluster should exist,
//! [`cluster::decide`] the ordered table of rules, [`decision`] what can come out of it, [`why`] the reasons for it,
//! [`invariants`] what must hold for any step, whichever rule proposed it, [`status`] and [`events`] what users see, [`admit`] what
//! of it they are told when they write a spec.

pub mod admit;
pub mod backup;
pub mod cluster;
pub mod decision;
pub mod events;
pub mod invariants;
pub mod observed;
pub mod restore;
pub mod shape;
pub mod status;
pub mod target;
pub mod why;

pub use cluster::decide;
pub use decision::{Decision, Step};
pub use observed::Observed;
pub use why::Why;
