//! Counting tests from what `cargo test` prints. A test binary that a later stage runs again, with more around it, counts
//! once: its new result takes the place of the old. A test that says `SKIPPED: …` has proved nothing, whatever the test
//! runner says of it.

use std::collections::{BTreeMap, BTreeSet};

/// Passed, failed and skipped tests by test binary.
#[derive(Debug, Default)]
pub(super) struct Counts {
    part: &'static str,
    current: (&'static str, String),
    said_skipped: BTreeSet<String>,
    results: BTreeMap<(&'static str, String), Total>,
    /// Tenths of a second that stories took, by name.
    stories: BTreeMap<String, u32>,
}

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl Counts {
    /// What is read from here on is a part of its test binaries that no other stage runs, and is added to the others.
    pub(super) fn begin_part(&mut self, part: &'static str) {
        self.part = part;
    }

    /// Takes in one line of output.
    pub(super) fn read(&mut self, line: &str) {
        let line = line.trim();
        if line.starts_with("Running ") || line.starts_with("Doc-tests ") {
            self.current = (self.part, line.to_owned());
            self.said_skipped.clear();
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let count = |what: &str| number_before(result, what).unwrap_or_default();
            let skipped = std::mem::take(&mut self.said_skipped).len();
            let total = Total {
                passed: count("passed").saturating_sub(skipped),
                failed: count("failed"),
                skipped: skipped + count("ignored"),
            };
            self.results.insert(self.current.clone(), total);
        } else if let Some((_, said)) = line.split_once("SKIPPED: ") {
            // With one thread it stands behind `test name ... `. It names its test, which may say it more than once.
            let test = said.split_once(": ").map_or(said, |(test, _)| test);
            self.said_skipped.insert(test.to_owned());
        } else if let Some((story, tenths)) = story(line) {
            self.stories.insert(story.to_owned(), tenths);
        }
    }

    /// The stories that took longest since this was last asked, with their seconds.
    pub(super) fn take_slowest(&mut self, most: usize) -> Vec<(String, f64)> {
        let mut stories: Vec<_> = std::mem::take(&mut self.stories).into_iter().collect();
        stories.sort_by_key(|(_, tenths)| std::cmp::Reverse(*tenths));
        let seconds = |(name, tenths)| (name, f64::from(tenths) / 10.0);
        stories.into_iter().take(most).map(seconds).collect()
    }

    /// Counts something that is no test binary as one test.
    pub(super) fn add(&mut self, name: &str, passed: bool) {
        let total = Total {
            passed: usize::from(passed),
            failed: usize::from(!passed),
            skipped: 0,
        };
        self.results.insert((self.part, name.to_owned()), total);
    }

    /// The sum over all binaries.
    pub(super) fn total(&self) -> Total {
        let add = |sum: Total, one: &Total| Total {
            passed: sum.passed + one.passed,
            failed: sum.failed + one.failed,
            skipped: sum.skipped + one.skipped,
        };
        self.results.values().fold(Total::default(), add)
    }
}

/// `PASSED name in 12.3 s` → name, 123. With one thread it stands behind `test name ... `.
fn story(line: &str) -> Option<(&str, u32)> {
    let (_, told) = line.split_once("PASSED ")?;
    let (name, took) = told.strip_suffix(" s")?.rsplit_once(" in ")?;
    Some((name, took.replace('.', "").parse().ok()?))
}

/// `ok. 5 passed; 0 failed` and `passed` → 5.
fn number_before(text: &str, word: &str) -> Option<usize> {
    let words: Vec<&str> = text.split([' ', ';']).collect();
    let at = words.iter().position(|candidate| *candidate == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(passed: usize, failed: usize, skipped: usize) -> Total {
        Total {
            passed,
            failed,
            skipped,
        }
    }

    fn read(counts: &mut Counts, lines: &[&str]) -> Total {
        for line in lines {
            counts.read(line);
        }
        counts.total()
    }

    #[test]
    fn results_are_summed_over_binaries() {
        let sum = read(
            &mut Counts::default(),
            &[
                "     Running unittests src/lib.rs (target/debug/deps/api-1)",
                "test a ... ok",
                "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
                "   Doc-tests api",
                "test result: FAILED. 1 passed; 2 failed; 3 ignored; 0 measured; 0 filtered out",
            ],
        );
        assert_eq!(sum, total(13, 2, 3));
    }

    #[test]
    fn what_was_skipped_did_not_pass() {
        let sum = read(
            &mut Counts::default(),
            &[
                "     Running tests/stories/main.rs (target/debug/deps/stories-1)",
                "SKIPPED: admit::first: E2E is not set",
                "test admit::first ... ok",
                "test admit::second ... SKIPPED: admit::second: only root may",
                "SKIPPED: admit::second: only root may",
                "ok",
                "test result: ok. 3 passed; 0 failed; 0 ignored",
                "     Running tests/streams.rs (target/debug/deps/streams-1)",
                "test result: ok. 5 passed; 0 failed; 0 ignored",
            ],
        );
        assert_eq!(sum, total(6, 0, 2));
    }

    #[test]
    fn the_slowest_stories_are_told_once_and_in_order() {
        let mut counts = Counts::default();
        let told = [
            "PASSED admit::quick in 0.4 s",
            "test fault::slow ... PASSED fault::slow in 131.6 s",
            "PASSED fault::other in 20.0 s",
        ];
        read(&mut counts, &told);
        let slowest = counts.take_slowest(2);
        let wanted = [("fault::slow", 131.6), ("fault::other", 20.0)];
        assert_eq!(slowest, wanted.map(|(name, took)| (name.to_owned(), took)));
        assert_eq!(counts.take_slowest(2), []);
    }

    #[test]
    fn what_is_no_test_binary_counts_as_one_test() {
        let mut counts = Counts::default();
        counts.add("chaos", true);
        counts.add("something else", false);
        assert_eq!(counts.total(), total(1, 1, 0));
    }

    #[test]
    fn a_binary_that_runs_again_counts_once() {
        let sum = read(
            &mut Counts::default(),
            &[
                "     Running tests/real/main.rs (target/debug/deps/real-1)",
                "SKIPPED: v3_5::a: ETCD_BINARIES is not set",
                "test result: ok. 24 passed; 0 failed; 0 ignored",
                "     Running tests/real/main.rs (target/debug/deps/real-1)",
                "test result: FAILED. 23 passed; 1 failed; 0 ignored",
            ],
        );
        assert_eq!(sum, total(23, 1, 0));
    }

    #[test]
    fn a_part_that_a_later_stage_runs_is_added() {
        let mut counts = Counts::default();
        let stories = "     Running tests/stories/main.rs (target/debug/deps/stories-1)";
        read(
            &mut counts,
            &[stories, "test result: ok. 80 passed; 0 failed"],
        );
        counts.begin_part("alone");
        let sum = read(
            &mut counts,
            &[stories, "test result: ok. 9 passed; 1 failed"],
        );
        assert_eq!(sum, total(89, 1, 0));
    }
}
