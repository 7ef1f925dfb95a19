//! Which revisions a store can bring back, from its listing alone: those from the compact revision of a base to its own, and
//! from there as far as the log follows without a gap.

use super::Segment;

/// A base, as far as this room looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Revision up to which its history was compacted away; 0 before the first compaction.
    pub compact: i64,
    /// Newest revision in it.
    pub revision: i64,
}

/// Revisions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// The oldest.
    pub from: i64,
    /// The newest.
    pub to: i64,
}

/// What a store covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// In order, and between any two of them is a gap.
    pub ranges: Vec<Range>,
}

/// A revision that is not covered, and the nearest ones that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCovered {
    /// The newest one before it.
    pub below: Option<i64>,
    /// The oldest one after it.
    pub above: Option<i64>,
}

impl Cover {
    /// The revisions that are missing between the oldest and the newest one.
    pub fn gaps(&self) -> Vec<Range> {
        let pairs = self.ranges.iter().zip(self.ranges.iter().skip(1));
        let gap = |(one, next): (&Range, &Range)| Range {
            from: one.to.saturating_add(1),
            to: next.from.saturating_sub(1),
        };
        pairs.map(gap).collect()
    }

    /// Whether a revision can be brought back.
    pub fn find(&self, revision: i64) -> Result<(), NotCovered> {
        let has = |range: &Range| range.from <= revision && revision <= range.to;
        if self.ranges.iter().any(has) {
            return Ok(());
        }
        let below = self.ranges.iter().map(|range| range.to);
        let above = self.ranges.iter().map(|range| range.from);
        Err(NotCovered {
            below: below.filter(|to| *to < revision).max(),
            above: above.filter(|from| *from > revision).min(),
        })
    }
}

/// What bases and log cover together. Log that follows no base is of no use, and counts for nothing.
pub fn cover(bases: &[Held], segments: &[Segment]) -> Cover {
    let range = |base: &Held| Range {
        from: base.compact.max(1),
        to: reach(segments, base.revision),
    };
    let mut all: Vec<Range> = bases.iter().map(range).collect();
    all.retain(|range| range.from <= range.to);
    all.sort_unstable();
    let mut ranges: Vec<Range> = Vec::new();
    for range in all {
        match ranges.last_mut() {
            Some(last) if range.from <= last.to.saturating_add(1) => {
                last.to = last.to.max(range.to);
            }
            _gap => ranges.push(range),
        }
    }
    Cover { ranges }
}

/// The segments that lead from one revision to another, or as far as they lead, in order; the last of them may go on beyond.
/// Of several that overlap, those that lead farthest.
pub fn chain(segments: &[Segment], after: i64, to: i64) -> Vec<&Segment> {
    let mut sorted: Vec<&Segment> = segments.iter().collect();
    sorted.sort_unstable();
    let mut rest = sorted.into_iter().peekable();
    let (mut found, mut reached) = (Vec::new(), after);
    while reached < to {
        let mut best: Option<&Segment> = None;
        while let Some(next) = rest.next_if(|it| it.first <= reached.saturating_add(1)) {
            if next.last > best.map_or(reached, |best| best.last) {
                best = Some(next);
            }
        }
        let Some(best) = best else {
            break;
        };
        reached = best.last;
        found.push(best);
    }
    found
}

/// How far the log leads from a revision.
fn reach(segments: &[Segment], after: i64) -> i64 {
    let last = chain(segments, after, i64::MAX).last().map(|it| it.last);
    last.unwrap_or(after)
}
