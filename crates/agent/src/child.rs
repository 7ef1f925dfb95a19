//! A process that the agent starts and outlives.

use std::{
    fs::File,
    io::{self, Read},
    net::{Ipv4Addr, TcpListener},
    ops::RangeInclusive,
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

/// Below those that the kernel gives to connections and to listeners that ask for any, or one of them would take a port
/// between the moment it was found free and the moment the child listens on it.
const PORTS: RangeInclusive<u16> = 10_000..=19_999;
/// How many of them are tried.
const TRIES: u8 = 100;

/// A port of loopback that is free now. If another process takes it first, the child exits and the attempt fails.
pub(crate) fn free_port() -> io::Result<u16> {
    let [port, _] = free_ports()?;
    Ok(port)
}

/// Two of them.
pub(crate) fn free_ports() -> io::Result<[u16; 2]> {
    // Both are held until both are known.
    let (first, second) = (bind_any()?, bind_any()?);
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}

fn bind_any() -> io::Result<TcpListener> {
    let mut random = File::open("/dev/urandom")?;
    let mut bind = || {
        let mut bits = [0; 2];
        random.read_exact(&mut bits)?;
        let port = PORTS.start() + u16::from_ne_bytes(bits) % (PORTS.end() - PORTS.start() + 1);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    };
    let mut bound = bind();
    for _again in 0..TRIES {
        if bound.is_ok() {
            break;
        }
        bound = bind();
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_two_and_none_that_the_kernel_hands_out() {
        for _round in 0..100 {
            let [first, second] = free_ports().unwrap();
            assert_ne!(first, second);
            assert!(PORTS.contains(&first) && PORTS.contains(&second));
        }
    }
}
