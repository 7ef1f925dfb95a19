//! The images every node gets at `up`: what the cluster itself needs, and etcd under its official name.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::build::{COREDNS, ETCDS, PAUSE};
use super::state::Layout;
use crate::image::{Image, write_archive};

pub(crate) const PAUSE_IMAGE: &str = "localhost/pause:1";

/// An image and the file it comes from.
pub(crate) struct Archive {
    pub(crate) image: String,
    pub(crate) path: PathBuf,
}

/// The archives of all images, written if missing; the most urgent first.
pub(crate) fn ensure(layout: &Layout) -> Result<Vec<Archive>> {
    let mut archives = Vec::new();
    for (file, image) in images(layout) {
        let path = layout.image(&file);
        if !path.exists() {
            write_archive(&path, &image)?;
        }
        archives.push(Archive {
            image: image.name,
            path,
        });
    }
    Ok(archives)
}

fn images(layout: &Layout) -> Vec<(String, Image)> {
    let local = |name: &str, version: &str| {
        let tools = [(name, layout.bin(name, version))];
        (
            format!("{name}-{version}"),
            image(format!("localhost/{name}:{version}"), &tools),
        )
    };
    let mut images = vec![
        local("pause", PAUSE),
        local("coredns", COREDNS),
        ("busybox-1".to_owned(), busybox()),
    ];
    for version in ETCDS {
        let tools = ["etcd", "etcdctl", "etcdutl"].map(|tool| (tool, layout.bin(tool, version)));
        images.push((
            format!("etcd-{version}"),
            image(format!("quay.io/coreos/etcd:v{version}"), &tools),
        ));
    }
    images
}

/// Programs in `/usr/local/bin`, where the official etcd image has them too; the first one is started.
fn image(name: String, tools: &[(&str, PathBuf)]) -> Image {
    let inside = |tool: &str| format!("/usr/local/bin/{tool}");
    Image {
        name,
        entrypoint: tools
            .first()
            .map(|(tool, _)| inside(tool))
            .into_iter()
            .collect(),
        files: tools
            .iter()
            .map(|(tool, path)| (inside(tool), path.clone()))
            .collect(),
        env: vec!["PATH=/usr/local/bin:/usr/bin:/bin".to_owned()],
        ..Image::default()
    }
}

/// A shell and the usual commands, for pods that look at things.
fn busybox() -> Image {
    let commands = "sh cat chmod cp date dd df du echo env false find grep head id kill ls mkdir mktemp mv nc nslookup ping \
        ps rm sed seq sleep stat sync tail tar tee test timeout touch tr true uname vi wc wget which";
    let link = |command: &str| (format!("/bin/{command}"), "/bin/busybox".to_owned());
    Image {
        name: "localhost/busybox:1".to_owned(),
        files: vec![(
            "/bin/busybox".to_owned(),
            Path::new("/bin/busybox").to_owned(),
        )],
        links: commands.split_whitespace().map(link).collect(),
        entrypoint: vec!["/bin/sh".to_owned()],
        env: vec!["PATH=/bin".to_owned()],
        ..Image::default()
    }
}
