//! How a story in a world is told: from a settled cluster, over some seeds, to a settled cluster.
#![expect(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure is the point"
)]

use crate::{Run, World};

/// Turns after which a world must have settled.
pub const BOUND: usize = 900;

/// So many seeds, and so many times more as `WORLDS` says.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let times = std::env::var("WORLDS")
        .ok()
        .and_then(|times| times.parse().ok());
    0..count * times.unwrap_or(1)
}

/// A cluster that has settled, with a client that writes.
pub fn settled(size: u32, minor: u8, seed: u64) -> Run<'static> {
    let mut run = Run::new(World::new(size, minor, seed));
    run.settle(BOUND).unwrap();
    run
}

/// Settles, or tells which story did not.
pub fn settle(run: &mut Run<'_>, what: &str) {
    if let Err(why) = run.settle(BOUND) {
        panic!("{what}: {why}");
    }
}
