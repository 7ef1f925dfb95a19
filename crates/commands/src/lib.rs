//! What can be typed after `kubectl etcd`, as types: the one source of the program, its help, its completion and its
//! reference page. It reads the environment, and does nothing.

mod acting;
mod reference;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use acting::{BackUp, Patience, Restore, Target, Verb, Waiting};
pub use reference::reference;

/// All is well, or what was asked for is done.
pub const WELL: u8 = 0;
/// An error: nothing was changed, or it is not known what was.
pub const ERROR: u8 = 1;
/// What was looked at is not well.
pub const NOT_WELL: u8 = 2;
/// What was waited for did not come in time.
pub const TIMED_OUT: u8 = 3;
/// The API server or this program rejected the change; nothing was changed.
pub const REJECTED: u8 = 4;

/// The exit codes with their meanings, for help and reference.
pub const EXIT_CODES: [(u8, &str); 5] = [
    (WELL, "all is well, or what was asked for is done"),
    (
        ERROR,
        "an error; the text says what was tried and what to do",
    ),
    (NOT_WELL, "what was looked at is not well"),
    (
        TIMED_OUT,
        "what was waited for did not come within `--timeout`",
    ),
    (REJECTED, "the change was rejected and nothing was changed"),
];

const AFTER: &str = "Exit codes: 0 well or done, 1 error, 2 not well, 3 timed out, 4 rejected.\nData is printed to stdout, everything else to stderr.";

/// See and steer the etcd clusters that the operator runs. Looks with your own rights; only the operator acts on members.
#[derive(Debug, Parser)]
#[command(name = "kubectl-etcd", bin_name = "kubectl etcd", version, after_help = AFTER, max_term_width = 120)]
pub struct Line {
    /// What every command knows.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command knows.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Namespace; that of the kubeconfig's context when absent.
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Context of the kubeconfig.
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// Kubeconfig; `$KUBECONFIG` or the default file when absent.
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// What the terminal can show.
    #[command(flatten)]
    pub terminal: Terminal,
}

/// What the terminal can show, as its environment says.
#[derive(Clone, Debug, Default, Args)]
pub struct Terminal {
    /// No colours, whatever it says.
    #[arg(long = "no-colour", alias = "no-color", global = true)]
    pub plain: bool,
    #[arg(
        long = "env-no-color",
        env = "NO_COLOR",
        hide = true,
        global = true,
        default_value = ""
    )]
    no_color: String,
    #[arg(
        long = "env-term",
        env = "TERM",
        hide = true,
        global = true,
        default_value = ""
    )]
    term: String,
    #[arg(
        long = "env-lc-all",
        env = "LC_ALL",
        hide = true,
        global = true,
        default_value = ""
    )]
    lc_all: String,
    #[arg(
        long = "env-lc-ctype",
        env = "LC_CTYPE",
        hide = true,
        global = true,
        default_value = ""
    )]
    lc_ctype: String,
    #[arg(
        long = "env-lang",
        env = "LANG",
        hide = true,
        global = true,
        default_value = ""
    )]
    lang: String,
    /// Columns, where the terminal does not say.
    #[arg(
        long = "env-columns",
        env = "COLUMNS",
        hide = true,
        global = true,
        default_value = ""
    )]
    columns: String,
}

impl Terminal {
    /// Whether colours may be used in a terminal.
    pub fn may_colour(&self) -> bool {
        !self.plain && self.no_color.is_empty() && self.term != "dumb"
    }

    /// Whether it shows more than ASCII: the first of its variables that is set says.
    pub fn is_unicode(&self) -> bool {
        let said = [&self.lc_all, &self.lc_ctype, &self.lang];
        let said = said.into_iter().find(|text| !text.is_empty());
        said.is_some_and(|text| {
            let text = text.to_lowercase();
            text.contains("utf-8") || text.contains("utf8")
        })
    }

    /// Columns that the environment names.
    pub fn columns(&self) -> Option<usize> {
        self.columns.parse().ok().filter(|columns| *columns > 0)
    }
}

