//! The Go commands behind a build: each program is written under another name and renamed once it is whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cluster::state::Layout;
use crate::tools::run_with_progress;

/// Compiles a package of the module in `source`, unless it has been.
pub(super) fn build(
    layout: &Layout,
    source: &Path,
    tool: (&str, &str),
    package: &str,
    flags: &str,
) -> Result<()> {
    let flags = format!("-s -w {flags}");
    build_with(layout, source, tool, package, &["-ldflags", &flags])
}

/// The same with options of one's own.
pub(super) fn build_with(
    layout: &Layout,
    source: &Path,
    tool: (&str, &str),
    package: &str,
    options: &[&str],
) -> Result<()> {
    let (name, version) = tool;
    let out = layout.bin(name, version);
    if out.exists() {
        return Ok(());
    }
    let half = out.with_file_name(format!("{name}-{version}.half"));
    let mut command = go(&["build", "-trimpath"]);
    command.args(options).arg("-o").arg(&half).arg(package);
    command.current_dir(source);
    run_with_progress(
        &format!("{name} {version}"),
        &mut command,
        &log(layout, name, version),
    )?;
    fs::rename(&half, &out).with_context(|| format!("write {}", out.display()))
}

/// For a program whose module has no replace directives.
pub(super) fn install(
    layout: &Layout,
    name: &str,
    version: &str,
    package: &str,
    flags: &str,
) -> Result<()> {
    let out = layout.bin(name, version);
    if out.exists() {
        return Ok(());
    }
    let half = layout
        .cache()
        .join("bin")
        .join(format!("{name}-{version}.half"));
    let mut command = go(&[
        "install",
        "-trimpath",
        "-ldflags",
        &format!("-s -w {flags}"),
    ]);
    command
        .arg(format!("{package}@v{version}"))
        .env("GOBIN", &half)
        .current_dir("/");
    run_with_progress(
        &format!("{name} {version}"),
        &mut command,
        &log(layout, name, version),
    )?;
    fs::rename(half.join(name), &out).with_context(|| format!("write {}", out.display()))?;
    fs::remove_dir_all(&half).with_context(|| format!("remove {}", half.display()))
}

/// Finds and fetches everything the module in `source` needs.
pub(super) fn tidy(layout: &Layout, source: &Path, label: &str) -> Result<()> {
    let mut command = go(&["mod", "tidy"]);
    run_with_progress(
        label,
        command.current_dir(source),
        &layout.cache().join("log/tidy.log"),
    )
}

/// A file that makes `go mod tidy` keep what we build.
pub(super) fn tools_go(packages: &[String]) -> String {
    format!(
        "//go:build tools

package tools

import (
	_ \"{}\"
)
",
        packages.join(
            "\"
	_ \""
        )
    )
}

/// The directory of a module of our own.
pub(super) fn source(layout: &Layout, name: &str, version: &str) -> Result<PathBuf> {
    ensure!(
        version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.'),
        "a version is numbers and dots, as in 1.36.3, not {version}"
    );
    let path = layout.cache().join("src").join(format!("{name}-{version}"));
    fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
    Ok(path)
}

fn go(arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.args(arguments).env("CGO_ENABLED", "0");
    command
}

fn log(layout: &Layout, name: &str, version: &str) -> PathBuf {
    layout
        .cache()
        .join("log")
        .join(format!("{name}-{version}.log"))
}
