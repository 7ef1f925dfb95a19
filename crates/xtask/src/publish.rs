//! `cargo xtask image`: the operator's image, built without a cluster and pushed where the caller says.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cluster::Layout;
use crate::image::push::{Reference, push};
use crate::image::{Image, oci};
use crate::programs::{self, Architecture, IN_IMAGE, Profile};

/// The name that no registry serves: nodes have an image of it, or say so.
pub(crate) const LOCAL: &str = "localhost/etcd-operator";
/// Of the programs, the chart and the image of a release.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The user of the image, where Kubernetes says no other.
const USER: &str = "65532:65532";

/// What to build, and where to.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Push it there: `HOST/PATH[:TAG]`, such as registry.example.org/team/etcd-operator; the tag is the version otherwise
    #[arg(long, value_name = "IMAGE")]
    push: Option<Reference>,
    /// Where the archive is written to; a place in the cache when absent
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compile quickly, as for tests, instead of as it is released
    #[arg(long)]
    quick: bool,
}

/// Builds for this machine's processor, writes the archive, pushes; prints the name by digest.
pub(crate) fn image(layout: &Layout, options: &Options) -> Result<()> {
    let profile = if options.quick {
        Profile::Ci
    } else {
        Profile::Release
    };
    let here = Architecture::here()?;
    let programs = programs::compile(layout, profile, here)?;
    let name = options.push.as_ref();
    let repository = name.map_or_else(|| LOCAL.to_owned(), Reference::repository);
    let tag = name
        .and_then(|name| name.tag.clone())
        .unwrap_or_else(|| VERSION.to_owned());
    let out = match &options.out {
        Some(out) => out.clone(),
        None => layout.cache().join("images/etcd-operator.oci.tar"),
    };
    let full = format!("{repository}:{tag}");
    let work = tempfile::tempdir()?;
    let made = oci::Layout::create(work.path())?;
    let index = made.write(&full, &[(here.name(), describe(&full, &programs))])?;
    made.archive(&std::path::absolute(out.as_path())?)?;
    eprintln!("wrote {}", out.display());
    if let Some(to) = name {
        push(&made, &index, to, &tag)?;
        eprintln!("pushed {full}");
    }
    println!("{full}@{}", index.digest);
    Ok(())
}

/// The image that holds these programs.
pub(crate) fn describe(name: &str, programs: &Path) -> Image {
    let inside = |program: &str| format!("/usr/local/bin/{program}");
    let labels = [
        ("org.opencontainers.image.title", "etcd-operator"),
        ("org.opencontainers.image.version", VERSION),
        ("org.opencontainers.image.licenses", "Apache-2.0"),
    ];
    Image {
        name: name.to_owned(),
        files: IN_IMAGE
            .map(|program| (inside(program), programs.join(program)))
            .into(),
        entrypoint: IN_IMAGE
            .first()
            .map(|program| inside(program))
            .into_iter()
            .collect(),
        user: USER.to_owned(),
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..Image::default()
    }
}
