//! The images every node gets at `up`: what the cluster itself needs, and etcd under the names and in
//! the layouts that people run it from.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::build::{COREDNS, EARLIER_ETCDS, ETCDS, PAUSE, VERSITYGW, failpoints};
use super::state::Layout;
use crate::image::{Image, write_archive};

pub(crate) const PAUSE_IMAGE: &str = "localhost/pause:1";

/// The release that is also there as Bitnami lays it out.
const BITNAMI_ETCD: &str = "3.6.16";

/// The image that people also name by its digest.
const PINNED: &str = "quay.io/coreos/etcd:v3.6.16";

/// An image and the file it comes from.
pub(crate) struct Archive {
    pub(crate) image: String,
    /// Other names for the same image. They cost a node nothing.
    pub(crate) aliases: Vec<String>,
    /// It can also be named by its digest.
    pub(crate) pinned: bool,
    pub(crate) path: PathBuf,
}

/// What is written to a file, and the names it gets on a node.
struct Wanted {
    file: String,
    image: Image,
    aliases: Vec<String>,
}

/// The archives of all images whose programs are compiled, written if missing; the most urgent first.
pub(crate) fn ensure(layout: &Layout) -> Result<Vec<Archive>> {
    let mut archives = Vec::new();
    let is_compiled = |wanted: &Wanted| wanted.image.files.iter().all(|(_, file)| file.exists());
    for wanted in images(layout).into_iter().filter(is_compiled) {
        let path = layout.image(&wanted.file);
        if !path.exists() {
            write_archive(&path, &wanted.image)?;
        }
        archives.push(Archive {
            pinned: wanted.image.name == PINNED,
            image: wanted.image.name,
            aliases: wanted.aliases,
            path,
        });
    }
    Ok(archives)
}

fn images(layout: &Layout) -> Vec<Wanted> {
    let local = |name: &str, version: &str| {
        let tools = [(name, layout.bin(name, version))];
        Wanted {
            file: format!("{name}-{version}"),
            image: image(format!("localhost/{name}:{version}"), &tools),
            aliases: Vec::new(),
        }
    };
    let mut images = vec![
        local("pause", PAUSE),
        local("coredns", COREDNS),
        Wanted {
            file: "busybox-1".to_owned(),
            image: busybox(),
            // What people debug with. A pod must say `imagePullPolicy: IfNotPresent`, or `latest` is looked for outside.
            aliases: vec!["docker.io/nicolaka/netshoot:latest".to_owned()],
        },
    ];
    for version in ETCDS.into_iter().chain(EARLIER_ETCDS) {
        images.push(Wanted {
            file: format!("etcd-{version}"),
            image: image(
                format!("quay.io/coreos/etcd:v{version}"),
                &etcd_tools(layout, version),
            ),
            // These have their programs where the official image has them.
            aliases: vec![
                format!("gcr.io/etcd-development/etcd:v{version}"),
                format!("registry.k8s.io/etcd:{version}-0"),
            ],
        });
    }
    images.push(with_failpoints(layout));
    images.push(local("versitygw", VERSITYGW));
    images.push(Wanted {
        file: format!("etcd-bitnami-{BITNAMI_ETCD}"),
        image: bitnami(&etcd_tools(layout, BITNAMI_ETCD)),
        aliases: Vec::new(),
    });
    images
}

fn etcd_tools(layout: &Layout, version: &str) -> [(&'static str, PathBuf); 3] {
    ["etcd", "etcdctl", "etcdutl"].map(|tool| (tool, layout.bin(tool, version)))
}

/// For stories of disks that stall; the tools beside it are those of the release.
fn with_failpoints(layout: &Layout) -> Wanted {
    let (tool, version) = (failpoints::TOOL, failpoints::RELEASE);
    let mut tools = etcd_tools(layout, version);
    if let Some((_, path)) = tools.first_mut() {
        *path = layout.bin(tool, version);
    }
    Wanted {
        file: format!("{tool}-{version}"),
        image: image(format!("localhost/{tool}:v{version}"), &tools),
        aliases: Vec::new(),
    }
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

/// Programs where Bitnami has them and nowhere else, for its user. Its scripts are left out: the agent replaces them.
fn bitnami(tools: &[(&str, PathBuf)]) -> Image {
    let inside = |tool: &str| format!("/opt/bitnami/etcd/bin/{tool}");
    Image {
        name: format!("docker.io/bitnami/etcd:{BITNAMI_ETCD}"),
        entrypoint: vec![inside("etcd")],
        files: tools
            .iter()
            .map(|(tool, path)| (inside(tool), path.clone()))
            .collect(),
        user: "1001".to_owned(),
        env: vec![
            "PATH=/opt/bitnami/common/bin:/opt/bitnami/etcd/bin:/usr/local/bin:/usr/bin:/bin"
                .to_owned(),
            "BITNAMI_APP_NAME=etcd".to_owned(),
            format!("APP_VERSION={BITNAMI_ETCD}"),
        ],
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
