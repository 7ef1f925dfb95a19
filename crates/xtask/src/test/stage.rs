//! The stages, each a command or a call, in the order in which they run.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{JoinHandle, spawn};

use anyhow::{Context, Result, bail, ensure};

use super::azurite;
use super::counts::Counts;
use super::stream::{Aside, run_aside, run_counted};
use super::targets::tests_but;
use crate::chaos;
use crate::chart;
use crate::cluster::{self, ETCDS, Layout, PROMETHEUS, Target, VERSITYGW};
use crate::deploy::{Built, build_image, install};
use crate::generate::generate;
use crate::programs::Profile;
use crate::rights;
use crate::tidy::tidy;
use crate::values;

/// One stage. The variants are documented for `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Stage {
    /// Formatting
    Fmt,
    /// Lints
    Clippy,
    /// Documentation builds without a warning
    Doc,
    /// The rules of the house
    Tidy,
    /// Unit tests and requests
    Unit,
    /// Compile the local cluster and every etcd
    Build,
    /// The client and the gate against real etcd binaries, the alerts against promtool
    Etcd,
    /// Properties, exhaustion, simulated worlds and the model; in a whole run begun before `etcd`, which mostly waits
    Rules,
    /// Generated files are fresh, and the chart renders them
    Generate,
    /// Start the local cluster
    Up,
    /// Install the operator from its chart
    Deploy,
    /// User stories, several at a time
    E2e,
    /// Stories that disturb others, one at a time
    E2eAlone,
    /// The operator's role is what it was seen using in the stories
    Rights,
    /// Two minutes of chaos
    Chaos,
}

/// Test binaries that do more when they are given real etcds, or promtool.
const REAL_ETCD: &str = "--workspace --test real --test gate --test promtool";

/// How many of their tests run side by side. They mostly wait for elections.
const ETCDS_AT_ONCE: u8 = 4;

/// What keeps a processor busy for minutes and needs nothing else.
const RULES: &str = "rules";

/// Yields to whatever else wants to run. Sessions share the processors evenly, so the session has to yield, and not only its
/// processes.
const YIELDING: &str = r#"{ echo 19 > /proc/$$/autogroup; } 2>/dev/null; exec chrt --idle 0 "$@""#;

/// The user stories. All of the workspace takes part, so that features and therefore builds are those of `unit`.
const STORIES: &str = "--workspace --test stories";

/// Modules of stories that take the operator or a node away from all the others.
const DISRUPTIVE: [&str; 2] = ["lifecycle_operator", "fault_node"];

/// How many stories run side by side. They mostly wait.
const STORIES_AT_ONCE: u8 = 5;

/// Threads for every story, so that the kit and not the alphabet decides which begins first.
const ALL_STORIES: u16 = 500;

/// Of how many stories the seconds are told at the end.
const SLOWEST: usize = 20;

