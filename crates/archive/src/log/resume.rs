//! Where capture begins, from what the store holds and what the member says.

use super::Segment;
use super::cover::{Held, cover};

/// So many revisions behind, a watch hurts the member more than a base does: for each thousand that it brings, etcd reads all
/// that are left under a lock that writes need.
pub const MOST_BEHIND: i64 = 20_000;

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Watch what follows this revision.
    Watch {
        /// The newest revision that the store has.
        after: i64,
        /// Hash of its rows, which the member's must have: else its history is another one.
        hash: Option<u32>,
    },
    /// Make a base, and watch what follows it.
    Base {
        /// The newest revision that the store has, if it has any.
        after: Option<i64>,
    },
    /// The store has revisions that the member never had: its history is another one.
    Forked {
        /// The newest revision that the store has.
        stored: i64,
        /// The newest one of the member.
        member: i64,
    },
}

/// Where to begin with a member that is at revision `now` and has compacted history up to `compacted`, as far as is known (0).
pub fn begin(bases: &[Held], segments: &[Segment], now: i64, compacted: i64) -> Begin {
    let covered = cover(bases, segments);
    let is_covered = |segment: &&Segment| covered.find(segment.last).is_ok();
    let logged = segments.iter().filter(is_covered).max_by_key(|it| it.last);
    let from_log = logged.map(|segment| (segment.last, Some(segment.hash)));
    let from_base = bases.iter().map(|base| (base.revision, None)).max();
    let newest = from_log.map(|it| it.0).max(from_base.map(|it| it.0));
    if let Some(stored) = newest.filter(|stored| *stored > now) {
        return Begin::Forked {
            stored,
            member: now,
        };
    }
    let is_near = |(after, _): &(i64, _)| *after >= compacted && now - after <= MOST_BEHIND;
    // The log comes first: what a newer base skips of it would have no moments.
    match from_log.into_iter().chain(from_base).find(is_near) {
        Some((after, hash)) => Begin::Watch { after, hash },
        None => Begin::Base { after: newest },
    }
}
