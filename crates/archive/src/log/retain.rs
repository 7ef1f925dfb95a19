//! Which of the log is no longer needed.

use super::Segment;

/// Segments that no base needs, oldest first: those that end with the oldest base, or before it. `bases` are the revisions of
/// all bases of the timeline, of any object, those included that cannot be read: what they need is not known. Where there is no
/// base, nothing is let go: who deleted the bases may bring them back.
///
/// Invariant: what the bases cover stays covered (`nothing_that_a_base_covers_is_let_go`).
pub fn unneeded<'a>(bases: &[i64], segments: &'a [Segment]) -> Vec<&'a Segment> {
    let Some(oldest) = bases.iter().min() else {
        return Vec::new();
    };
    let ends = |segment: &&Segment| segment.last <= *oldest;
    let mut unneeded: Vec<&Segment> = segments.iter().filter(ends).collect();
    unneeded.sort_unstable();
    unneeded
}