/// What the stages work with.
pub(super) struct Bench<'a> {
    layout: &'a Layout,
    context: Option<&'a str>,
    deep: bool,
    counts: Counts,
    image: Option<JoinHandle<Result<Built>>>,
    rules: Option<JoinHandle<Aside>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(layout: &'a Layout, context: Option<&'a str>, deep: bool) -> Self {
        Self {
            layout,
            context,
            deep,
            counts: Counts::default(),
            image: None,
            rules: None,
        }
    }

    /// Runs the rules with what the next stages leave of the processors, until they are asked for.
    pub(super) fn begin_rules(&mut self) {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", YIELDING, "sh", env!("CARGO")]);
        self.test_words(&mut command, &rules(), "");
        self.rules = Some(spawn(move || run_aside(command)));
    }

    pub(super) fn has_begun_rules(&self) -> bool {
        self.rules.is_some()
    }

    fn rules(&mut self) -> Result<()> {
        let Some(begun) = self.rules.take() else {
            return self.cargo_test(&rules(), "", &[]);
        };
        let Ok(aside) = begun.join() else {
            bail!("running the rules panicked")
        };
        for line in &aside.lines {
            eprintln!("{line}");
            self.counts.read(line);
        }
        aside.result
    }

    /// Compiles the operator's image beside the stages that mostly wait, until `deploy` asks for it.
    pub(super) fn begin_image(&mut self) {
        let layout = self.layout.clone();
        self.image = Some(spawn(move || build_image(&layout, Profile::Ci)));
    }

    /// Waits for an image that no stage has asked for, so that no compiler outlives the run.
    pub(super) fn end_image(&mut self) -> Result<Option<Built>> {
        let image = self.image.take().map(JoinHandle::join).transpose();
        let Ok(image) = image else {
            bail!("building the image panicked")
        };
        image.transpose()
    }

    fn deploy(&mut self) -> Result<()> {
        let built = match self.end_image()? {
            Some(built) => built,
            None => build_image(self.layout, Profile::Ci)?,
        };
        let target = self.target()?;
        target.load_image(&built.archive)?;
        install(&target, &built, &[])
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Stage {
    pub(super) const ALL: [Self; 15] = [
        Self::Fmt,
        Self::Clippy,
        Self::Doc,
        Self::Tidy,
        Self::Unit,
        Self::Build,
        Self::Etcd,
        Self::Rules,
        Self::Generate,
        Self::Up,
        Self::Deploy,
        Self::E2e,
        Self::E2eAlone,
        Self::Rights,
        Self::Chaos,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Doc => "doc",
            Self::Tidy => "tidy",
            Self::Unit => "unit",
            Self::Build => "build",
            Self::Etcd => "etcd",
            Self::Generate => "generate",
            Self::Up => "up",
            Self::Deploy => "deploy",
            Self::E2e => "e2e",
            Self::E2eAlone => "e2e-alone",
            Self::Rights => "rights",
            Self::Chaos => "chaos",
            Self::Rules => "rules",
        }
    }

    /// Whether it needs more than cargo.
    pub(super) fn is_slow(self) -> bool {
        !matches!(
            self,
            Self::Fmt | Self::Clippy | Self::Doc | Self::Tidy | Self::Unit | Self::Rules
        )
    }

    /// Whether a failure can be understood only with the cluster's state.
    pub(super) fn needs_cluster(self) -> bool {
        matches!(
            self,
            Self::Deploy | Self::E2e | Self::E2eAlone | Self::Chaos
        )
    }

    pub(super) fn run(self, bench: &mut Bench<'_>) -> Result<()> {
        let layout = bench.layout;
        let is_part = self == Self::E2eAlone;
        bench
            .counts
            .begin_part(if is_part { self.name() } else { "" });
        match self {
            Self::Fmt => bench.cargo("fmt --all --check", &[]),
            Self::Clippy => bench.cargo(
                "clippy --workspace --all-targets --locked -- -D warnings",
                &[],
            ),
            Self::Doc => bench.cargo(
                "doc --workspace --no-deps --document-private-items --locked",
                &[("RUSTDOCFLAGS", "-D warnings".into())],
            ),
            Self::Tidy => tidy(),
            Self::Unit => bench.unit(),
            Self::Build => {
                let kubernetes = cluster::KUBERNETES.to_owned();
                cluster::run(cluster::Command::Build { kubernetes }, None)
            }
            Self::Etcd => {
                let binaries = ("ETCD_BINARIES", etcd_binaries(layout)?.into_os_string());
                let store = layout.bin("versitygw", VERSITYGW).into_os_string();
                let promtool = layout.bin("promtool", PROMETHEUS).into_os_string();
                let mut variables = vec![binaries, ("S3_SERVER", store), ("PROMTOOL", promtool)];
                if bench.deep {
                    variables.push(("AZURITE", azurite::ensure(layout)?.into_os_string()));
                }
                let options = format!("--test-threads={ETCDS_AT_ONCE}");
                bench.cargo_test(REAL_ETCD, &options, &variables)
            }
            Self::Generate => {
                generate(layout, true)?;
                values::check(layout)?;
                chart::check(layout)
            }
            Self::Up => cluster::ensure_fresh(layout),
            Self::Deploy => bench.deploy(),
            Self::E2e => bench.e2e("e2e in plaintext", &side_by_side()),
            Self::E2eAlone => bench.e2e("e2e-alone in plaintext", &alone()),
            Self::Rights => bench.rights(),
            Self::Chaos => bench.chaos(),
            Self::Rules => bench.rules(),
        }
    }
}

