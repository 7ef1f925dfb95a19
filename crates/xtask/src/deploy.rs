//! `cargo xtask deploy`: the operator's image, built, loaded and installed from its chart; `undeploy` takes it off.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cluster::{Layout, Target};
use crate::image::write_archive;
use crate::programs::{self, Architecture, IN_IMAGE, Profile};
use crate::publish::{LOCAL, describe};
use crate::tools::run;

/// The namespace of the operator.
pub(crate) const NAMESPACE: &str = "etcd-operator-system";
const RELEASE: &str = "etcd-operator";

/// The operator's image, as an archive.
pub(crate) struct Built {
    /// Name and tag; the tag follows from the content, so that a new build is a new image.
    pub(crate) tag: String,
    /// The archive.
    pub(crate) archive: PathBuf,
}

impl Built {
    /// Full name of the image.
    pub(crate) fn name(&self) -> String {
        format!("{LOCAL}:{}", self.tag)
    }
}

/// Compiles the static binaries and puts them into an image.
pub(crate) fn build_image(layout: &Layout, profile: Profile) -> Result<Built> {
    let here = Architecture::here()?;
    let binaries = programs::compile(layout, profile, here)?;
    let tag = content_tag(&IN_IMAGE.map(|program| binaries.join(program)))?;
    let archive = layout.cache().join("images").join("etcd-operator.tar");
    let built = Built { tag, archive };
    let image = describe(&built.name(), &binaries);
    write_archive(&built.archive, &image)?;
    Ok(built)
}

/// Builds, loads and installs; `values` are passed to Helm as they are.
pub(crate) fn deploy(
    layout: &Layout,
    target: &Target,
    profile: Profile,
    values: &[String],
) -> Result<Built> {
    let built = build_image(layout, profile)?;
    target.load_image(&built.archive)?;
    install(target, &built, values)?;
    Ok(built)
}

/// Installs the chart with an image that the nodes have.
pub(crate) fn install(target: &Target, built: &Built, values: &[String]) -> Result<()> {
    ensure_namespace(target)?;
    let mut helm = target.command("helm");
    helm.args(["upgrade", "--install", RELEASE])
        .arg(root().join("charts/etcd-operator"))
        .args([
            "--namespace",
            NAMESPACE,
            "--set",
            &format!("image.repository={LOCAL},image.tag={}", built.tag),
            // What was changed by hand in the meantime is put right.
            "--force-conflicts",
            "--wait",
            "--timeout",
            "2m",
        ]);
    run(helm.args(values)).context("the chart could not be installed")
}

/// Takes the operator off; the CRD and every cluster stay.
pub(crate) fn undeploy(target: &Target) -> Result<()> {
    let mut helm = target.command("helm");
    run(helm.args([
        "uninstall",
        RELEASE,
        "--namespace",
        NAMESPACE,
        "--ignore-not-found",
        "--wait",
    ]))
}

/// The namespace refuses what is not restricted, so that our own pods are held to it.
fn ensure_namespace(target: &Target) -> Result<()> {
    let manifest = format!(
        r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}","labels":{{"pod-security.kubernetes.io/enforce":"restricted"}}}}}}"#
    );
    let mut kubectl = target.command("kubectl");
    kubectl.args(["apply", "--server-side", "--filename", "-"]);
    crate::tools::run_with_input(&mut kubectl, &manifest)
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

fn content_tag(files: &[PathBuf]) -> Result<String> {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for file in files {
        hash.update(std::fs::read(file).with_context(|| format!("read {}", file.display()))?);
    }
    let digest = crate::image::hex(&hash.finalize());
    Ok(digest.chars().take(12).collect())
}
