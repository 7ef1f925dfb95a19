//! How the agent ends: exit codes of section 6 of the contract, and the termination message. It
//! decides nothing; the code that raises a [`Fault`] chooses its exit code.

use std::{fs::OpenOptions, io::Write, path::Path, process::ExitCode};

use serde_json::json;

use crate::telemetry::{Level, log};

/// Why the agent gave up, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Wrong arguments.
    Usage,
    /// etcd ended by itself in its first run, with this code; its own log says why.
    Etcd(u8),
    /// The machine refuses what the gate needs: its port, random bits, a signal handler.
    Machine,
    /// The volume cannot be written.
    Write,
    /// The data directory cannot be read.
    Read,
    /// etcd could not be executed.
    Execute,
}

impl Exit {
    /// The number from the contract.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Etcd(code) => code,
            Self::Usage => 64,
            Self::Machine => 71,
            Self::Write => 73,
            Self::Read => 74,
            Self::Execute => 126,
        }
    }
}

/// An end before etcd: the code and one sentence for people.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Which code to exit with.
    pub(crate) exit: Exit,
    /// What happened to what, lowercase.
    pub(crate) message: String,
}

impl Fault {
    /// A fault from the operation that failed and its cause.
    pub(crate) fn new(
        exit: Exit,
        operation: impl std::fmt::Display,
        cause: &dyn std::error::Error,
    ) -> Self {
        Self {
            exit,
            message: format!("{operation}: {cause}"),
        }
    }

    /// Wrong arguments, with a hint.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
        }
    }

    /// Logs the fault, leaves it as the termination message and turns it into an exit code. Where etcd ended, its last
    /// words are to be read, as if the agent had become etcd.
    pub(crate) fn report(&self, termination_log: Option<&Path>) -> ExitCode {
        let code = self.exit.code();
        if let Exit::Etcd(_) = self.exit {
            return ExitCode::from(code);
        }
        log(
            Level::Error,
            "the agent gives up",
            &json!({"error": self.message, "exit-code": code}),
        );
        if let Some(path) = termination_log {
            leave_message(path, &self.message);
        }
        ExitCode::from(code)
    }
}

/// Writes the container's termination message. Best effort, and never creates the file: the kubelet
/// mounts it, and outside a container there is nothing to leave behind.
pub(crate) fn leave_message(path: &Path, message: &str) {
    let written = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(message.as_bytes()));
    if let Err(error) = written {
        let fields = json!({"path": path.display().to_string(), "error": error.to_string()});
        log(Level::Debug, "no termination message", &fields);
    }
}