type Variable = (&'static str, std::ffi::OsString);

impl Bench<'_> {
    fn target(&self) -> Result<Target> {
        Target::resolve(self.layout, self.context)
    }

    fn cargo(&mut self, words: &str, variables: &[Variable]) -> Result<()> {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(words.split(' '))
            .envs(variables.iter().cloned());
        run_counted(command, &mut self.counts)
    }

    /// `--no-fail-fast`: a stage tells all that is wrong with it.
    fn cargo_test(&mut self, selection: &str, options: &str, variables: &[Variable]) -> Result<()> {
        let mut command = Command::new(env!("CARGO"));
        self.test_words(&mut command, selection, options);
        command.envs(variables.iter().cloned());
        run_counted(command, &mut self.counts)
    }

    fn test_words(&self, command: &mut Command, selection: &str, options: &str) {
        command
            .args(["test", "--no-fail-fast", "--locked"])
            .args(selection.split(' '))
            .arg("--")
            .args(options.split(' ').filter(|word| !word.is_empty()))
            .env("INSTA_UPDATE", "no");
        // The same scenes each time: a change is not red by chance. A deep run looks further, and elsewhere.
        if self.deep {
            command.env("PROPTEST_CASES", "100000").env("E2E_DEEP", "1");
        } else {
            command.env("PROPTEST_RNG_SEED", "1");
        }
    }

    fn unit(&mut self) -> Result<()> {
        let selection = tests_but(RULES)?;
        self.cargo_test(&selection, "", &[])
    }

    /// With TLS, and in a deep run once more in plaintext.
    fn e2e(&mut self, in_plaintext: &'static str, options: &str) -> Result<()> {
        self.e2e_with(options, &[])?;
        if self.deep {
            self.counts.begin_part(in_plaintext);
            self.e2e_with(options, &[("E2E_PLAINTEXT", "1".into())])?;
        }
        Ok(())
    }

    fn e2e_with(&mut self, options: &str, variables: &[Variable]) -> Result<()> {
        let mut command = self.target()?.command(env!("CARGO"));
        self.test_words(&mut command, STORIES, options);
        command
            .env("E2E", "1")
            .env("E2E_AT_ONCE", STORIES_AT_ONCE.to_string())
            .envs(variables.iter().cloned());
        let outcome = run_counted(command, &mut self.counts);
        eprintln!("the slowest stories, in seconds:");
        for (story, seconds) in self.counts.take_slowest(SLOWEST) {
            eprintln!("{seconds:>7.1} {story}");
        }
        outcome
    }

    fn rights(&mut self) -> Result<()> {
        let outcome = rights::check(self.layout);
        self.counts.add("rights", outcome.is_ok());
        outcome
    }

    /// Always the same seed: a change that breaks it fails every time; other seeds are for longer runs.
    fn chaos(&mut self) -> Result<()> {
        self.chaos_with("chaos", false)?;
        if self.deep {
            self.chaos_with("chaos in plaintext", true)?;
        }
        Ok(())
    }

    fn chaos_with(&mut self, name: &str, plaintext: bool) -> Result<()> {
        let options = chaos::Options {
            seed: 1,
            minutes: if self.deep { 10 } else { 2 },
            long: self.deep,
            version: None,
            without: None,
            plaintext,
        };
        let outcome = chaos::run(self.layout, &self.target()?, &options);
        self.counts.add(name, outcome.is_ok());
        outcome
    }
}

fn rules() -> String {
    format!("--workspace --test {RULES}")
}

/// Options for the stories that leave each other alone.
fn side_by_side() -> String {
    let skip = |options: String, module: &str| format!("{options} --skip {module}");
    DISRUPTIVE
        .into_iter()
        .fold(format!("--test-threads={ALL_STORIES}"), skip)
}

/// Options for the others.
fn alone() -> String {
    format!("--test-threads=1 {}", DISRUPTIVE.join(" "))
}

/// A directory with `3.5.35/etcd`, its etcdutl beside it, and so on, as the tests want it.
fn etcd_binaries(layout: &Layout) -> Result<PathBuf> {
    let directory = layout.cache().join("etcd-binaries");
    for (version, tool) in ETCDS
        .iter()
        .flat_map(|version| ["etcd", "etcdctl", "etcdutl"].map(|tool| (version, tool)))
    {
        let (binary, place) = (layout.bin(tool, version), directory.join(version));
        ensure!(
            binary.is_file(),
            "{tool} {version} is not built\nhint: `cargo xtask cluster build`"
        );
        std::fs::create_dir_all(&place)?;
        let link = place.join(tool);
        if std::fs::read_link(&link).is_ok_and(|present| present == binary) {
            continue;
        }
        if link.symlink_metadata().is_ok() {
            std::fs::remove_file(&link)?;
        }
        symlink(&binary, &link).with_context(|| format!("link {}", link.display()))?;
    }
    Ok(directory)
}
