//! What is recorded beside the data, each as JSON with a checksum of its own: a digit that was changed on the way must not
//! become a revision. A record of a newer format is rejected, never half understood.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::work::{Base, Depth, MadeBy, Timeline};
use crate::{hex, layout};

/// The format that this code writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// A record that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadRecord {
    /// It is no JSON, or not of this shape.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// Its bytes are not those that were written.
    #[error("its checksum differs")]
    Checksum,
    /// It was written by a newer keeper.
    #[error("it has format {0}, and this keeper knows formats up to {FORMAT}")]
    Newer(u32),
    /// Its name and its content are of different bases.
    #[error("it is not what its name says")]
    Misnamed,
}

/// How a record lies in the store.
#[derive(Serialize, Deserialize)]
struct Sealed {
    format: u32,
    /// Of the bytes of `record`, as they are.
    sha256: String,
    record: Box<RawValue>,
}

/// The text of a record.
pub fn seal(record: &impl Serialize) -> Result<String, BadRecord> {
    let unreadable = |error: serde_json::Error| BadRecord::Unreadable(error.to_string());
    let record = serde_json::to_string(record).map_err(unreadable)?;
    let sealed = Sealed {
        format: FORMAT,
        sha256: digest(&record),
        record: RawValue::from_string(record).map_err(unreadable)?,
    };
    serde_json::to_string(&sealed).map_err(unreadable)
}

/// The record of a text.
pub fn open<T: DeserializeOwned>(text: &[u8]) -> Result<T, BadRecord> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let unreadable = |error: serde_json::Error| BadRecord::Unreadable(error.to_string());
    // The format comes first: a newer one need not have a checksum where ours is.
    let Format { format } = serde_json::from_slice(text).map_err(unreadable)?;
    if format > FORMAT {
        return Err(BadRecord::Newer(format));
    }
    let sealed: Sealed = serde_json::from_slice(text).map_err(unreadable)?;
    if digest(sealed.record.get()) != sealed.sha256 {
        return Err(BadRecord::Checksum);
    }
    serde_json::from_str(sealed.record.get()).map_err(unreadable)
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// `timeline.json`: what the data below a directory is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineRecord {
    /// Namespace of the EtcdCluster.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
    /// ID of the etcd cluster.
    pub cluster_id: String,
    /// Its object, and how often its data had started over.
    pub timeline: Timeline,
    /// Version of etcd when the first base was made.
    pub etcd_version: String,
    /// When the first base was begun.
    pub time: Timestamp,
}

/// Bytes, and what they are known by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// How many.
    pub bytes: u64,
    /// SHA-256 of them, in hexadecimal digits.
    pub sha256: String,
}

/// How the data was made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// Not at all.
    None,
    /// zstd.
    Zstd,
}

/// The member that a base is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its ID, in hexadecimal digits.
    pub id: String,
    /// Version of its etcd.
    pub etcd_version: String,
    /// Version of its data; absent below etcd 3.6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_version: Option<String>,
    /// Bytes that its database took on disk.
    pub db_size: u64,
    /// Bytes of those that held data.
    pub db_size_in_use: u64,
    /// Whether users were asked who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_enabled: Option<bool>,
}

/// What the member said about the rows of a base, by its own hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HashKv {
    /// Up to this revision.
    pub revision: i64,
    /// Revision up to which it had compacted when it was asked; -1 before the first compaction.
    pub compact_revision: i64,
    /// The hash.
    pub hash: u32,
}

/// `base/<revision>-<id>.json`. It is written last: without it a base does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// ID of the base.
    pub id: String,
    /// Name of the data, from the directory of the timeline.
    pub data: String,
    /// When it was complete.
    pub time: Timestamp,
    /// Newest revision in it.
    pub revision: i64,
    /// Revision up to which history was compacted away; 0 before the first compaction.
    pub compact_revision: i64,
    /// The snapshot as the member sent it, its hash at the end included.
    pub raw: Sum,
    /// The data in the store.
    pub stored: Sum,
    /// The hash at the end of the snapshot, in hexadecimal digits.
    pub trailer: String,
    /// How it was made smaller.
    pub compression: Compression,
    /// Whether it is a file of age.
    pub encrypted: bool,
    /// Public keys of those who can decrypt it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Where it is from.
    pub source: Source,
    /// Who made it.
    pub made_by: MadeBy,
    /// What the member said its rows are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_kv: Option<HashKv>,
}

/// The data of a base has its ID, the number of the attempt that made it, and what the process made up that did; earlier ones
/// made nothing up.
fn is_attempt(data: &str, id: &str) -> bool {
    let attempt = data.strip_prefix(id).and_then(|it| it.strip_prefix('-'));
    let (attempt, process) = match attempt {
        Some(attempt) => attempt.split_once('-').unwrap_or((attempt, "0")),
        None => return false,
    };
    let is = |text: &str, is_fit: fn(&u8) -> bool| {
        !text.is_empty() && text.as_bytes().iter().all(is_fit)
    };
    is(attempt, u8::is_ascii_digit) && is(process, u8::is_ascii_hexdigit)
}

impl Manifest {
    /// The manifest of a text whose name ended so. What names its data elsewhere is not one.
    pub fn open(name: &str, text: &[u8]) -> Result<Self, BadRecord> {
        let read: Self = open(text)?;
        let data = read.data.strip_prefix("base/").and_then(layout::parse_data);
        let is_named = layout::parse_manifest(name) == Some((read.revision, &read.id));
        if !is_named || !data.is_some_and(|data| is_attempt(data, &read.id)) {
            return Err(BadRecord::Misnamed);
        }
        Ok(read)
    }

    /// Its facts for the operator. `url` is the address of its data.
    pub fn base(&self, url: String) -> Base {
        Base {
            id: self.id.clone(),
            url,
            time: self.time,
            revision: self.revision,
            compact_revision: self.compact_revision,
            stored_bytes: self.stored.bytes,
            raw_bytes: self.raw.bytes,
            etcd_version: self.source.etcd_version.clone(),
        }
    }
}

/// `verified/<id>-<time>.json`: a base was tried, and was as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedRecord {
    /// ID of the base.
    pub id: String,
    /// Newest revision in it.
    pub revision: i64,
    /// When.
    pub time: Timestamp,
    /// How far.
    pub depth: Depth,
    /// Keys that a client read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// Which verification this was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// `damaged/<id>-<time>.json`: a base was tried, and was not as it should be. Its name alone tells that, so that nothing in it
/// can be damaged that matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DamagedRecord {
    /// ID of the base.
    pub id: String,
    /// When.
    pub time: Timestamp,
    /// What is wrong with it.
    pub message: String,
    /// Which verification this was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

#[cfg(test)]
mod tests;
