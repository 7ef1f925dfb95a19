//! Copies this executable into the pod, whole or not at all.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    Result,
    outcome::{Exit, Fault},
};

/// Copies the running executable to `path`, readable and executable by every user.
pub(crate) fn install(path: &Path) -> Result<()> {
    copy(path).map_err(|error| {
        Fault::new(
            Exit::Write,
            format!("cannot install to {}", path.display()),
            &error,
        )
    })
}

fn copy(path: &Path) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let copied = fs::copy(std::env::current_exe()?, &temporary)
        .and_then(|_| fs::set_permissions(&temporary, fs::Permissions::from_mode(0o555)))
        .and_then(|()| fs::rename(&temporary, path));
    if copied.is_err() {
        // Best effort: the error that counts is the first one.
        drop(fs::remove_file(&temporary));
    }
    copied
}
