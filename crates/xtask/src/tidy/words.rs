//! Words that must not be in the repository: promises without an issue, tests that are switched off, paths of
//! one machine, packages from anywhere but crates.io, and terms that Kubernetes and etcd have another word for.

use super::{Finding, Source};

/// What is looked for is put together here, so that this file does not find itself.
struct Word {
    text: String,
    what: &'static str,
    hint: &'static str,
}

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Lines that hold one of the words.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let words = words();
    let mut findings = Vec::new();
    for source in sources {
        for (number, line) in (1..).zip(source.text.lines()) {
            let place = || format!("{}:{number}", source.path);
            let held = |word: &&Word| line.contains(&word.text) && !is_list(source, word);
            for word in words.iter().filter(held) {
                findings.push(Finding::new(place(), word.what, word.hint));
            }
            if is_prose(source) && has_person(line) {
                let hint = "name the member, pod, caller or user that is meant";
                findings.push(Finding::new(place(), TERM, hint));
            }
            if is_open_promise(line) {
                let hint = "open an issue and write its number behind the word, as in (#12)";
                findings.push(Finding::new(place(), "a promise without an issue", hint));
            }
            if source.path.ends_with("Cargo.lock") && is_foreign_package(line) {
                let hint = "take the package from crates.io";
                findings.push(Finding::new(
                    place(),
                    "a package from another registry",
                    hint,
                ));
            }
        }
    }
    findings
}

/// The page that lists the terms to avoid has to name them.
fn is_list(source: &Source, word: &Word) -> bool {
    source.path == LIST && word.what == TERM
}

/// Code and pages, names of functions included; not what another program wrote, nor the list.
fn is_prose(source: &Source) -> bool {
    let written = [".rs", ".md"].iter().any(|end| source.path.ends_with(end));
    written && source.path != LIST
}

/// Stands for a member, a pod, a caller or a user, and does not say for which.
fn has_person(line: &str) -> bool {
    let persons = [
        concat!("no", "body"),
        concat!("who", "ever"),
        concat!("wh", "om"),
        concat!("some", "body"),
        concat!("every", "body"),
        concat!("any", "body"),
    ];
    line.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| {
            persons
                .iter()
                .any(|person| word.eq_ignore_ascii_case(person))
        })
}

const LIST: &str = "STYLE.md";
const TERM: &str = "a word that Kubernetes and etcd have another one for";

fn words() -> Vec<Word> {
    let machine = "no path of one machine belongs here";
    let machine_hint = "take it from the environment, or from the root of the repository";
    let word = |parts: [&str; 2], what, hint| Word {
        text: parts.concat(),
        what,
        hint,
    };
    vec![
        word(
            ["todo", "!("],
            "a hole in the code",
            "return an error that says what is missing",
        ),
        word(
            ["#[ign", "ore"],
            "a test that never runs",
            "repair it, or let it ask the environment whether it can run",
        ),
        word(["/ro", "ot/"], machine, machine_hint),
        word(["/ho", "me/"], machine, machine_hint),
        word([" an", "ew"], TERM, "write recreated, again or starts over"),
        word(["written ", "down"], TERM, "write recorded"),
    ]
}

/// The word alone, in capitals, and no issue behind it.
fn is_open_promise(line: &str) -> bool {
    let promises = [concat!("TO", "DO"), concat!("FIX", "ME")];
    promises.iter().any(|promise| {
        line.split_once(promise).is_some_and(|(before, after)| {
            // A dot before it: Go has a function of that name.
            let whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '.')
                && !after.starts_with(char::is_alphanumeric);
            let number = after
                .split_once('#')
                .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
            whole && !number
        })
    })
}

fn is_foreign_package(line: &str) -> bool {
    line.strip_prefix("source = \"")
        .is_some_and(|source| source.trim_end_matches('"') != CRATES_IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn a_promise_needs_an_issue() {
        let promise = concat!("TO", "DO");
        assert!(is_open_promise(&format!("// {promise}: later")));
        assert!(!is_open_promise(&format!("// {promise}(#12): later")));
        assert!(!is_open_promise(&format!("let MY{promise}S = 1;")));
        assert!(!is_open_promise(&format!("f(context.{promise}())")));
        assert!(!is_open_promise("nothing to do"));
    }

    #[test]
    fn paths_of_a_machine_are_found_with_their_line() {
        let text = format!("a\ncache: {}\n", ["/ro", "ot/.cache"].concat());
        let found = check(&[source("docs/a.md", &text)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "docs/a.md:2");
    }

    #[test]
    fn terms_to_avoid_are_found_except_where_they_are_listed() {
        let text = ["a pod is made an", "ew\n"].concat();
        assert_eq!(check(&[source("docs/a.md", &text)]).len(), 1);
        assert!(check(&[source("STYLE.md", &text)]).is_empty());
    }

    #[test]
    fn words_that_hide_the_member_that_is_meant_are_found_in_code_and_pages() {
        let no_one = ["no", "body"].concat();
        let who = ["Who", "ever"].concat();
        let texts = [
            format!("// {who} waits may join.\n"),
            format!("fn {no_one}_is_restarted() {{}}\n"),
            format!("how it ends is {no_one}'s concern\n"),
        ];
        for text in texts {
            assert_eq!(check(&[source("a.rs", &text)]).len(), 1, "{text}");
            assert_eq!(check(&[source("docs/a.md", &text)]).len(), 1, "{text}");
            assert!(check(&[source("STYLE.md", &text)]).is_empty(), "{text}");
            assert!(check(&[source("a.txt", &text)]).is_empty(), "{text}");
        }
        let plain = "whole members, no body, some body of a request\n";
        assert!(check(&[source("a.rs", plain)]).is_empty());
    }

    #[test]
    fn only_crates_io_is_a_source() {
        assert!(!is_foreign_package(&format!("source = \"{CRATES_IO}\"")));
        assert!(is_foreign_package("source = \"registry+https://mirror\""));
        assert!(is_foreign_package("source = \"git+https://somewhere\""));
        assert!(!is_foreign_package("name = \"a\""));
    }

    #[test]
    fn a_test_that_is_switched_off_is_found() {
        let off = format!("{}]\nfn a() {{}}\n", ["#[ign", "ore"].concat());
        assert_eq!(check(&[source("a.rs", &off)]).len(), 1);
    }
}
