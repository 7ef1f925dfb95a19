//! The command line: raw words in, a validated [`Command`] out. Hand-written, because the agent must
//! stay small; the only place that reads the environment.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use crate::{Result, outcome::Fault, trust::Trust};

#[cfg(test)]
mod tests;

const USAGE: &str = "usage: etcd-agent install PATH | etcd-agent gate --cluster-uid UID --volume DIR \
                     --annotations FILE [--listen ADDRESS] [--tls DIR] [--secure-listen ADDRESS] \
                     [--transport TEXT] [--trust-file FILE --trust NUMBER] [--termination-log FILE] -- ETCD FLAGS… \
                     | etcd-agent probe [--listen-port PORT]";

/// etcd flags with which a caller could lead etcd past the gate; `discovery…` likewise.
const OURS_ALONE: [&str; 6] = [
    "config-file",
    "force-new-cluster",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "wal-dir",
];

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Copy this executable.
    Install(PathBuf),
    /// Judge, wait, become etcd.
    Gate(Box<Gate>),
    /// Ask a running etcd whether it is ready, on this port.
    Probe(u16),
}

/// Validated arguments of `gate`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    /// UID of the `EtcdCluster` object.
    pub(crate) cluster_uid: String,
    /// UID of this pod.
    pub(crate) pod_uid: String,
    /// Its name, which its volume has to bear; templates of earlier operators do not tell it.
    pub(crate) pod_name: Option<String>,
    /// Mount point of the volume.
    pub(crate) volume: PathBuf,
    /// The downward API's annotations file.
    pub(crate) annotations: PathBuf,
    /// Where to serve while waiting.
    pub(crate) listen: SocketAddr,
    /// Where to serve the report instead, to callers with a certificate.
    pub(crate) secure: Option<Secure>,
    /// How this pod's etcd speaks with members and clients; absent: in plaintext.
    pub(crate) transport: Option<String>,
    /// The authorities that must be mounted before anything starts; absent: those of the beginning.
    pub(crate) trust: Option<Trust>,
    /// The container's termination message.
    pub(crate) termination_log: PathBuf,
    /// The etcd binary.
    pub(crate) etcd: PathBuf,
    /// Its flags, without those that the gate adds.
    pub(crate) flags: Vec<String>,
}

/// The port that demands certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secure {
    /// Where to serve.
    pub(crate) listen: SocketAddr,
    /// The directory with certificates and keys.
    pub(crate) directory: PathBuf,
    /// The pod, whose name its files bear.
    pub(crate) pod: String,
}

impl Command {
    /// Where to leave the reason for an early end.
    pub(crate) fn termination_log(&self) -> Option<&Path> {
        match self {
            Self::Gate(gate) => Some(&gate.termination_log),
            Self::Install(_) | Self::Probe(_) => None,
        }
    }
}

/// Parses the words after the program's name.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Command> {
    parse_with(words, &|name| std::env::var_os(name))
}

type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

fn parse_with(words: Vec<OsString>, environment: Environment<'_>) -> Result<Command> {
    let words: std::result::Result<Vec<String>, _> =
        words.into_iter().map(OsString::into_string).collect();
    let Ok(words) = words else {
        return Err(misuse("arguments must be UTF-8"));
    };
    let mut words = words.into_iter();
    match words.next().as_deref() {
        Some("install") => match (words.next(), words.next()) {
            (Some(path), None) if !path.starts_with('-') => Ok(Command::Install(path.into())),
            _ => Err(misuse("install takes one path")),
        },
        Some("gate") => RawGate::read(words)?
            .validate(environment)
            .map(|gate| Command::Gate(Box::new(gate))),
        Some("probe") => match (words.next().as_deref(), words.next(), words.next()) {
            (None, None, None) => Ok(Command::Probe(gate::PORT)),
            (Some("--listen-port"), Some(port), None) => match port.parse() {
                Ok(port) => Ok(Command::Probe(port)),
                Err(error) => Err(misuse(&format!("--listen-port {port:?}: {error}"))),
            },
            _ => Err(misuse("probe takes --listen-port PORT")),
        },
        Some(other) => Err(misuse(&format!("unknown command {other:?}"))),
        None => Err(misuse("a command is missing")),
    }
}

fn misuse(message: &str) -> Fault {
    Fault::usage(format!("{message}; {USAGE}"))
}

/// The words of `gate`, sorted but not judged.
#[derive(Debug, Default)]
struct RawGate {
    cluster_uid: Option<String>,
    volume: Option<String>,
    annotations: Option<String>,
    listen: Option<String>,
    secure_listen: Option<String>,
    tls: Option<String>,
    transport: Option<String>,
    trust_file: Option<String>,
    trust: Option<String>,
    termination_log: Option<String>,
    etcd: Vec<String>,
}

