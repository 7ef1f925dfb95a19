//! What the commands that change something know.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::Command;

/// Which cluster, and whether to wait.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Name of the cluster.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Whether to wait.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Whether to wait, and for how long.
#[derive(Clone, Debug, Args)]
pub struct Waiting {
    /// Follow the change, one line for each thing that is new, until it is done.
    #[arg(long)]
    pub wait: bool,
    /// How long to wait, such as 90s, 10m or 1h.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub timeout: Patience,
    /// Let the API server judge the change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// How long something is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(pub Duration);

impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let seconds = match unit {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            _other => return Err("write a number and s, m or h, such as 90s".to_owned()),
        };
        let number: u64 = number
            .parse()
            .map_err(|error| format!("write a number and s, m or h, such as 90s ({error})"))?;
        // A day is more than anything takes; beyond that clocks would overflow.
        let seconds = number.saturating_mul(seconds).min(86_400);
        Ok(Self(Duration::from_secs(seconds)))
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs())
    }
}

/// A backup that is to be made.
#[derive(Clone, Debug, Args)]
pub struct BackUp {
    /// Name of the cluster.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The EtcdBackup that says where backups go; may be left out where only one is of this cluster.
    #[arg(long, value_name = "ETCDBACKUP")]
    pub using: Option<String>,
}

/// A backup that is to be brought back.
#[derive(Clone, Debug, Args)]
#[group(id = "restored")]
pub struct Restore {
    /// Name of the cluster that it comes back as, or whose data it replaces.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The EtcdBackup that made it.
    #[arg(long, value_name = "ETCDBACKUP")]
    pub from: String,
    /// ID of the backup, as `status.backups` of the EtcdBackup lists them; the newest good one when absent.
    #[arg(long, value_name = "ID")]
    pub backup: Option<String>,
    /// Secret with private keys of age, for a backup that is encrypted.
    #[arg(long, value_name = "SECRET")]
    pub identity_secret: Option<String>,
    /// Give the data of the backup to the cluster of that name that is there; what it has now is given up.
    #[arg(long)]
    pub replace: bool,
    /// With --replace: the cluster's name once more.
    #[arg(long, value_name = "NAME", requires = "replace")]
    pub confirm: Option<String>,
}

/// What is written on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `spec.size`.
    Scale {
        /// How many members.
        size: i32,
    },
    /// `spec.version`.
    Upgrade {
        /// Which release.
        version: String,
    },
    /// `etcd.etcd.io/restartedAt`.
    Restart,
    /// `etcd.etcd.io/paused`.
    Pause,
    /// The same, taken off.
    Resume,
}

impl Command {
    /// The cluster, and what is written on it, where this is all there is to it.
    pub fn verb(&self) -> Option<(&Target, Verb)> {
        match self {
            Self::Scale { target, size } => Some((target, Verb::Scale { size: *size })),
            Self::Upgrade { target, version } => {
                let version = version.clone();
                Some((target, Verb::Upgrade { version }))
            }
            Self::Restart { target } => Some((target, Verb::Restart)),
            Self::Pause { target } => Some((target, Verb::Pause)),
            Self::Resume { target } => Some((target, Verb::Resume)),
            _other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        let seconds = |text: &str| text.parse::<Patience>().map(|it| it.0.as_secs());
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds("2h"), Ok(7200));
        assert!(seconds("99999999999999999999h").is_err());
        assert_eq!(seconds("18446744073709551615h"), Ok(86_400));
        for wrong in ["", "m", "-5s", "5 s", "5d", "1.5h", "é"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
