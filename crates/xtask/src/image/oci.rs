//! An OCI image layout: blobs under their digests and one index over the processors. It is what registries hold and what
//! every tool reads. Nothing in it tells when or where it was written.

use std::fs::{self, File};
use std::io::Seek;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType};

use super::{Image, append, digest_of, header, hex, write_layer};

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const VERSION: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Where a blob is found, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    /// `sha256:…`
    pub(crate) digest: String,
    pub(crate) size: u64,
}

/// A layout on this machine.
pub(crate) struct Layout {
    directory: PathBuf,
}

impl Layout {
    /// Begins an empty one.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let layout = Self {
            directory: directory.to_owned(),
        };
        fs::create_dir_all(layout.blobs())
            .with_context(|| format!("create {}", layout.blobs().display()))?;
        fs::write(directory.join("oci-layout"), VERSION)?;
        Ok(layout)
    }

    /// Writes one image for several processors, and names it.
    pub(crate) fn write(&self, name: &str, variants: &[(&str, Image)]) -> Result<Descriptor> {
        let mut manifests = Vec::new();
        for (architecture, image) in variants {
            let manifest = self.write_image(architecture, image)?;
            let mut listed = serde_json::to_value(manifest)?;
            if let Some(listed) = listed.as_object_mut() {
                let platform = json!({"architecture": architecture, "os": "linux"});
                listed.insert("platform".into(), platform);
            }
            manifests.push(listed);
        }
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let index = self.write_blob(INDEX, index.to_string().as_bytes())?;
        let mut named = serde_json::to_value(&index)?;
        if let Some(named) = named.as_object_mut() {
            let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
            let annotations = json!({
                "org.opencontainers.image.ref.name": tag,
                "io.containerd.image.name": name,
            });
            named.insert("annotations".into(), annotations);
        }
        let entry = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]});
        fs::write(self.directory.join("index.json"), entry.to_string())?;
        Ok(index)
    }

    fn write_image(&self, architecture: &str, image: &Image) -> Result<Descriptor> {
        let mut tar = tempfile::tempfile_in(&self.directory)?;
        write_layer(&mut tar, image).with_context(|| format!("layer of {}", image.name))?;
        let diff_id = digest_of(&mut tar)?;
        let layer = self.write_layer(&mut tar)?;
        let config = image.config(architecture, &diff_id);
        let config = self.write_blob(CONFIG, config.as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
        });
        self.write_blob(MANIFEST, manifest.to_string().as_bytes())
    }

    /// The head of a gzip has room for a time and a name: both stay empty.
    fn write_layer(&self, tar: &mut File) -> Result<Descriptor> {
        tar.rewind()?;
        let mut packed = tempfile::NamedTempFile::new_in(&self.directory)?;
        let mut gzip = GzBuilder::new()
            .mtime(0)
            .write(packed.as_file_mut(), Compression::best());
        std::io::copy(tar, &mut gzip)?;
        gzip.finish()?;
        let digest = digest_of(packed.as_file_mut())?;
        let size = packed.as_file().metadata()?.len();
        packed.persist(self.blobs().join(&digest))?;
        Ok(Descriptor {
            media_type: LAYER.to_owned(),
            digest: format!("sha256:{digest}"),
            size,
        })
    }

    fn write_blob(&self, media_type: &str, content: &[u8]) -> Result<Descriptor> {
        let digest = hex(&Sha256::digest(content));
        fs::write(self.blobs().join(&digest), content)?;
        Ok(Descriptor {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{digest}"),
            size: u64::try_from(content.len())?,
        })
    }

    fn blobs(&self) -> PathBuf {
        self.directory.join("blobs/sha256")
    }

    pub(super) fn path(&self, blob: &Descriptor) -> PathBuf {
        self.blobs().join(blob.digest.trim_start_matches("sha256:"))
    }

    /// The content of a blob, which is what its name says.
    pub(crate) fn read(&self, blob: &Descriptor) -> Result<Vec<u8>> {
        let digest = blob.digest.trim_start_matches("sha256:");
        let content = fs::read(self.path(blob))
            .with_context(|| format!("the layout has no blob {}", blob.digest))?;
        ensure!(
            hex(&Sha256::digest(&content)) == digest,
            "blob {} of the layout was altered\nhint: build the image again",
            blob.digest
        );
        Ok(content)
    }

    /// What a manifest or an index refers to, in the order in which a registry wants it.
    pub(crate) fn parts(&self, of: &Descriptor) -> Result<Vec<Descriptor>> {
        let content: Value = serde_json::from_slice(&self.read(of)?)?;
        let list = |key: &str| {
            let list = content.get(key).and_then(Value::as_array);
            list.cloned().unwrap_or_default()
        };
        let config = content.get("config").cloned();
        let all = list("manifests")
            .into_iter()
            .chain(list("layers"))
            .chain(config);
        all.map(|part| Ok(serde_json::from_value(part)?)).collect()
    }

    /// All of it in one file, as `podman load`, `ctr images import` and `kind load image-archive` take it.
    pub(crate) fn archive(&self, out: &Path) -> Result<()> {
        let parent = out.parent().context("an archive needs a directory")?;
        fs::create_dir_all(parent)?;
        let mut tar = Builder::new(tempfile::NamedTempFile::new_in(parent)?);
        for name in ["oci-layout", "index.json"] {
            let content = fs::read(self.directory.join(name))?;
            append(&mut tar, name, 0o644, content.len(), content.as_slice())?;
        }
        for name in ["blobs/", "blobs/sha256/"] {
            let mut header = header(EntryType::Directory, 0o755, 0);
            tar.append_data(&mut header, name, std::io::empty())?;
        }
        let blobs = fs::read_dir(self.blobs())?.map(|entry| Ok(entry?.path()));
        let mut blobs: Vec<PathBuf> = blobs.collect::<Result<_>>()?;
        blobs.sort();
        for blob in blobs {
            let name = blob.file_name().unwrap_or_default().to_string_lossy();
            let file = File::open(&blob)?;
            let size = usize::try_from(file.metadata()?.len())?;
            append(&mut tar, &format!("blobs/sha256/{name}"), 0o644, size, file)?;
        }
        let file = tar.into_inner()?;
        // A temporary file is its owner's alone; this one is for others.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(readable)?;
        file.persist(out)
            .with_context(|| format!("write {}", out.display()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::*;

    const NAME: &str = "registry.example/etcd-operator:1";

    fn variants(directory: &Path) -> Vec<(&'static str, Image)> {
        ["amd64", "arm64"]
            .map(|architecture| {
                let program = directory.join(architecture);
                fs::write(&program, format!("static {architecture}")).unwrap();
                let image = Image {
                    name: NAME.into(),
                    files: vec![("/usr/local/bin/program".into(), program)],
                    ..Image::default()
                };
                (architecture, image)
            })
            .into()
    }

    /// Two builds: the second from files of another time, mode and directory.
    fn twice() -> [(Descriptor, Vec<u8>); 2] {
        ["first", "second"].map(|build| {
            let directory = tempfile::tempdir().unwrap();
            let sources = directory.path().join(build);
            fs::create_dir(&sources).unwrap();
            let variants = variants(&sources);
            if build == "second" {
                for (architecture, _) in &variants {
                    let file = File::options()
                        .write(true)
                        .open(sources.join(architecture))
                        .unwrap();
                    let earlier = SystemTime::now() - Duration::from_hours(24);
                    file.set_modified(earlier).unwrap();
                    file.set_permissions(PermissionsExt::from_mode(0o600))
                        .unwrap();
                }
            }
            let layout = Layout::create(&directory.path().join("layout")).unwrap();
            let index = layout.write(NAME, &variants).unwrap();
            let archive = directory.path().join("image.oci.tar");
            layout.archive(&archive).unwrap();
            (index, fs::read(archive).unwrap())
        })
    }

    #[test]
    fn two_builds_have_the_same_digest_and_the_same_archive() {
        let [(first, one), (second, other)] = twice();
        assert_eq!(first, second);
        assert!(one == other, "the archives differ");
    }

    /// Two builds within a second would have the same time in them.
    #[test]
    fn nothing_in_it_has_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path()).unwrap();
        let index = layout.write(NAME, &variants(directory.path())).unwrap();
        for manifest in layout.parts(&index).unwrap() {
            let [layer, config] = &layout.parts(&manifest).unwrap()[..] else {
                panic!("a layer and a config");
            };
            let packed = layout.read(layer).unwrap();
            assert_eq!(packed[4..8], [0; 4], "the time of the gzip");
            no_entry_has_a_time(flate2::read::GzDecoder::new(packed.as_slice()));
            let config = String::from_utf8(layout.read(config).unwrap()).unwrap();
            assert!(!config.contains("created"), "{config}");
        }
        let archive = directory.path().join("image.oci.tar");
        layout.archive(&archive).unwrap();
        no_entry_has_a_time(File::open(archive).unwrap());
    }

    fn no_entry_has_a_time(tar: impl std::io::Read) {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap();
        let times = entries.map(|entry| entry.unwrap().header().mtime().unwrap());
        let times: Vec<u64> = times.collect();
        assert!(
            times.len() > 2 && times.iter().all(|time| *time == 0),
            "{times:?}"
        );
    }

    #[test]
    fn an_index_leads_to_an_image_for_each_processor() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path()).unwrap();
        let index = layout.write(NAME, &variants(directory.path())).unwrap();
        let manifests = layout.parts(&index).unwrap();
        assert_eq!(manifests.len(), 2);
        for (manifest, architecture) in manifests.iter().zip(["amd64", "arm64"]) {
            let [layer, config] = &layout.parts(manifest).unwrap()[..] else {
                panic!("a layer and a config");
            };
            let config: Value = serde_json::from_slice(&layout.read(config).unwrap()).unwrap();
            assert_eq!(config["architecture"], architecture);
            // What is unpacked is what the config promises.
            let packed = layout.read(layer).unwrap();
            let mut tar = Vec::new();
            std::io::Read::read_to_end(
                &mut flate2::read::GzDecoder::new(packed.as_slice()),
                &mut tar,
            )
            .unwrap();
            let diff_id = format!("sha256:{}", hex(&Sha256::digest(&tar)));
            assert_eq!(config["rootfs"]["diff_ids"][0], diff_id);
            assert!(
                tar.windows(12)
                    .any(|part| part == format!("static {architecture}").as_bytes())
            );
        }
    }

    #[test]
    fn an_altered_blob_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path()).unwrap();
        let index = layout.write(NAME, &variants(directory.path())).unwrap();
        let path = layout.path(&index);
        let mut content = fs::read(&path).unwrap();
        content[5] ^= 1;
        fs::write(&path, content).unwrap();
        let refused = layout.read(&index).unwrap_err().to_string();
        assert!(refused.contains("was altered"), "{refused}");
    }
}
