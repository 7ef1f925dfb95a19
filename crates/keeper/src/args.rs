//! What the process is given: the request in its environment, and directories, which tests put elsewhere.

use std::path::PathBuf;

use archive::{log, work};
use clap::Parser;

/// Brings snapshots of etcd to a store and back. Does one piece of work, says how it went, and ends. `etcd-keeper install PATH`
/// copies the program instead; `etcd-keeper capture` brings every change to the store, until it is asked to end.
#[derive(Clone, Debug, Parser)]
#[command(name = "etcd-keeper", version)]
pub(crate) struct Args {
    /// What is to be done, as JSON.
    #[arg(long, env = work::REQUEST)]
    pub(crate) request: String,
    /// Where the answer is written.
    #[arg(long, default_value = "/dev/termination-log")]
    pub(crate) termination_log: PathBuf,
    /// Directory of the credentials and the authority of the store.
    #[arg(long, default_value = work::STORE_SECRETS)]
    pub(crate) store_secrets: PathBuf,
    /// Directory of `ca.crt`, `tls.crt` and `tls.key` for the member.
    #[arg(long, default_value = work::MEMBER_TLS)]
    pub(crate) member_tls: PathBuf,
    /// Directory of age identities.
    #[arg(long, default_value = work::IDENTITY)]
    pub(crate) identity: PathBuf,
    /// Where a claim is mounted that is the store.
    #[arg(long, default_value = work::LOCAL)]
    pub(crate) local: PathBuf,
    /// Where a verification may write.
    #[arg(long, default_value = work::SCRATCH)]
    pub(crate) scratch: PathBuf,
    /// Where what was captured waits for the store.
    #[arg(long, default_value = log::SPOOL)]
    pub(crate) spool: PathBuf,
    /// Directories in which etcd and etcdutl are looked for.
    #[arg(long, env = "PATH", hide_env_values = true, default_value = "")]
    pub(crate) path: String,
}

/// What the process is to do.
pub(crate) enum Order {
    /// Copy this executable.
    Install(PathBuf),
    /// Bring every change to the store.
    Capture(Box<Args>),
    /// A piece of work.
    Work(Box<Args>),
}

impl Order {
    /// What the command line says.
    pub(crate) fn read() -> Self {
        let all: Vec<_> = std::env::args_os().collect();
        match all.get(1..).unwrap_or_default() {
            [word, path] if word == "install" => Self::Install(path.into()),
            [word, ..] if word == "capture" => {
                let flags = all.iter().enumerate().filter(|(place, _)| *place != 1);
                Self::Capture(Box::new(Args::parse_from(flags.map(|(_, flag)| flag))))
            }
            _work => Self::Work(Box::new(Args::parse())),
        }
    }
}

/// Where images of etcd have their tools, whatever `PATH` says.
const USUAL: [&str; 2] = ["/usr/local/bin", "/opt/bitnami/etcd/bin"];

impl Args {
    /// A tool of the image.
    pub(crate) fn tool(&self, name: &str) -> Option<PathBuf> {
        let named = std::env::split_paths(&self.path);
        let mut all = named.chain(USUAL.map(PathBuf::from));
        all.find_map(|directory| Some(directory.join(name)).filter(|path| path.is_file()))
    }
}