/// Which clusters.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// Names of clusters; all of the namespace when absent.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "names"])]
    pub all_namespaces: bool,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For people, with more columns.
    Wide,
    /// For programs: versioned, and documented in the reference.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Printed {
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text, hide_default_value = true)]
    pub output: Output,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What clusters are, what is being done about them, and what to do.
    Status(Look),
    /// The members of clusters: role, state, node, restarts.
    Members(Look),
    /// One line for each cluster; the exit code says whether all of them are well.
    Health(Look),
    /// Why a cluster is as it is: what the operator last decided, in its own words, with what that means.
    Why(Look),
    /// Everything that happened to a cluster, its pods, volumes and backups, in one timeline.
    Events(Look),
    /// What is wrong with the installation and its clusters or will be, each with what to do; ends with 2 if something fails.
    Doctor(Look),
    /// Ask for another number of members: odd, at most 9; 0 stops the cluster and keeps its data.
    Scale {
        /// Which cluster.
        #[command(flatten)]
        target: Target,
        /// How many members.
        #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
        size: i32,
    },
    /// Ask for another release of etcd, such as 3.6.16.
    Upgrade {
        /// Which cluster.
        #[command(flatten)]
        target: Target,
        /// Which release.
        #[arg(long, value_name = "RELEASE")]
        version: String,
    },
    /// Restart every member, one after another.
    Restart {
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
    /// Have the operator look at a cluster and not act.
    Pause {
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
    /// Have the operator act again.
    Resume {
        /// Which cluster.
        #[command(flatten)]
        target: Target,
    },
    /// Go on with what is left of a cluster that lost its quorum for good; without --confirm it shows what there is, and changes
    /// nothing.
    Recover {
        /// Which cluster.
        #[command(flatten)]
        target: Target,
        /// The cluster's name once more.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
    },
    /// Make one more backup of a cluster, with an EtcdBackup that is there.
    Backup {
        /// Of which cluster, and with which EtcdBackup.
        #[command(flatten)]
        backup: BackUp,
        /// Whether to wait.
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Bring a backup back as a cluster of its own, or, with --replace, to a cluster that is there.
    Restore {
        /// Which backup, and where to.
        #[command(flatten)]
        restore: Restore,
        /// Whether to wait.
        #[command(flatten)]
        waiting: Waiting,
    },
    /// The versions of this program, the operator, the CRDs and Kubernetes, and whether they fit together.
    Version(Printed),
    /// A script that completes commands and names of clusters.
    Completion {
        /// For which shell; `kubectl` is the program `kubectl_complete-etcd` that kubectl looks for on the PATH.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Candidates for what is being typed; the scripts of `completion` call it.
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        /// What stands on the line so far; the last one is being typed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

impl Command {
    /// How its result is printed.
    pub fn output(&self) -> Output {
        match self {
            Self::Status(look)
            | Self::Members(look)
            | Self::Health(look)
            | Self::Why(look)
            | Self::Events(look)
            | Self::Doctor(look) => look.printed.output,
            Self::Version(printed) => printed.output,
            Self::Scale { .. }
            | Self::Upgrade { .. }
            | Self::Restart { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::Recover { .. }
            | Self::Backup { .. }
            | Self::Restore { .. }
            | Self::Completion { .. }
            | Self::Complete { .. } => Output::Text,
        }
    }
}

/// Which clusters, and how they are printed.
#[derive(Clone, Debug, Default, Args)]
pub struct Look {
    /// Which clusters.
    #[command(flatten)]
    pub which: Which,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: Printed,
}

/// What completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// `source <(kubectl etcd completion bash)` completes `kubectl-etcd`.
    Bash,
    /// The same for zsh.
    Zsh,
    /// The same for fish.
    Fish,
    /// Written to a file `kubectl_complete-etcd` on the PATH, it completes `kubectl etcd`.
    Kubectl,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_line_is_well_formed() {
        Line::command().debug_assert();
        assert!(Line::try_parse_from(["kubectl-etcd", "health"]).is_ok());
    }

    #[test]
    fn the_first_variable_that_is_set_says_what_the_terminal_shows() {
        let says = |lc_all: &str, lang: &str| {
            let terminal = Terminal {
                lc_all: lc_all.into(),
                lang: lang.into(),
                ..Terminal::default()
            };
            terminal.is_unicode()
        };
        assert!(says("", "en_US.UTF-8") && says("C.utf8", ""));
        assert!(!says("C", "en_US.UTF-8") && !says("", ""));
    }

    #[test]
    fn colours_are_for_those_who_did_not_decline_them() {
        let terminal = |no_color: &str, term: &str| Terminal {
            no_color: no_color.into(),
            term: term.into(),
            ..Terminal::default()
        };
        assert!(terminal("", "xterm").may_colour());
        assert!(!terminal("1", "xterm").may_colour() && !terminal("", "dumb").may_colour());
    }

    #[test]
    fn all_namespaces_and_a_namespace_exclude_each_other() {
        let parse = |line: &str| Line::try_parse_from(line.split(' '));
        assert!(parse("kubectl-etcd status -A").is_ok());
        assert!(parse("kubectl-etcd status db -n prod -o json").is_ok());
        assert!(parse("kubectl-etcd status -A db").is_err());
    }
}
