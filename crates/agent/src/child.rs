//! A process that the agent starts and outlives.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, ExitStatus},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::telemetry::{Level, log};

/// A child; killed when dropped.
pub(crate) struct Tool {
    name: &'static str,
    child: Child,
}

impl Tool {
    /// Starts it, and says so in the log.
    pub(crate) fn spawn(name: &'static str, command: &mut Command) -> Result<Self, String> {
        let arguments: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        log(
            Level::Info,
            "running",
            &json!({"tool": name, "args": arguments}),
        );
        match command.spawn() {
            Ok(child) => Ok(Self { name, child }),
            Err(error) => Err(format!("cannot run {name}: {error}")),
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        let name = self.name;
        self.child
            .try_wait()
            .map_err(|error| format!("cannot wait for {name}: {error}"))
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) -> Result<(), String> {
        let name = self.name;
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(|error| format!("cannot stop {name}: {error}"))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A port that is free now. If another process takes it first, the child exits and the attempt fails.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Two of them.
pub(crate) fn free_ports() -> io::Result<[u16; 2]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // Both are held until both are known.
    let (first, second) = (bind()?, bind()?);
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}
