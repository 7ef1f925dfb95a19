//! The runtime check of `plan` shares data types, names and quorum arithmetic with the rules that it judges, and nothing
//! that judges: otherwise a mistake in a shared predicate passes both.

use std::collections::BTreeSet;

use super::{Finding, Source};

/// Files that judge steps.
const CHECKER: [&str; 2] = [
    "crates/plan/src/invariants.rs",
    "crates/plan/src/invariants/",
];
/// Files whose types and names both sides share.
const FACTS: [&str; 2] = ["crates/plan/src/observed.rs", "crates/plan/src/observed/"];
/// Modules of `plan` that the check may name.
const MODULES: [&str; 3] = ["observed", "decision", "invariants"];
/// Functions over facts that only look something up by its name or kind, and the arithmetic of quorums.
const SHARED: [&str; 13] = [
    "peer_url",
    "member_name",
    "ordinal_of",
    "held",
    "serving",
    "voters",
    "learners",
    "trial",
    "defragmenting",
    "is_renewing",
    "quorum",
    "parse",
    "parse_id",
];

const HINT: &str = "define it from the invariant's sentence in crates/plan/src/invariants/facts.rs";

/// Everything of the rules that the check uses.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let of = |places: [&'static str; 2]| {
        let sources = sources.iter();
        sources.filter(move |source| places.iter().any(|place| source.path.starts_with(place)))
    };
    let judging: BTreeSet<&str> = of(FACTS)
        .flat_map(|source| source.text.lines().filter_map(public_function))
        .filter(|name| !SHARED.contains(name))
        .collect();
    let mut findings = Vec::new();
    for source in of(CHECKER) {
        for (number, line) in (1..).zip(source.text.lines()) {
            let mut add = |what: String| {
                let place = format!("{}:{number}", source.path);
                findings.push(Finding::new(place, what, HINT));
            };
            for module in modules(line).filter(|module| !MODULES.contains(module)) {
                add(format!("the check must not use crate::{module}"));
            }
            for name in judging.iter().filter(|name| calls(line, name)) {
                add(format!("the check must not ask `{name}`, as the rules do"));
            }
        }
    }
    findings
}

/// The name of the function that a line makes public, be it to the crate only.
fn public_function(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("pub")?;
    let (_, rest) = line.split_once("fn ").filter(|(before, _)| {
        let before = before.trim();
        before.is_empty() || before.starts_with('(') || before == "const"
    })?;
    rest.split(['(', '<']).next()
}

/// The modules of this crate that a line names.
fn modules(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    let named = code.split("crate::").skip(1);
    named.filter_map(|rest| {
        rest.split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
    })
}

/// A method or an associated function of this name, called or handed on. What the check defines itself is called by its
/// module.
fn calls(line: &str, name: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let method = format!(".{name}");
    let handed = ["Observed", "Pod", "Member", "MemberList", "Claim", "Stall"]
        .map(|kind| format!("{kind}::{name}"));
    let called = |text: &str| code.split(text).skip(1).any(ends);
    let by_method = code.split(&method).skip(1).any(|rest| {
        // A field of that name is data.
        rest.starts_with('(') || rest.starts_with("::<")
    });
    by_method || handed.iter().any(|text| called(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn judge(line: &str) -> Vec<String> {
        let facts = "impl Observed {\n    pub fn is_healthy(&self, member: &Member) -> bool {\n    pub fn ordinal_of(&self)\n    fn hidden(&self)\n    pub(crate) fn may_join<'a>(&self)\n";
        let sources = [
            source("crates/plan/src/observed.rs", facts),
            source("crates/plan/src/invariants/change.rs", line),
        ];
        let found = check(&sources).into_iter();
        found.map(|finding| finding.what).collect()
    }

    #[test]
    fn the_check_imports_nothing_of_the_rules() {
        let cluster = "the check must not use crate::cluster";
        for line in [
            "use crate::cluster::membership::has_room_for_a_learner;",
            "    crate::cluster::recover::is_proved(observed)",
        ] {
            assert_eq!(judge(line), [cluster], "{line}");
        }
        assert_eq!(judge("use crate::shape::decide_shape;").len(), 1);
        assert!(judge("use crate::observed::{Pod, quorum};").is_empty());
        assert!(judge("// as crate::cluster does").is_empty());
    }

    #[test]
    fn the_check_asks_no_predicate_of_the_rules() {
        for line in [
            "let well = observed.is_healthy(voter);",
            "voters.filter(Observed::is_healthy)",
            "observed.may_join(ordinal)",
        ] {
            assert_eq!(judge(line).len(), 1, "{line}");
        }
        for line in [
            "facts::is_healthy(observed, list, voter)",
            "observed.ordinal_of(member)",
            "observed.is_healthy_by_itself(voter)",
            "slot.is_healthy && other",
        ] {
            assert!(judge(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_rule_elsewhere_may_ask_what_it_likes() {
        let rule = source(
            "crates/plan/src/cluster/shrink.rs",
            "use crate::cluster::membership; observed.is_healthy(voter)",
        );
        assert!(check(&[rule]).is_empty());
    }
}
