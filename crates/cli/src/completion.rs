//! Completion: the scripts ask this program, and it asks the API server for names. Whatever fails completes nothing.

use std::time::Duration;

use clap::{Arg, CommandFactory, Parser};
use commands::{Common, Line, Shell};
use kube::ResourceExt;
use tokio::time::timeout;

use crate::connect::connect;
use crate::gather;

/// A user who types does not wait longer.
const PATIENCE: Duration = Duration::from_secs(3);
/// To the shell: offer no files. As the programs made with cobra say it, which kubectl understands.
const NO_FILES: &str = ":4\n";

/// What completes the word that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One of these, with descriptions.
    Words(Vec<(String, String)>),
    /// Names of clusters.
    Clusters,
    /// Names of namespaces.
    Namespaces,
    /// Something that is not known.
    Nothing,
}

/// Candidates in the form that kubectl expects.
pub async fn complete(words: &[String]) -> String {
    let typed = words.last().cloned().unwrap_or_default();
    let candidates = match wanted(words) {
        Wanted::Words(words) => words,
        Wanted::Clusters => names(words, false).await,
        Wanted::Namespaces => names(words, true).await,
        Wanted::Nothing => Vec::new(),
    };
    let mut text = String::new();
    for (word, about) in candidates
        .iter()
        .filter(|(word, _)| word.starts_with(&typed))
    {
        let about = about.lines().next().unwrap_or_default();
        text.push_str(word);
        if !about.is_empty() {
            text.push('\t');
            text.push_str(about);
        }
        text.push('\n');
    }
    text.push_str(NO_FILES);
    text
}

/// What is wanted, from the words on the line; the last one is being typed.
pub fn wanted(words: &[String]) -> Wanted {
    let line = Line::command();
    let Some((typed, before)) = words.split_last() else {
        return Wanted::Nothing;
    };
    let mut command = &line;
    let mut options = before.iter();
    let mut waits_for: Option<&Arg> = None;
    while let Some(word) = options.next() {
        waits_for = None;
        if let Some(option) = option(&line, command, word) {
            if option.get_action().takes_values() && !word.contains('=') && options.next().is_none()
            {
                waits_for = Some(option);
            }
        } else if let Some(found) = command.find_subcommand(word) {
            command = found;
        }
    }
    if let Some(option) = waits_for {
        return values(option);
    }
    if typed.starts_with('-') {
        return Wanted::Words(all_options(&line, command));
    }
    let subcommands: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|found| !found.is_hide_set())
        .map(|found| {
            let about = found.get_about().map(ToString::to_string);
            (found.get_name().to_owned(), about.unwrap_or_default())
        })
        .collect();
    if !subcommands.is_empty() {
        return Wanted::Words(subcommands);
    }
    command
        .get_positionals()
        .next()
        .map_or(Wanted::Nothing, values)
}

/// What an argument takes.
fn values(argument: &Arg) -> Wanted {
    match argument.get_id().as_str() {
        "namespace" => Wanted::Namespaces,
        "names" | "name" => Wanted::Clusters,
        _other => {
            let values = argument.get_possible_values();
            let values = values.iter().filter(|value| !value.is_hide_set());
            let words: Vec<(String, String)> = values
                .map(|value| {
                    let help = value.get_help().map(ToString::to_string);
                    (value.get_name().to_owned(), help.unwrap_or_default())
                })
                .collect();
            if words.is_empty() {
                Wanted::Nothing
            } else {
                Wanted::Words(words)
            }
        }
    }
}

/// The option that a word is.
fn option<'a>(line: &'a clap::Command, command: &'a clap::Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or(word);
    let mut all = command.get_arguments().chain(line.get_arguments());
    all.find(|argument| {
        let long = argument
            .get_long()
            .is_some_and(|long| name.strip_prefix("--") == Some(long));
        let short = argument
            .get_short()
            .is_some_and(|short| *name == format!("-{short}"));
        long || short
    })
}

fn all_options(line: &clap::Command, command: &clap::Command) -> Vec<(String, String)> {
    let all = command.get_arguments().chain(line.get_arguments());
    let shown = all.filter(|argument| !argument.is_hide_set());
    let mut options: Vec<(String, String)> = shown
        .filter_map(|argument| {
            let help = argument.get_help().map(ToString::to_string);
            Some((
                format!("--{}", argument.get_long()?),
                help.unwrap_or_default(),
            ))
        })
        .collect();
    options.dedup();
    options
}

