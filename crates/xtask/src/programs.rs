//! The programs that ship: compiled for a processor, or given as files, and static either way.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::cluster::Layout;
use crate::deploy::root;
use crate::tools::{as_from_a_shell, find_program, output, run_with_progress};

/// What the image holds. The first one is started.
pub(crate) const IN_IMAGE: [&str; 3] = ["etcd-operator", "etcd-agent", "etcd-keeper"];
/// Their packages.
const PACKAGES: [&str; 3] = ["operator", "agent", "keeper"];
/// For the machines of users.
pub(crate) const PLUGIN: &str = "kubectl-etcd";

/// How programs are compiled, by the name of the profile in Cargo.toml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As it is published and measured.
    Release,
    /// For tests and the demo: compiled in a fraction of the time.
    Ci,
}

impl Profile {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Ci => "ci",
        }
    }
}

/// A processor that we ship for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// That of this machine.
    pub(crate) fn here() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("nothing is shipped for {other}: use x86-64 or arm64"),
        }
    }

    /// As images and Kubernetes call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust calls it.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// `e_machine` of its ELF files.
    fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    /// The compiler of C and linker that Debian has for it on other machines.
    fn linker(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }
}

/// Compiles what the image holds, and says where it is.
pub(crate) fn compile(
    layout: &Layout,
    profile: Profile,
    architecture: Architecture,
) -> Result<PathBuf> {
    let packages = PACKAGES.map(str::to_owned);
    compile_packages(layout, profile, architecture, &packages)
}

/// Compiles all that a release ships, and says where it is.
pub(crate) fn compile_all(layout: &Layout, architecture: Architecture) -> Result<PathBuf> {
    compile_packages(layout, Profile::Release, architecture, &packages()?)
}

fn compile_packages(
    layout: &Layout,
    profile: Profile,
    architecture: Architecture,
    packages: &[String],
) -> Result<PathBuf> {
    let triple = architecture.triple();
    let mut cargo = Command::new(env!("CARGO"));
    as_from_a_shell(&mut cargo)
        .args(["build", "--profile", profile.name(), "--locked"])
        .args(["--target", triple])
        .current_dir(root());
    for package in packages {
        cargo.args(["--package", package]);
    }
    if architecture != Architecture::here()? {
        cross(&mut cargo, architecture)?;
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(profile).join("\u{1f}"));
    let name = format!("operator-build-{}", architecture.name());
    run_with_progress(
        &format!("programs for {}", architecture.name()),
        &mut cargo,
        &layout.cache().join(format!("{name}.log")),
    )?;
    let programs = target_directory(&metadata()?)?
        .join(triple)
        .join(profile.name());
    check(&programs, architecture)?;
    Ok(programs)
}

/// Static: the agent runs inside images that have no C library. What is published tells nothing of the directories that it
/// was compiled in, so that another machine makes the same bytes.
fn flags(profile: Profile) -> Vec<String> {
    let mut flags = vec!["-C".to_owned(), "target-feature=+crt-static".to_owned()];
    if profile == Profile::Release {
        let home = |name: &str, below: &str| {
            let said = std::env::var_os(name).map(PathBuf::from);
            said.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(below)))
        };
        let places = [
            (Some(root()), "/source"),
            (home("CARGO_HOME", ".cargo"), "/cargo"),
            (home("RUSTUP_HOME", ".rustup"), "/rustup"),
        ];
        for (place, name) in places {
            flags.extend(
                place.map(|place| format!("--remap-path-prefix={}={name}", place.display())),
            );
        }
    }
    flags
}

/// For another processor than this machine's: its standard library and its linker must be there.
fn cross(cargo: &mut Command, architecture: Architecture) -> Result<()> {
    let (triple, name) = (architecture.triple(), architecture.name());
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", triple]);
    let library = output(rustc.current_dir(root()))?;
    ensure!(
        Path::new(library.trim()).is_dir(),
        "the standard library of Rust for {triple} is not installed\nhint: `rustup target add {triple}`, or `--{name} DIRECTORY` with programs that another machine compiled"
    );
    let variable = format!(
        "CARGO_TARGET_{}_LINKER",
        triple.to_uppercase().replace('-', "_")
    );
    if std::env::var_os(&variable).is_none() {
        let linker = architecture.linker();
        ensure!(
            find_program(linker).is_some(),
            "there is no linker {linker}\nhint: on Debian the package gcc-{}; or set {variable}, or `--{name} DIRECTORY` with programs that another machine compiled",
            linker.trim_end_matches("-gcc").replace('_', "-")
        );
        cargo.env(variable, linker);
    }
    Ok(())
}

/// Whether a directory holds what the image needs, as static programs for that processor.
pub(crate) fn check(directory: &Path, architecture: Architecture) -> Result<()> {
    for program in IN_IMAGE {
        check_one(&directory.join(program), architecture)?;
    }
    Ok(())
}

