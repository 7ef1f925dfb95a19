//! `cargo xtask release`: all that a release consists of, in one directory, by one source and nothing else: the image for both
//! processors, the chart and the manifests that name it by its digest, the plugin, what is in it, and checksums of all.

mod archive;
mod krew;
pub(crate) mod package;
mod sbom;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use self::archive::Entry;
use crate::cluster::Layout;
use crate::deploy::root;
use crate::image::push::{Reference, push};
use crate::image::{digest_of, oci};
use crate::programs::{self, Architecture, PLUGIN};
use crate::publish::{LOCAL, VERSION, describe};

const CHECKSUMS: &str = "SHA256SUMS";

/// Where it goes, and what is there already.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where nodes will pull the image from: HOST/PATH, such as registry.example.org/team/etcd-operator; the tag is the version
    #[arg(long, value_name = "IMAGE")]
    repository: Reference,
    /// Also push it there
    #[arg(long)]
    push: bool,
    /// Directory with programs for x86-64 that were compiled before
    #[arg(long, value_name = "DIRECTORY")]
    amd64: Option<PathBuf>,
    /// Directory with programs for arm64 that were compiled before
    #[arg(long, value_name = "DIRECTORY")]
    arm64: Option<PathBuf>,
    /// Address below which these files will be downloaded from; the manifest for krew names it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Where the files are written to; must be empty or absent
    #[arg(long, value_name = "DIRECTORY", default_value = "dist")]
    out: PathBuf,
}

/// Makes all of it, and prints the image by its digest.
pub(crate) fn release(layout: &Layout, options: &Options) -> Result<()> {
    let to = &options.repository;
    ensure!(
        to.tag.is_none(),
        "the tag of a release is its version, {VERSION}: write --repository {}",
        to.repository()
    );
    let out = std::path::absolute(&options.out)?;
    fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    ensure!(
        fs::read_dir(&out)?.next().is_none(),
        "{} is not empty: take it away, or write --out DIRECTORY",
        out.display()
    );
    let programs = programs(layout, options)?;
    let work = tempfile::tempdir_in(&out)?;
    let image = oci::Layout::create(work.path())?;
    let name = format!("{}:{VERSION}", to.repository());
    let variants = programs
        .iter()
        .map(|(of, directory)| (*of, describe(&name, directory)));
    let variants: Vec<_> = variants.collect();
    let index = image.write(&name, &variants)?;
    image.archive(&out.join(format!("etcd-operator-image-{VERSION}.oci.tar")))?;
    write_texts(&out, to, &index.digest)?;
    write_plugins(&out, &programs, options.url.as_deref())?;
    if options.push {
        push(&image, &index, to, VERSION)?;
        eprintln!("pushed {name}");
    }
    work.close()?;
    write_checksums(&out)?;
    println!("{name}@{}", index.digest);
    Ok(())
}

/// By processor, as images call it: the directory that holds its programs.
fn programs(layout: &Layout, options: &Options) -> Result<Vec<(&'static str, PathBuf)>> {
    let of = |architecture: Architecture| {
        let given = match architecture {
            Architecture::Amd64 => &options.amd64,
            Architecture::Arm64 => &options.arm64,
        };
        let directory = match given {
            Some(directory) => {
                programs::check(directory, architecture)?;
                directory.clone()
            }
            None => programs::compile_all(layout, architecture)?,
        };
        if programs::has_plugin()? {
            programs::check_one(&directory.join(PLUGIN), architecture)?;
        }
        Ok((architecture.name(), directory))
    };
    Architecture::ALL.into_iter().map(of).collect()
}

/// What follows from the source and the digest of the image alone.
fn write_texts(out: &Path, to: &Reference, digest: &str) -> Result<()> {
    let chart = package::chart(&to.repository(), digest)?;
    fs::write(out.join(format!("etcd-operator-{VERSION}.tgz")), chart)?;
    let manifests = fs::read_to_string(root().join("config/install.yaml"))?;
    let manifests = named(&manifests, &to.repository(), digest)?;
    fs::write(out.join("install.yaml"), manifests)?;
    let bill = sbom::of_this_workspace()?;
    fs::write(out.join(format!("etcd-operator-{VERSION}.cdx.json")), bill)?;
    Ok(())
}

/// The manifests with the image of a release, by its digest.
fn named(manifests: &str, repository: &str, digest: &str) -> Result<String> {
    let local = format!("{LOCAL}:{VERSION}");
    // The container's own image, and the one that members get their agent from.
    ensure!(
        manifests.matches(&local).count() == 2,
        "config/install.yaml does not name {local} twice\nhint: `cargo xtask generate`"
    );
    Ok(manifests.replace(&local, &format!("{repository}:{VERSION}@{digest}")))
}

/// The plugin of kubectl, where this workspace has it: an archive for each processor, and the manifest for krew.
fn write_plugins(
    out: &Path,
    programs: &[(&'static str, PathBuf)],
    url: Option<&str>,
) -> Result<()> {
    if !programs::has_plugin()? {
        return Ok(());
    }
    let license = fs::read(root().join("LICENSE"))?;
    let mut platforms = BTreeMap::new();
    for (architecture, directory) in programs {
        let plugin = directory.join(PLUGIN);
        let plugin = fs::read(&plugin).with_context(|| format!("read {}", plugin.display()))?;
        let content = archive::pack(&[
            Entry::program(PLUGIN, plugin),
            Entry::text("LICENSE", license.clone()),
        ])?;
        let name = krew::archive_name(architecture);
        fs::write(out.join(&name), &content)?;
        platforms.insert(*architecture, krew::Archive::new(name, &content));
    }
    match url {
        Some(url) => fs::write(out.join("etcd.yaml"), krew::manifest(url, &platforms)?)?,
        None => eprintln!(
            "no manifest for krew: it names where the archives are downloaded from (--url)"
        ),
    }
    Ok(())
}

/// As `sha256sum --check` reads them.
fn write_checksums(out: &Path) -> Result<()> {
    let mut lines = BTreeMap::new();
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let digest = digest_of(&mut File::open(&path)?)?;
        lines.insert(name.into_owned(), digest);
    }
    let lines = lines
        .iter()
        .map(|(name, digest)| format!("{digest}  {name}\n"));
    fs::write(out.join(CHECKSUMS), lines.collect::<String>())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn manifests_of_a_release_name_its_image_by_digest() {
        let there = fs::read_to_string(root().join("config/install.yaml")).unwrap();
        let named = named(
            &there,
            "registry.example.org/team/etcd-operator",
            "sha256:ab",
        )
        .unwrap();
        let wanted = format!("registry.example.org/team/etcd-operator:{VERSION}@sha256:ab");
        assert_eq!(named.matches(&wanted).count(), 2);
        assert!(!named.contains(LOCAL), "an image that no registry serves");
    }

    #[test]
    fn manifests_without_our_image_are_refused() {
        assert!(named("image: other:1", "a.b/c", "sha256:ab").is_err());
    }

    #[test]
    fn checksums_are_those_that_sha256sum_accepts_and_an_altered_byte_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        fs::write(out.join("a.tgz"), "chart").unwrap();
        fs::write(out.join("b.json"), "bill").unwrap();
        write_checksums(out).unwrap();
        let check = || {
            let mut command = Command::new("sha256sum");
            command
                .args(["--check", "--strict", CHECKSUMS])
                .current_dir(out);
            command.output().unwrap().status.success()
        };
        assert!(check());
        fs::write(out.join("b.json"), "bilk").unwrap();
        assert!(!check());
    }
}