/// Names that are there, by the options on the line.
async fn names(words: &[String], namespaces: bool) -> Vec<(String, String)> {
    let Some(common) = common(words) else {
        return Vec::new();
    };
    let look = async {
        let (client, namespace) = connect(&common).await.ok()?;
        if namespaces {
            return gather::namespaces(&client).await.ok();
        }
        let (clusters, _) = gather::clusters(&client, Some(&namespace)).await.ok()?;
        Some(clusters.iter().map(ResourceExt::name_any).collect())
    };
    let found = timeout(PATIENCE, look).await.ok().flatten();
    let found = found.unwrap_or_default().into_iter();
    found.map(|name| (name, String::new())).collect()
}

/// The options that say where to look, as far as they are typed.
fn common(words: &[String]) -> Option<Common> {
    let kept = ["-n", "--namespace", "--context", "--kubeconfig"];
    let mut line = vec!["kubectl-etcd".to_owned(), "health".to_owned()];
    let (_, before) = words.split_last()?;
    for (at, word) in before.iter().enumerate() {
        let name = word.split('=').next().unwrap_or(word);
        if !kept.contains(&name) {
            continue;
        }
        line.push(word.clone());
        if !word.contains('=') {
            line.extend(before.get(at + 1).cloned());
        }
    }
    Line::try_parse_from(line).ok().map(|line| line.common)
}

/// The script of a shell.
pub fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        Shell::Kubectl => KUBECTL,
    }
}

const BASH: &str = r#"_kubectl_etcd() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in :*) ;; *) COMPREPLY+=("${line%%$'\t'*}") ;; esac
  done < <(kubectl-etcd __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _kubectl_etcd kubectl-etcd
"#;

const ZSH: &str = r#"#compdef kubectl-etcd
_kubectl_etcd() {
  local -a found
  local line
  while IFS= read -r line; do
    case "$line" in :*) ;; *) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;; esac
  done < <(kubectl-etcd __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe 'kubectl etcd' found
}
compdef _kubectl_etcd kubectl-etcd
"#;

const FISH: &str = r"function __kubectl_etcd
  kubectl-etcd __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null | string match -v -r '^:'
end
complete -c kubectl-etcd -f -a '(__kubectl_etcd)'
";

const KUBECTL: &str = r#"#!/bin/sh
# kubectl runs this program to complete `kubectl etcd`: keep it on the PATH as kubectl_complete-etcd.
exec kubectl-etcd __complete -- "$@"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Wanted {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        wanted(&words)
    }

    fn names_of(wanted: Wanted) -> Vec<String> {
        let Wanted::Words(words) = wanted else {
            panic!("{wanted:?}");
        };
        words.into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn commands_options_and_names_complete_where_they_belong() {
        assert!(names_of(at("st")).contains(&"status".to_owned()));
        assert!(!names_of(at("")).contains(&"__complete".to_owned()));
        assert_eq!(at("status d"), Wanted::Clusters);
        assert_eq!(at("-n prod status "), Wanted::Clusters);
        assert_eq!(at("status -n "), Wanted::Namespaces);
        assert_eq!(at("status --context=x d"), Wanted::Clusters);
        assert_eq!(names_of(at("status -o ")), ["text", "wide", "json", "yaml"]);
        let options = names_of(at("status --"));
        assert!(
            options.contains(&"--output".to_owned()) && options.contains(&"--namespace".to_owned())
        );
        assert_eq!(
            names_of(at("completion ")),
            ["bash", "zsh", "fish", "kubectl"]
        );
    }

    #[test]
    fn names_are_looked_for_where_the_line_says() {
        let words: Vec<String> = ["status", "-n", "prod", "--context=dev", ""]
            .map(str::to_owned)
            .into();
        let common = common(&words).unwrap();
        assert_eq!(common.namespace.as_deref(), Some("prod"));
        assert_eq!(common.context.as_deref(), Some("dev"));
    }

    #[tokio::test]
    async fn the_answer_is_what_kubectl_reads() {
        let answer = complete(&["comp".to_owned()]).await;
        assert!(
            answer.starts_with("completion\t") && answer.ends_with("\n:4\n"),
            "{answer}"
        );
    }
}
