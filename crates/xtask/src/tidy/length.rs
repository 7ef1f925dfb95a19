//! How long a file may be. Tests at its end are counted apart.

use super::{Finding, Source};

const AIM: usize = 300;
const MOST: usize = 500;
const TESTS_INSIDE: usize = 150;

/// Files that are too long, and notes about those on their way there.
pub(super) fn check(sources: &[Source]) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut notes) = (Vec::new(), Vec::new());
    for source in sources.iter().filter(|source| source.has_extension("rs")) {
        let (code, tests) = lines(&source.text);
        if code > MOST {
            findings.push(Finding::new(
                &source.path,
                format!("{code} lines, {MOST} at most"),
                "tell two stories in two files: foo.rs and foo/…",
            ));
        } else if code > AIM {
            notes.push(format!("{}: {code} lines, aim {AIM}", source.path));
        }
        if tests > TESTS_INSIDE && code > 0 {
            notes.push(format!(
                "{}: {tests} lines of tests, aim {TESTS_INSIDE}; beyond that they have a file of their own",
                source.path
            ));
        }
    }
    (findings, notes)
}

/// Lines of code, and of the test module that ends the file.
fn lines(text: &str) -> (usize, usize) {
    let all = text.lines().count();
    let begins = |(line, next): (&str, &str)| line == "#[cfg(test)]" && next == "mod tests {";
    let code = text
        .lines()
        .zip(text.lines().skip(1))
        .position(begins)
        .unwrap_or(all);
    (code, all - code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn tests_at_the_end_are_counted_apart() {
        assert_eq!(lines("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), (2, 3));
        assert_eq!(lines("a\n#[cfg(test)]\nfn only_for_tests() {}\n"), (3, 0));
    }

    #[test]
    fn five_hundred_lines_pass_and_one_more_does_not() {
        let (findings, notes) = check(&[source("a.rs", &"x\n".repeat(500))]);
        assert_eq!((findings.len(), notes.len()), (0, 1));
        let (findings, _) = check(&[source("a.rs", &"x\n".repeat(501))]);
        assert_eq!(findings.len(), 1);
    }
}
