//! The programs of the system that the cluster needs: installed where we may, else named with the command that does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{find_program, output, run_with_progress};

/// A file that tells the package is there, and the Debian package.
const NEEDED: [(&str, &str); 10] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("/usr/lib/cni/host-local", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
    ("conntrack", "conntrack"),
    ("socat", "socat"),
    ("ip", "iproute2"),
    ("modprobe", "kmod"),
    ("/bin/busybox", "busybox-static"),
];
const OLDEST_GO: (u32, u32) = (1, 26);

/// Only root may make namespaces, mounts and bridges for others.
pub(crate) fn ensure_root() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the local cluster needs root; hint: run as root, or use a cluster you have with --context, or `cluster up --kind`"
    );
    Ok(())
}

/// Installs what is missing.
pub(crate) fn ensure_installed(log: &Path) -> Result<()> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(file, _)| !is_there(file))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let install = format!("apt-get update && apt-get install -y {}", missing.join(" "));
    if !rustix::process::geteuid().is_root() || find_program("apt-get").is_none() {
        bail!(
            "missing: {}\nhint: on Debian, as root: {install}",
            missing.join(", ")
        );
    }
    let mut command = Command::new("sh");
    command
        .args(["-c", &install])
        .env("DEBIAN_FRONTEND", "noninteractive");
    run_with_progress(
        &format!("installing {}", missing.join(" ")),
        &mut command,
        log,
    )
}

/// Go is not installed for the user: a distribution's is often too old, and there are many ways to have it.
pub(crate) fn ensure_go() -> Result<()> {
    let (major, minor) = OLDEST_GO;
    let hint = format!("hint: put Go {major}.{minor} or later on PATH");
    ensure!(find_program("go").is_some(), "Go is missing\n{hint}");
    let said = output(Command::new("go").args(["env", "GOVERSION"]))?;
    let found = parse_go_version(&said).with_context(|| format!("read Go's version {said:?}"))?;
    ensure!(found >= OLDEST_GO, "{} is too old\n{hint}", said.trim());
    Ok(())
}

fn is_there(file: &str) -> bool {
    if file.starts_with('/') {
        Path::new(file).exists()
    } else {
        find_program(file).is_some()
    }
}

/// `go1.26.8` → (1, 26).
fn parse_go_version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix("go")?.split(['.', '-', 'r', 'b']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions_compare_as_numbers() {
        assert_eq!(parse_go_version("go1.26.8\n"), Some((1, 26)));
        assert_eq!(parse_go_version("go1.27rc1"), Some((1, 27)));
        assert!(parse_go_version("go1.9") < Some(OLDEST_GO));
        assert_eq!(parse_go_version("devel"), None);
    }
}
