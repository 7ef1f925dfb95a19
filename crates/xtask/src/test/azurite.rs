//! Azurite, which speaks Azure Blob Storage. It comes from npm, so that only a deep run has it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::cluster::Layout;
use crate::tools::run;

const VERSION: &str = "3.37.0";

/// The program, which is fetched where it is missing.
pub(super) fn ensure(layout: &Layout) -> Result<PathBuf> {
    let directory = layout.cache().join(format!("azurite-{VERSION}"));
    let program = directory.join("node_modules/.bin/azurite-blob");
    if !program.exists() {
        std::fs::create_dir_all(&directory)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--silent", "--ignore-scripts"])
            .arg(format!("azurite@{VERSION}"))
            .current_dir(&directory);
        run(&mut npm)?;
    }
    Ok(program)
}
