//! Running other programs with errors a person can act on. It knows nothing of clusters.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Runs a command to its end; its output appears only when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    checked(command).map(drop)
}

/// Runs a command and returns what it wrote to stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = checked(command)?;
    String::from_utf8(output.stdout).with_context(|| format!("read the output of {command:?}"))
}

/// Runs cargo as it would be from a shell. `cargo run` tells this program of which package it is, and a build script that
/// asks for that (ring's) would be run again, with all that depends on it, whenever the one cargo follows the other.
pub(crate) fn as_from_a_shell(cargo: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Whether a command can be run and ends well.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    checked(command).is_ok()
}

/// Runs a command with `input` on its stdin.
pub(crate) fn run_with_input(command: &mut Command, input: &str) -> Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", line(command)))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ends early says why itself, below.
        if let Err(error) = stdin.write_all(input.as_bytes())
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            return Err(error).with_context(|| format!("write to {}", line(command)));
        }
    }
    let output = child.wait_with_output()?;
    ended_well(command, &output)
}

/// Runs a command that may take minutes, and shows on stderr that it is still running. Its output goes to `log`.
pub(crate) fn run_with_progress(label: &str, command: &mut Command, log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let started = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("start {}", line(command)))?;
    let terminal = std::io::stderr().is_terminal();
    let mut shown = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let seconds = started.elapsed().as_secs();
        if terminal && seconds > shown {
            eprint!("\r  {label} … {seconds} s");
            shown = seconds;
        } else if seconds >= shown + 15 {
            eprintln!("  {label} … {seconds} s");
            shown = seconds;
        }
        sleep(Duration::from_millis(100));
    };
    let end = if terminal { "\r" } else { "" };
    if !status.success() {
        let said = std::fs::read_to_string(log)?;
        let tail: Vec<&str> = said.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        eprint!("{end}");
        bail!(
            "{label} failed: {}\n{}\nhint: all of it is in {}",
            line(command),
            tail.join("\n"),
            log.display()
        );
    }
    eprintln!("{end}  {label}: {} s    ", started.elapsed().as_secs());
    Ok(())
}

/// Asks until the answer is yes. An error of the question itself counts as "not yet", and is told at the end.
pub(crate) fn wait_until(
    what: &str,
    limit: Duration,
    mut question: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let answer = question();
        if matches!(answer, Ok(true)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let late = format!("{what}: not within {} s", limit.as_secs());
            return answer.context(late.clone()).and_then(|_| bail!(late));
        }
        sleep(Duration::from_millis(100));
    }
}

/// Where a program lies. The system directories are looked in too: a user's PATH often lacks them.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

fn checked(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", line(command)))?;
    ended_well(command, &output)?;
    Ok(output)
}

fn ended_well(command: &Command, output: &Output) -> Result<()> {
    ensure!(
        output.status.success(),
        "{} ended with {}\n{}",
        line(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
