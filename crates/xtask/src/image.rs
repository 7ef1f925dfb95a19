//! Container images of static files, written without any image tool: as docker-archives for nodes, as OCI layouts for
//! registries. The same input gives the same bytes: times are zero, owners are root and the order is the caller's.

pub(crate) mod oci;
pub(crate) mod push;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// What an image holds and how it starts.
#[derive(Default)]
pub(crate) struct Image {
    /// Full name with tag, as a pod names it.
    pub(crate) name: String,
    /// Executable files: path in the image, file on this machine.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// Symbolic links: path in the image, where it points.
    pub(crate) links: Vec<(String, String)>,
    pub(crate) entrypoint: Vec<String>,
    /// `uid:gid`; empty means root.
    pub(crate) user: String,
    /// `NAME=value`.
    pub(crate) env: Vec<String>,
    /// What the image says of itself.
    pub(crate) labels: BTreeMap<String, String>,
}

impl Image {
    /// What a runtime needs to know beside the files.
    fn config(&self, architecture: &str, diff_id: &str) -> String {
        let mut config = json!({"Entrypoint": self.entrypoint, "User": self.user, "Env": self.env});
        if let (false, Some(config)) = (self.labels.is_empty(), config.as_object_mut()) {
            config.insert("Labels".into(), json!(self.labels));
        }
        json!({
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff_id}")]},
        })
        .to_string()
    }
}

/// Writes the archive to `out`; a file of that name is replaced only once the new one is whole.
pub(crate) fn write_archive(out: &Path, image: &Image) -> Result<()> {
    let directory = out.parent().context("an archive needs a directory")?;
    std::fs::create_dir_all(directory)?;
    let mut layer = tempfile::tempfile_in(directory)?;
    write_layer(&mut layer, image).with_context(|| format!("layer of {}", image.name))?;
    let digest = digest_of(&mut layer)?;
    let config = image.config(architecture(), &digest);
    let config_name = format!("{}.json", hex(&Sha256::digest(config.as_bytes())));
    let layer_name = format!("{digest}.tar");
    let manifest =
        json!([{"Config": config_name, "RepoTags": [image.name], "Layers": [layer_name]}]);

    let archive = tempfile::NamedTempFile::new_in(directory)?;
    let mut tar = Builder::new(archive);
    append(
        &mut tar,
        &config_name,
        0o644,
        config.len(),
        config.as_bytes(),
    )?;
    let size = layer.seek(std::io::SeekFrom::End(0))?;
    layer.rewind()?;
    append(&mut tar, &layer_name, 0o644, usize::try_from(size)?, layer)?;
    let manifest = manifest.to_string();
    append(
        &mut tar,
        "manifest.json",
        0o644,
        manifest.len(),
        manifest.as_bytes(),
    )?;
    tar.into_inner()?
        .persist(out)
        .with_context(|| format!("write {}", out.display()))?;
    Ok(())
}

fn write_layer(layer: &mut File, image: &Image) -> Result<()> {
    let mut tar = Builder::new(layer);
    let paths = image
        .files
        .iter()
        .map(|(path, _)| path)
        .chain(image.links.iter().map(|(path, _)| path));
    let directories: BTreeSet<String> = paths.flat_map(|path| parents(path)).collect();
    for directory in directories {
        let mut header = header(EntryType::Directory, 0o755, 0);
        tar.append_data(&mut header, format!("{directory}/"), std::io::empty())?;
    }
    for (path, source) in &image.files {
        let file = File::open(source).with_context(|| format!("open {}", source.display()))?;
        let size = usize::try_from(file.metadata()?.len())?;
        append(&mut tar, relative(path), 0o755, size, file)?;
    }
    for (path, target) in &image.links {
        tar.append_link(
            &mut header(EntryType::Symlink, 0o777, 0),
            relative(path),
            target,
        )?;
    }
    tar.finish()?;
    Ok(())
}

fn append(
    tar: &mut Builder<impl Write>,
    path: &str,
    mode: u32,
    size: usize,
    content: impl Read,
) -> Result<()> {
    let mut header = header(EntryType::Regular, mode, u64::try_from(size)?);
    tar.append_data(&mut header, path, content)?;
    Ok(())
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// SHA-256 of a file, from its beginning.
pub(crate) fn digest_of(file: &mut File) -> Result<String> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else {
            break;
        };
        hash.update(part);
    }
    Ok(hex(&hash.finalize()))
}

/// Bytes as lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// `/usr/local/bin/etcd` → `usr`, `usr/local`, `usr/local/bin`.
fn parents(path: &str) -> Vec<String> {
    let relative = Path::new(relative(path));
    let parents = relative
        .ancestors()
        .skip(1)
        .filter(|parent| !parent.as_os_str().is_empty());
    parents
        .map(|parent| parent.to_string_lossy().into_owned())
        .collect()
}

/// The name container images use for this machine's processor.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(directory: &Path) -> Image {
        let program = directory.join("program");
        std::fs::write(&program, "static").unwrap();
        Image {
            name: "localhost/program:1".into(),
            files: vec![("/usr/local/bin/program".into(), program)],
            links: vec![("/bin/sh".into(), "/usr/local/bin/program".into())],
            entrypoint: vec!["/usr/local/bin/program".into()],
            ..Image::default()
        }
    }

    #[test]
    fn the_same_files_make_the_same_archive() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (
            directory.path().join("a.tar"),
            directory.path().join("b.tar"),
        );
        write_archive(&first, &image(directory.path())).unwrap();
        write_archive(&second, &image(directory.path())).unwrap();
        assert_eq!(
            std::fs::read(first).unwrap(),
            std::fs::read(second).unwrap()
        );
    }

    #[test]
    fn an_archive_names_its_config_and_its_layer() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("a.tar");
        write_archive(&out, &image(directory.path())).unwrap();
        let mut archive = tar::Archive::new(File::open(out).unwrap());
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        let kinds: Vec<_> = names
            .iter()
            .map(|name| name.rsplit('.').next().unwrap())
            .collect();
        assert_eq!(kinds, ["json", "tar", "json"]);
    }

    #[test]
    fn every_directory_above_a_file_is_in_the_layer() {
        assert_eq!(
            parents("/usr/local/bin/etcd"),
            ["usr/local/bin", "usr/local", "usr"]
        );
    }
}
