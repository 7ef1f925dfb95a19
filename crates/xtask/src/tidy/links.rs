//! Relative links between the documents: each must lead to a file that is there.

use std::path::{Component, Path, PathBuf};

use super::{Finding, Source};
use crate::deploy::root;

/// Links that lead nowhere.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    check_against(sources, &|path| root().join(path).exists())
}

fn check_against(sources: &[Source], exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension("md")) {
        let directory = Path::new(&source.path).parent().unwrap_or(Path::new(""));
        for (number, line) in prose(&source.text) {
            for link in links(line).filter_map(relative) {
                let there = resolve(directory, link).is_some_and(|path| exists(&path));
                if !there {
                    findings.push(Finding::new(
                        format!("{}:{number}", source.path),
                        format!("the link {link} leads nowhere"),
                        "links are relative to the document they stand in",
                    ));
                }
            }
        }
    }
    findings
}

/// Lines outside of code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets of `[text](target)`; what stands between backticks is no link.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let outside_code = line.split('`').step_by(2);
    outside_code.flat_map(|part| {
        part.split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next())
    })
}

/// The path of a link into the repository, without its anchor.
fn relative(link: &str) -> Option<&str> {
    let path = link.split('#').next().unwrap_or_default();
    let elsewhere = link.contains("://") || link.starts_with("mailto:");
    (!elsewhere && !path.is_empty()).then_some(path)
}

/// `..` is followed by hand: the file need not exist. `None` if it leads out of the repository.
fn resolve(directory: &Path, link: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in directory.join(link).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn links_are_followed_from_their_document() {
        let text = "[a](../adr/1.md#why) [b](gone.md) [c](https://etcd.io) [d](#here)\n`[e](x.md)`\n```\n[f](y.md)\n```\n[g](/z.md)\n";
        let there = |path: &Path| path == Path::new("docs/adr/1.md");
        let found = check_against(&[source("docs/user/a.md", text)], &there);
        let what: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(
            what,
            [
                "the link gone.md leads nowhere",
                "the link /z.md leads nowhere"
            ]
        );
        assert_eq!(found[1].place, "docs/user/a.md:6");
    }

    #[test]
    fn a_link_out_of_the_repository_leads_nowhere() {
        assert_eq!(resolve(Path::new("docs"), "../../etc/passwd"), None);
    }
}
