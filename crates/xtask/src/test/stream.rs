//! Running cargo with its output passed on as it comes, or kept for later, and counted on the way.

use std::io::{BufRead, BufReader, PipeReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::spawn;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::counts::Counts;
use crate::deploy::root;
use crate::tools::as_from_a_shell;

/// Runs cargo in the root of the repository; all it says goes to stderr.
pub(super) fn run_counted(command: Command, counts: &mut Counts) -> Result<()> {
    run(command, &mut |line| {
        eprintln!("{line}");
        counts.read(line);
    })
}

/// The same beside other stages: what it said is told when it is asked for.
pub(super) struct Aside {
    pub(super) lines: Vec<String>,
    pub(super) result: Result<()>,
}

/// Runs cargo in the root of the repository and says nothing.
pub(super) fn run_aside(command: Command) -> Aside {
    let mut lines = Vec::new();
    let result = run(command, &mut |line| lines.push(line.to_owned()));
    Aside { lines, result }
}

fn run(mut command: Command, hear: &mut dyn FnMut(&str)) -> Result<()> {
    // One pipe for both: which binary runs is said on stderr, how it went on stdout.
    let (reader, writer) = std::io::pipe()?;
    as_from_a_shell(&mut command)
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let program = Path::new(command.get_program()).file_name();
    let words: Vec<_> = program
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    let line = words.join(" ");
    hear(&format!("$ {line}"));
    let child = command.spawn().with_context(|| format!("start {line}"))?;
    // It holds the writing end, which must close for the reading end to end.
    drop(command);
    let (sender, lines) = channel();
    drop(spawn(move || pass_on(reader, &sender)));
    let status = follow(child, &lines, hear)?;
    ensure!(status.success(), "{line} ended with {status}");
    Ok(())
}

/// Until the command has ended and is silent: what it left running may hold the pipe open for ever.
fn follow(
    mut child: Child,
    lines: &Receiver<String>,
    hear: &mut dyn FnMut(&str),
) -> Result<ExitStatus> {
    loop {
        match lines.recv_timeout(Duration::from_millis(300)) {
            Ok(line) => hear(&line),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(status);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?),
        }
    }
}

fn pass_on(reader: PipeReader, lines: &Sender<String>) {
    for line in BufReader::new(reader).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line).into_owned();
        if lines.send(line).is_err() {
            return;
        }
    }
}
