//! Rule modules of `plan` form no circle: a reader who opens one of them can follow its imports to an end, and a rule can be
//! changed without reading all the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Finding, Source};

/// The table that names every rule.
const TABLE: &str = "crates/plan/src/cluster.rs";
/// Its rules: `x.rs`, and `x/` for its parts, which count as one.
const RULES: &str = "crates/plan/src/cluster/";
/// What the table is called in a circle.
const ROOT: &str = "cluster";

const HINT: &str = "move what they share down: a predicate over facts into crates/plan/src/observed/, an answer that several rules give into crates/plan/src/cluster/answers.rs";

/// Which module imports which.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Every circle, each told once.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let graph = graph(sources);
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let mut findings = Vec::new();
    for module in graph.keys() {
        let Some(circle) = circle(&graph, module).filter(|_| !told.contains(module)) else {
            continue;
        };
        told.extend(circle.iter().copied());
        let what = format!("rule modules import each other: {}", circle.join(" → "));
        findings.push(Finding::new(format!("{RULES}{module}.rs"), what, HINT));
    }
    findings
}

fn graph(sources: &[Source]) -> Graph<'_> {
    let modules: BTreeSet<&str> = sources.iter().filter_map(module).collect();
    let mut graph: Graph<'_> = BTreeMap::new();
    for source in sources {
        if source.path == TABLE {
            graph.insert(ROOT, modules.clone());
        }
        let Some(own) = module(source) else {
            continue;
        };
        let edges = graph.entry(own).or_default();
        for name in imports(source) {
            // What is no module is defined in the table's file, or only named there.
            let of = modules.get(name.as_str()).copied().unwrap_or(ROOT);
            if of != own {
                edges.insert(of);
            }
        }
    }
    graph
}

/// The rule that a file belongs to.
fn module(source: &Source) -> Option<&str> {
    let rest = source.path.strip_prefix(RULES)?;
    rest.split(['/', '.']).next()
}

/// What a file names of the directory of rules, by its first part.
fn imports(source: &Source) -> Vec<String> {
    let code: String = source
        .text
        .lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join(" ");
    let depth = source.path.matches('/').count();
    let above = depth.saturating_sub(RULES.matches('/').count());
    let relative = "super::".repeat(above.saturating_add(1));
    let mut names = Vec::new();
    for prefix in ["crate::cluster::", relative.as_str()] {
        let mut rest = code.as_str();
        while let Some(at) = rest.find(prefix) {
            let (before, found) = rest.split_at(at);
            rest = found.strip_prefix(prefix).unwrap_or_default();
            // Part of a longer chain that leads further up.
            if before.ends_with("super::") || rest.starts_with("super::") {
                continue;
            }
            names.extend(first_names(rest));
        }
    }
    names
}

/// `a` of `a::b`; `a` and `c` of `{a::{self, b}, c}`.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![identifier(rest)];
    };
    let mut names = Vec::new();
    let (mut depth, mut begins) = (1_usize, true);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth = depth.saturating_add(1),
            '}' => depth = depth.saturating_sub(1),
            ',' => begins = depth == 1,
            _part if begins && depth == 1 && !character.is_whitespace() => {
                let (_, from_here) = group.split_at(at);
                names.push(identifier(from_here));
                begins = false;
            }
            _other => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn identifier(text: &str) -> String {
    let letters = text.chars();
    letters
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The shortest way from a module back to itself.
fn circle<'a>(graph: &Graph<'a>, from: &'a str) -> Option<Vec<&'a str>> {
    let mut ways: VecDeque<Vec<&str>> = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let imported = way.last().and_then(|last| graph.get(last));
        for next in imported.into_iter().flatten() {
            let longer = [way.as_slice(), &[next]].concat();
            if *next == from {
                return Some(longer);
            }
            if seen.insert(*next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn judge(files: &[(&str, &str)]) -> Vec<String> {
        let rules = files
            .iter()
            .map(|(path, text)| source(&format!("{RULES}{path}"), text));
        let table = source(TABLE, "mod shrink;\nmod replace;\nfn describe() {}\n");
        let sources: Vec<Source> = rules.chain([table]).collect();
        let found = check(&sources).into_iter();
        found.map(|finding| finding.what).collect()
    }

    #[test]
    fn a_circle_is_named() {
        let files = [
            ("shrink.rs", "use crate::cluster::replace::why_dead;"),
            (
                "replace.rs",
                "use crate::cluster::{\n    corrupt, hang,\n};\n",
            ),
            ("hang.rs", "fn f() { super::shrink::is_under_way() }"),
            ("corrupt.rs", ""),
        ];
        let circle = "rule modules import each other: hang → shrink → replace → hang";
        assert_eq!(judge(&files), [circle]);
    }

    #[test]
    fn what_the_table_defines_leads_back_to_the_table() {
        let files = [("shrink.rs", "use crate::cluster::describe;")];
        let circle = "rule modules import each other: cluster → shrink → cluster";
        assert_eq!(judge(&files), [circle]);
    }

    #[test]
    fn parts_of_a_module_are_that_module() {
        let files = [
            ("rollout.rs", "use crate::cluster::answers::{patience};"),
            (
                "rollout/revive.rs",
                "use super::{latch, tried};\nuse super::super::recover::is_dark;",
            ),
            (
                "recover/mend.rs",
                "pub(in crate::cluster) fn f() {}\nuse crate::cluster::{answers::{self, b}, rollout};",
            ),
            ("recover.rs", "use super::answers;"),
            ("answers.rs", ""),
        ];
        let circle = "rule modules import each other: recover → rollout → recover";
        assert_eq!(judge(&files), [circle]);
    }

    #[test]
    fn a_chain_comments_and_tests_are_no_circle() {
        let files = [
            (
                "shrink.rs",
                "//! See [`super::membership`].\nuse crate::cluster::replace;\n",
            ),
            (
                "replace.rs",
                "use super::answers;\n// unlike crate::cluster::shrink\n#[cfg(test)]\nmod tests { use crate::cluster::shrink; }",
            ),
            ("answers.rs", "use crate::observed::Observed;"),
            ("membership.rs", "use crate::cluster::{shrink, replace};"),
        ];
        assert!(judge(&files).is_empty(), "{:?}", judge(&files));
    }
}
