//! An etcd in which failpoints can be set while it runs (`GOFAIL_HTTP`), for tests of what no test can do to a disk.
//! etcd's own comments become code by etcd's own tool; nothing else of it is changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::go::{build, install, source, tidy, tools_go};
use crate::cluster::state::{Layout, write};
use crate::tools::{output, run};

/// The release that is also there with failpoints.
pub(crate) const RELEASE: &str = "3.6.16";
/// Name of its program.
pub(crate) const TOOL: &str = "etcd-gofail";

const GOFAIL: &str = "0.2.0";
const SERVER: &str = "go.etcd.io/etcd/server/v3";
/// Where etcd's own Makefile enables them.
const PACKAGES: [&str; 6] = [
    "etcdserver",
    "lease/leasehttp",
    "storage",
    "storage/backend",
    "storage/mvcc",
    "storage/wal",
];

pub(super) fn ensure(layout: &Layout) -> Result<()> {
    if layout.bin(TOOL, RELEASE).exists() {
        return Ok(());
    }
    install(layout, "gofail", GOFAIL, "go.etcd.io/gofail", "")?;
    let module = source(layout, TOOL, RELEASE)?;
    if !module.join("go.sum").exists() {
        let server = module.join("server");
        copy_server(&server)?;
        let mut enable = Command::new(layout.bin("gofail", GOFAIL));
        enable.arg("enable").args(PACKAGES).current_dir(&server);
        run(&mut enable)?;
        let gofail = format!("\nrequire go.etcd.io/gofail v{GOFAIL}\n");
        let own = fs::read_to_string(server.join("go.mod"))?;
        write(&server.join("go.mod"), own + &gofail)?;
        let required = format!("require {SERVER} v{RELEASE}\n{gofail}");
        let replaced = format!("replace {SERVER} => ./server");
        write(
            &module.join("go.mod"),
            format!("module local/{TOOL}\n\ngo 1.26.0\n\n{required}\n{replaced}\n"),
        )?;
        write(&module.join("tools.go"), tools_go(&[SERVER.to_owned()]))?;
        tidy(layout, &module, &format!("{TOOL} {RELEASE} sources"))?;
    }
    build(layout, &module, (TOOL, RELEASE), SERVER, "")
}

/// What is in Go's own cache cannot be written to. A copy that is not whole is recreated.
fn copy_server(to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("remove {}", to.display()))?;
    }
    let from = downloaded()?;
    let mut copy = Command::new("cp");
    run(copy.args(["-r", "--no-preserve=mode"]).arg(&from).arg(to))
}

fn downloaded() -> Result<PathBuf> {
    let module = format!("{SERVER}@v{RELEASE}");
    let mut command = Command::new("go");
    // Outside of any module, so that none of ours takes part.
    command
        .args(["mod", "download", "-json", &module])
        .current_dir("/");
    let answer: Value = serde_json::from_str(&output(&mut command)?)?;
    let path = answer.get("Dir").and_then(Value::as_str);
    path.map(PathBuf::from)
        .with_context(|| format!("{module} is nowhere"))
}
