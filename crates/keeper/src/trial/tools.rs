//! The tools of the image: found, asked for their version, and started without what the image puts into the environment.

use archive::manifest::Manifest;
use archive::work::Cause;
use tokio::process::Command;

use crate::args::Args;
use crate::fault::{Explain as _, Fault, Result};

/// A tool of the image. The image's own settings (`ETCD_…`) are not those of a trial.
pub(super) fn tool(args: &Args, name: &str) -> Result<Command> {
    let path = args.tool(name).ok_or_else(|| {
        let message = format!("there is no {name} in this image, with which a base is restored");
        Fault::new(Cause::Request, message)
    })?;
    let mut command = Command::new(path);
    command.env_clear().kill_on_drop(true);
    Ok(command)
}

/// An older etcd would restore the base and then not start on it, which says nothing of the base.
pub(super) async fn is_new_enough(args: &Args, manifest: &Manifest) -> Result<()> {
    let output = tool(args, "etcd")?.arg("--version").output().await;
    let output = output.explain(Cause::Request, "run etcd")?;
    let words = String::from_utf8_lossy(&output.stdout);
    let of = &manifest.source.etcd_version;
    match (minor(of), words.lines().next().and_then(own_minor)) {
        (Some(of_base), Some(own)) if of_base > own => {
            let (major, minor) = own;
            let message = format!(
                "the base is from etcd {of}, and the etcd of this image is {major}.{minor}, which cannot run on it"
            );
            Err(Fault::new(Cause::Request, message))
        }
        _able_or_unknown => Ok(()),
    }
}

/// `etcd Version: 3.6.16`
fn own_minor(line: &str) -> Option<(u32, u32)> {
    minor(line.strip_prefix("etcd Version:")?.trim())
}

fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    let major = parts.next()?.parse().ok()?;
    Some((major, parts.next()?.parse().ok()?))
}

/// The last line that says something.
pub(super) fn last(words: &str) -> &str {
    let mut lines = words.lines().rev().filter(|line| !line.trim().is_empty());
    lines.next().unwrap_or("it said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_say_never_panics() {
        hostile::never_panics_on_text(&["etcd Version: 3.6.16", "v3.7.0-rc.1"], |text| {
            (own_minor(text), minor(text), last(text).len())
        });
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(own_minor("etcd Version: 3.6.16"), Some((3, 6)));
        assert_eq!(minor("3.7.0-rc.1"), Some((3, 7)));
        assert_eq!(own_minor("Git SHA: 1234"), None);
    }
}