impl RawGate {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut raw = Self::default();
        while let Some(word) = words.next() {
            if word == "--" {
                raw.etcd = words.collect();
                break;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let slot = match name.as_str() {
                "--cluster-uid" => &mut raw.cluster_uid,
                "--volume" => &mut raw.volume,
                "--annotations" => &mut raw.annotations,
                "--listen" => &mut raw.listen,
                "--secure-listen" => &mut raw.secure_listen,
                "--tls" => &mut raw.tls,
                "--transport" => &mut raw.transport,
                "--trust-file" => &mut raw.trust_file,
                "--trust" => &mut raw.trust,
                "--termination-log" => &mut raw.termination_log,
                _ => return Err(misuse(&format!("unknown argument {name:?}"))),
            };
            let value = value.or_else(|| words.next());
            let Some(value) = value.filter(|value| !value.is_empty() && value != "--") else {
                return Err(misuse(&format!("{name} needs a value")));
            };
            if slot.replace(value).is_some() {
                return Err(misuse(&format!("{name} is given twice")));
            }
        }
        Ok(raw)
    }

    fn validate(self, environment: Environment<'_>) -> Result<Gate> {
        let Self {
            cluster_uid,
            volume,
            annotations,
            listen,
            secure_listen,
            tls,
            transport,
            trust_file,
            trust,
            termination_log,
            etcd,
        } = self;
        let need = |value: Option<String>, name: &str| {
            value.ok_or_else(|| misuse(&format!("{name} is missing")))
        };
        let volume = PathBuf::from(need(volume, "--volume")?);
        let mut etcd = etcd.into_iter();
        let binary = need(etcd.next(), "the etcd binary after --")?;
        let flags: Vec<String> = etcd.collect();
        check_flags(&flags, &volume.join("data"))?;
        check_environment(environment)?;
        let variable = |name| {
            let value = environment(name).and_then(|value| value.into_string().ok());
            value.filter(|value| !value.is_empty())
        };
        let pod_name = variable("POD_NAME");
        Ok(Gate {
            cluster_uid: need(cluster_uid, "--cluster-uid")?,
            pod_uid: need(variable("POD_UID"), "environment variable POD_UID")?,
            annotations: need(annotations, "--annotations")?.into(),
            listen: parse_listen("--listen", listen, gate::PORT)?,
            secure: parse_secure(tls, secure_listen, pod_name.as_ref())?,
            transport,
            trust: parse_trust(trust_file, trust)?,
            pod_name,
            termination_log: termination_log
                .unwrap_or("/dev/termination-log".into())
                .into(),
            etcd: binary.into(),
            volume,
            flags,
        })
    }
}

fn parse_listen(name: &str, address: Option<String>, port: u16) -> Result<SocketAddr> {
    let address = address.unwrap_or_else(|| format!("[::]:{port}"));
    address
        .parse()
        .map_err(|error| misuse(&format!("{name} {address:?}: {error}")))
}

fn parse_secure(
    tls: Option<String>,
    listen: Option<String>,
    pod: Option<&String>,
) -> Result<Option<Secure>> {
    let Some(directory) = tls else {
        return match listen {
            Some(_) => Err(misuse("--secure-listen needs --tls")),
            None => Ok(None),
        };
    };
    // It is part of the name of a file.
    let Some(pod) = pod.filter(|pod| !pod.contains('/')) else {
        let message = "--tls needs the pod's name in environment variable POD_NAME";
        return Err(misuse(message));
    };
    Ok(Some(Secure {
        listen: parse_listen("--secure-listen", listen, gate::SECURE_PORT)?,
        directory: directory.into(),
        pod: pod.clone(),
    }))
}

fn parse_trust(file: Option<String>, generation: Option<String>) -> Result<Option<Trust>> {
    match (file, generation) {
        (None, None) => Ok(None),
        (Some(file), Some(generation)) => {
            let number = generation.parse();
            let number =
                number.map_err(|error| misuse(&format!("--trust {generation:?}: {error}")))?;
            Ok(Some(Trust {
                file: file.into(),
                generation: number,
            }))
        }
        (Some(_), None) | (None, Some(_)) => {
            Err(misuse("--trust and --trust-file need each other"))
        }
    }
}

/// Whether an etcd flag belongs to the gate alone.
fn is_ours_alone(name: &str) -> bool {
    OURS_ALONE.contains(&name) || name.starts_with("discovery")
}

/// Refuses flags with which etcd would look at another directory than the one that was judged, or
/// start from nothing without a grant.
fn check_flags(flags: &[String], data: &Path) -> Result<()> {
    for flag in flags {
        let Some(word) = flag.strip_prefix("--").or_else(|| flag.strip_prefix('-')) else {
            continue;
        };
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if is_ours_alone(name) {
            return Err(misuse(&format!(
                "the etcd flag --{name} is the gate's to give"
            )));
        }
        if name == "data-dir" && Path::new(value) != data {
            let data = data.display();
            return Err(misuse(&format!(
                "the etcd flag --data-dir must be --data-dir={data}"
            )));
        }
    }
    Ok(())
}

/// The same for the environment, which etcd reads as well.
fn check_environment(environment: Environment<'_>) -> Result<()> {
    let discovery = [
        "discovery",
        "discovery-srv",
        "discovery-endpoints",
        "discovery-token",
    ];
    for flag in OURS_ALONE.into_iter().chain(discovery) {
        let name = format!("ETCD_{}", flag.to_uppercase().replace('-', "_"));
        if environment(&name).is_some() {
            return Err(misuse(&format!(
                "environment variable {name} must not be set"
            )));
        }
    }
    Ok(())
}