/// Whether a file is a static program for that processor.
pub(crate) fn check_one(program: &Path, architecture: Architecture) -> Result<()> {
    let content = std::fs::read(program).with_context(|| {
        format!(
            "read {}\nhint: the directory must hold the programs for {}",
            program.display(),
            architecture.name()
        )
    })?;
    judge(&content, architecture).with_context(|| program.display().to_string())
}

fn judge(content: &[u8], architecture: Architecture) -> Result<()> {
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let part = content.get(at..at.checked_add(bytes)?)?;
        let sum = part.iter().rev();
        Some(sum.fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
    };
    // 64 bits, little-endian.
    ensure!(
        content.starts_with(b"\x7fELF\x02\x01"),
        "this is no program for Linux on a 64-bit processor"
    );
    let machine = number(18, 2);
    let is_for = |of: &Architecture| machine == Some(u64::from(of.machine()));
    ensure!(
        is_for(&architecture),
        "this is a program for {}, and not for {}",
        Architecture::ALL
            .iter()
            .find(|of| is_for(of))
            .map_or("another processor", |of| of.name()),
        architecture.name()
    );
    let (Some(table), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2))
    else {
        bail!("this program is cut off")
    };
    for entry in 0..count {
        let at = usize::try_from(table + entry * size)?;
        let kind = number(at, 4).context("this program is cut off")?;
        // PT_INTERP: it asks for a dynamic linker.
        ensure!(
            kind != 3,
            "this program needs a C library: compile it with `-C target-feature=+crt-static`"
        );
    }
    Ok(())
}

/// A program as it is in the released image.
pub(crate) fn binary(program: &str) -> Result<PathBuf> {
    let release = target_directory(&metadata()?)?
        .join(Architecture::here()?.triple())
        .join(Profile::Release.name());
    Ok(release.join(program))
}

/// Whether this workspace has the plugin.
pub(crate) fn has_plugin() -> Result<bool> {
    Ok(plugin_package(&metadata()?).is_some())
}

/// The packages of all programs that ship.
pub(crate) fn packages() -> Result<Vec<String>> {
    let plugin = plugin_package(&metadata()?);
    Ok(PACKAGES
        .map(str::to_owned)
        .into_iter()
        .chain(plugin)
        .collect())
}

fn plugin_package(metadata: &Value) -> Option<String> {
    let packages = metadata.get("packages")?.as_array()?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let package = packages.iter().find(|package| {
        let targets = package.get("targets").and_then(Value::as_array);
        let mut targets = targets.into_iter().flatten();
        targets.any(|target| {
            let kinds = target.get("kind").and_then(Value::as_array);
            let is_program = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"));
            is_program && text(target, "name").as_deref() == Some(PLUGIN)
        })
    })?;
    text(package, "name")
}

fn metadata() -> Result<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .current_dir(root());
    Ok(serde_json::from_str(&output(&mut cargo)?)?)
}

fn target_directory(metadata: &Value) -> Result<PathBuf> {
    let directory = metadata.get("target_directory").and_then(Value::as_str);
    Ok(PathBuf::from(
        directory.context("cargo names no target directory")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a program with one entry in its table.
    fn program(machine: u16, kind: u32) -> Vec<u8> {
        let mut content = b"\x7fELF\x02\x01".to_vec();
        content.resize(64, 0);
        content[18..20].copy_from_slice(&machine.to_le_bytes());
        content[32..40].copy_from_slice(&64_u64.to_le_bytes());
        content[54..56].copy_from_slice(&56_u16.to_le_bytes());
        content[56..58].copy_from_slice(&1_u16.to_le_bytes());
        content.extend(kind.to_le_bytes());
        content.resize(120, 0);
        content
    }

    #[test]
    fn a_program_is_for_one_processor() {
        let of = |machine, architecture| {
            judge(&program(machine, 1), architecture).map_err(|error| error.to_string())
        };
        assert_eq!(of(62, Architecture::Amd64), Ok(()));
        assert_eq!(of(183, Architecture::Arm64), Ok(()));
        assert_eq!(
            of(62, Architecture::Arm64),
            Err("this is a program for amd64, and not for arm64".to_owned())
        );
        assert_eq!(
            of(243, Architecture::Arm64),
            Err("this is a program for another processor, and not for arm64".to_owned())
        );
    }

    #[test]
    fn what_is_not_static_or_no_program_is_refused() {
        let dynamic = judge(&program(62, 3), Architecture::Amd64).unwrap_err();
        assert!(dynamic.to_string().contains("needs a C library"));
        let script = judge(b"#!/bin/sh\n", Architecture::Amd64).unwrap_err();
        assert!(script.to_string().contains("no program for Linux"));
        let cut = &program(62, 1)[..60];
        assert!(judge(cut, Architecture::Amd64).is_err());
    }

    #[test]
    fn what_is_published_tells_no_directory() {
        let flags = flags(Profile::Release);
        let source = format!("--remap-path-prefix={}=/source", root().display());
        assert!(flags.contains(&source), "{flags:?}");
    }
}
