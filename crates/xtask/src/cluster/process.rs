//! Starting processes that outlive this command, and ending them later. A process is ours if its start time is the recorded
//! one, or if it is one of our programs and works on a path below our directory; nothing else is ever signalled.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::state::{Layout, entries, remove_file, write};
use crate::tools::wait_until;

/// The programs we start, by the beginning of their file name.
const PROGRAMS: [&str; 9] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "containerd",
    "volume-provisioner",
    "nsenter",
];

/// One process and no later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pid: i32,
    started: u64,
}

impl Identity {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let started = parse_start_time(&stat)?;
        Some(Self { pid, started })
    }

    pub(crate) fn pid(self) -> i32 {
        self.pid
    }

    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends SIGKILL. The handle is taken before the identity is checked, so that the id cannot pass to another process
    /// in between.
    fn end(self) {
        let Some(handle) = Pid::from_raw(self.pid)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .filter(|_| self.is_alive())
        else {
            return;
        };
        if let Err(error) = pidfd_send_signal(handle, Signal::KILL)
            && error != rustix::io::Errno::SRCH
        {
            eprintln!("warning: process {} cannot be ended: {error}", self.pid);
        }
    }

    fn parse(record: &str) -> Option<Self> {
        let (pid, started) = record.trim().split_once(' ')?;
        Some(Self {
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
        })
    }
}

/// Starts a process of its own group, so that Ctrl-C here does not reach it, unless it runs already.
pub(crate) fn ensure_started(layout: &Layout, name: &str, command: &mut Command) -> Result<()> {
    if running(layout, name).is_some() {
        return Ok(());
    }
    let path = layout.log(name);
    let log = File::options().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("open {}", path.display()))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {name}"))?;
    let pid = i32::try_from(child.id())?;
    let identity = Identity::of(pid).with_context(|| format!("{name} ended at once"))?;
    write(
        &layout.record(name),
        format!("{} {}", identity.pid, identity.started),
    )
}

/// The process recorded under this name, if it runs.
pub(crate) fn running(layout: &Layout, name: &str) -> Option<Identity> {
    let record = fs::read_to_string(layout.record(name)).ok()?;
    Identity::parse(&record).filter(|identity| identity.is_alive())
}

/// The names of all processes ever started and not stopped.
pub(crate) fn recorded(layout: &Layout) -> Result<Vec<String>> {
    let files = entries(&layout.cluster().join("run"))?;
    let names = files.iter().filter_map(|path| path.file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Asks until the answer is yes, and fails at once when one of these processes has ended, with the last it said: whatever
/// is waited for will not come.
pub(crate) fn wait_while_alive(
    layout: &Layout,
    names: &[String],
    (what, limit): (&str, Duration),
    mut question: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let mut ended = None;
    let waited = wait_until(what, limit, || {
        ended = names.iter().find(|name| running(layout, name).is_none());
        if ended.is_some() {
            return Ok(true);
        }
        question()
    });
    match ended {
        Some(name) => bail!(
            "{name} has ended: {}\nhint: all it said is in {}",
            last_line(&layout.log(name)),
            layout.log(name).display()
        ),
        None => waited,
    }
}

/// The last line that says something; the kubelet and others end with empty ones.
fn last_line(log: &Path) -> String {
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it said nothing").trim().to_owned()
}

/// Ends the process recorded under this name.
pub(crate) fn stop(layout: &Layout, name: &str) -> Result<()> {
    if let Some(identity) = running(layout, name) {
        end_all(&[identity])?;
    }
    remove_file(&layout.record(name))
}

/// Ends processes as a power cut would and waits until they are gone.
pub(crate) fn end_all(processes: &[Identity]) -> Result<()> {
    for process in processes {
        process.end();
    }
    wait_until("ending processes", Duration::from_secs(10), || {
        Ok(processes.iter().all(|process| !process.is_alive()))
    })
}

/// Our own programs that name `directory` or something below it in their arguments. This finds what has no record:
/// the shims that containerd starts, and a process whose record an interrupted `up` could not write.
pub(crate) fn at_work_below(directory: &Path) -> Result<Vec<Identity>> {
    let mut found = Vec::new();
    for path in entries(Path::new("/proc"))? {
        let pid = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.parse().ok());
        let Some(identity) = pid.and_then(Identity::of) else {
            continue;
        };
        let Ok(line) = fs::read(path.join("cmdline")) else {
            continue;
        };
        let arguments = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let arguments: Vec<String> = arguments.map(std::borrow::Cow::into_owned).collect();
        if is_ours(&arguments, directory) {
            found.push(identity);
        }
    }
    Ok(found)
}

fn is_ours(arguments: &[String], directory: &Path) -> bool {
    let Some((program, rest)) = arguments.split_first() else {
        return false;
    };
    let program = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let below = |argument: &String| {
        let value = argument
            .split_once('=')
            .map_or(argument.as_str(), |(_, value)| value);
        Path::new(value).starts_with(directory)
    };
    PROGRAMS.iter().any(|name| program.starts_with(name)) && rest.iter().any(below)
}

/// Field 22 of `/proc/<pid>/stat`, in clock ticks since boot; none for a process that is dead and only waits for its parent.
/// While other threads (field 20) are still ending, a dead first thread is not a dead process: its ports are still taken.
fn parse_start_time(stat: &str) -> Option<u64> {
    // The second field is the command in parentheses and may hold anything, so count from the last parenthesis.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let threads: u64 = fields.nth(16)?.parse().ok()?;
    if is_dead && threads <= 1 {
        return None;
    }
    fields.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_found_behind_any_command_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse_start_time(stat), Some(4242));
        assert_eq!(parse_start_time(&stat.replace(" S ", " Z ")), None);
    }

    #[test]
    fn a_process_is_alive_until_its_last_thread_has_ended() {
        let stat = "7 (etcd) Z 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 4242 0 0";
        assert_eq!(parse_start_time(stat), Some(4242));
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        let log = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(last_line(log.path()), "it said nothing");
        fs::write(
            &log,
            "starting\nlisten tcp 127.0.0.1:22379: address already in use\n\n",
        )
        .unwrap();
        assert!(last_line(log.path()).ends_with("already in use"));
    }

    #[test]
    fn a_record_of_another_start_time_is_not_this_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        let identity = Identity::of(own).unwrap();
        assert!(identity.is_alive());
        assert!(
            !Identity {
                started: identity.started + 1,
                ..identity
            }
            .is_alive()
        );
        let record = format!("{} {}\n", identity.pid, identity.started);
        assert_eq!(Identity::parse(&record), Some(identity));
    }

    #[test]
    fn only_our_programs_on_our_paths_are_ours() {
        let ours = |line: &str| {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            is_ours(&arguments, Path::new("/cache/cluster"))
        };
        assert!(ours(
            "/usr/bin/containerd-shim-runc-v2 -address /cache/cluster/nodes/n1/containerd.sock"
        ));
        assert!(ours(
            "/cache/bin/kubelet-1.36.3 --config=/cache/cluster/nodes/n1/kubelet.json"
        ));
        assert!(!ours("vim /cache/cluster/log/kubelet-n1.log"));
        assert!(!ours(
            "containerd -c /cache/cluster-of-another/containerd.toml"
        ));
        assert!(!ours("containerd"));
    }
}
