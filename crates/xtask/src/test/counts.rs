//! Counting tests from what `cargo test` prints. Each test binary counts once: when a later stage runs it again with
//! more around it, its new result takes the place of the old.

use std::collections::BTreeMap;

/// Passed and failed tests by test binary.
#[derive(Debug, Default)]
pub(super) struct Counts {
    current: String,
    results: BTreeMap<String, (usize, usize)>,
}

impl Counts {
    /// Takes in one line of output.
    pub(super) fn read(&mut self, line: &str) {
        let line = line.trim();
        if line.starts_with("Running ") || line.starts_with("Doc-tests ") {
            line.clone_into(&mut self.current);
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let count = |what: &str| number_before(result, what).unwrap_or_default();
            let result = (count("passed"), count("failed"));
            self.results.insert(self.current.clone(), result);
        }
    }

    /// Counts something that is no test binary as one test.
    pub(super) fn add(&mut self, name: &str, passed: bool) {
        let result = (usize::from(passed), usize::from(!passed));
        self.results.insert(name.to_owned(), result);
    }

    /// Takes back the results of these test binaries, whose tests only said that they were skipped.
    pub(super) fn forget(&mut self, names: &[String]) {
        let is_one = |binary: &str| {
            let of = |name| binary.contains(&format!("tests/{name}"));
            names.iter().any(of)
        };
        self.results.retain(|binary, _| !is_one(binary));
    }

    /// Passed and failed, of all binaries.
    pub(super) fn total(&self) -> (usize, usize) {
        let add = |sum: (usize, usize), one: &(usize, usize)| (sum.0 + one.0, sum.1 + one.1);
        self.results.values().fold((0, 0), add)
    }
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

    fn read(lines: &[&str]) -> (usize, usize) {
        let mut counts = Counts::default();
        for line in lines {
            counts.read(line);
        }
        counts.total()
    }

    #[test]
    fn results_are_summed_over_binaries() {
        let total = read(&[
            "     Running unittests src/lib.rs (target/debug/deps/api-1)",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "   Doc-tests api",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!(total, (13, 2));
    }

    #[test]
    fn what_was_skipped_does_not_count() {
        let mut counts = Counts::default();
        counts.read("     Running tests/admit_schema.rs (target/debug/deps/admit_schema-1)");
        counts.read("test result: ok. 3 passed; 0 failed; 0 ignored");
        counts.read("     Running tests/streams.rs (target/debug/deps/streams-1)");
        counts.read("test result: ok. 5 passed; 0 failed; 0 ignored");
        counts.forget(&["admit_schema".to_owned()]);
        assert_eq!(counts.total(), (5, 0));
    }

    #[test]
    fn what_is_no_test_binary_counts_as_one_test() {
        let mut counts = Counts::default();
        counts.add("chaos", true);
        counts.add("something else", false);
        assert_eq!(counts.total(), (1, 1));
    }

    #[test]
    fn a_binary_that_runs_again_counts_once() {
        let total = read(&[
            "     Running tests/real/main.rs (target/debug/deps/real-1)",
            "test result: ok. 24 passed; 0 failed; 0 ignored",
            "     Running tests/real/main.rs (target/debug/deps/real-1)",
            "test result: FAILED. 23 passed; 1 failed; 0 ignored",
        ]);
        assert_eq!(total, (23, 1));
    }
}
