//! The reference page, made from the command line itself.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use crate::{EXIT_CODES, Line};

/// Every command, argument and exit code, as a page.
pub fn reference() -> String {
    let line = Line::command();
    let mut page = "# kubectl etcd, command by command\n\nMade by `cargo xtask generate` from the command line itself; `kubectl etcd help COMMAND` prints the same. How it is used is in [the guide](../user/guides/cli.md).\n\n## Options of every command\n\n| option | meaning |\n|---|---|\n".to_owned();
    for argument in line.get_arguments().filter(|it| !it.is_hide_set()) {
        row(&mut page, argument);
    }
    page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in EXIT_CODES {
        push(&mut page, format_args!("| {code} | {meaning} |\n"));
    }
    for command in line.get_subcommands().filter(|it| !it.is_hide_set()) {
        describe(&mut page, command);
    }
    page
}

fn describe(page: &mut String, command: &Command) {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    push(
        page,
        format_args!(
            "\n## {}\n\n{}.\n",
            command.get_name(),
            about.trim_end_matches('.')
        ),
    );
    let mut arguments = command.get_arguments().filter(|it| !it.is_hide_set());
    let Some(first) = arguments.next() else {
        return;
    };
    page.push_str("\n| argument | meaning |\n|---|---|\n");
    row(page, first);
    for argument in arguments {
        row(page, argument);
    }
}

fn row(page: &mut String, argument: &Arg) {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let values = argument.get_possible_values();
    let named: Vec<String> = values
        .iter()
        .filter(|value| !argument.is_positional() || !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let takes = argument.get_action().takes_values();
    let one_of = if takes && !named.is_empty() {
        format!(" One of {}.", named.join(", "))
    } else {
        String::new()
    };
    let help = help.replace('\n', " ").replace('|', "\\|");
    let help = format!("{}.", help.trim_end_matches('.'));
    push(
        page,
        format_args!("| `{}` | {help}{one_of} |\n", name(argument)),
    );
}

/// `-n, --namespace NAMESPACE`, or `NAME...`.
fn name(argument: &Arg) -> String {
    let value = argument.get_value_names().and_then(<[_]>::first);
    let value = value.map_or_else(
        || argument.get_id().to_string().to_uppercase(),
        ToString::to_string,
    );
    let many = argument
        .get_num_args()
        .is_some_and(|range| range.max_values() > 1);
    let value = if many { format!("{value}...") } else { value };
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    match (names.is_empty(), argument.get_action().takes_values()) {
        (true, _) => value,
        (false, true) => format!("{} {value}", names.join(", ")),
        (false, false) => names.join(", "),
    }
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    page.write_fmt(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_repository_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
        let committed = std::fs::read_to_string(path).unwrap();
        let page = reference();
        assert!(committed == page, "stale: cargo xtask generate\n{page}");
    }

    #[test]
    fn the_page_has_every_command_that_is_not_hidden() {
        let page = reference();
        for command in Line::command().get_subcommands() {
            let heading = format!("\n## {}\n", command.get_name());
            assert_eq!(page.contains(&heading), !command.is_hide_set(), "{heading}");
        }
        assert!(page.contains("| `-n, --namespace NAMESPACE` |"), "{page}");
        assert!(page.contains("| `NAME...` |"), "{page}");
        assert!(!page.contains("NO_COLOR"), "{page}");
    }
}
