//! What the operator asks a keeper to do, and what the keeper answers. The request is JSON in the environment of its Job, the
//! answer is JSON in the termination message of its container, at most [`ANSWER_LIMIT`] bytes. No secret is in either:
//! those are files that the kubelet mounts ([`STORE_SECRETS`], [`MEMBER_TLS`], [`IDENTITY`]).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Environment variable that holds the request.
pub const REQUEST: &str = "ETCD_KEEPER_REQUEST";
/// Directory of the credentials and the authority of the store.
pub const STORE_SECRETS: &str = "/etc/etcd-keeper/store";
/// Directory of `ca.crt`, `tls.crt` and `tls.key` for the member.
pub const MEMBER_TLS: &str = "/etc/etcd-keeper/member";
/// Directory of age identities; every file in it is one.
pub const IDENTITY: &str = "/etc/etcd-keeper/identity";
/// Where a claim is mounted that is the store.
pub const LOCAL: &str = "/var/lib/etcd-keeper/store";
/// Where a verification and a fetch may write.
pub const SCRATCH: &str = "/var/lib/etcd-keeper/scratch";
/// The kubelet keeps no more of a termination message.
pub const ANSWER_LIMIT: usize = 4096;

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Where backups are.
    pub store: Store,
    /// What is to be done.
    pub task: Task,
}

impl Request {
    /// Its JSON. What cannot be written as JSON does not exist here.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Where backups are. Credentials are files in [`STORE_SECRETS`], or come with the service account of the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Store {
    /// S3, and what speaks it.
    S3 {
        /// Name of the bucket.
        bucket: String,
        /// Prefix of every name, without slashes at its ends; may be empty.
        path: String,
        /// `us-east-1` when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        region: Option<String>,
        /// `http` only with `allow_http`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
        /// The bucket is in the path and not in the host name.
        #[serde(default)]
        path_style: bool,
        /// An endpoint without TLS is wanted.
        #[serde(default)]
        allow_http: bool,
        /// Puts carry a SHA-256, which buckets with object lock demand.
        #[serde(default)]
        checksum: bool,
    },
    /// Google Cloud Storage.
    Gcs {
        /// Name of the bucket.
        bucket: String,
        /// Prefix of every name.
        path: String,
    },
    /// Azure Blob Storage.
    Azure {
        /// Name of the storage account.
        account: String,
        /// Name of the container.
        container: String,
        /// Prefix of every name.
        path: String,
    },
    /// A claim, mounted at [`LOCAL`].
    Local {
        /// Prefix of every name.
        path: String,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[expect(
    clippy::large_enum_variant,
    reason = "a process handles one of them in its life"
)]
pub enum Task {
    /// Make a base of a cluster, then prune. Where the base of this ID is there already, only its facts are answered.
    Snapshot(Snapshot),
    /// Restore a base in a scratch directory, start etcd on it, and compare.
    Verify(Verify),
    /// Bring a base, decrypted and decompressed, to a directory.
    Fetch(Fetch),
    /// The same with a file that something else made.
    Import(Import),
}

/// Which data: one directory of the store, a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Namespace of the EtcdCluster.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
    /// ID of the etcd cluster, in hexadecimal digits.
    pub cluster_id: String,
}

/// Makes a base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// ID of the base: lower-case letters, digits and hyphens.
    pub id: String,
    /// How many attempts to make it failed before.
    #[serde(default)]
    pub attempt: u32,
    /// Which data.
    pub place: Place,
    /// What the timeline is of; written where it is not there yet.
    pub timeline: Timeline,
    /// Who is asked for it.
    pub member: Member,
    /// zstd; otherwise as it is.
    pub compress: bool,
    /// Public keys of age; none: not encrypted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Who made it.
    pub made_by: MadeBy,
    /// Which bases of this object are kept afterwards; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
}

/// Where the data comes from: one start of a cluster over its whole history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// UID of the EtcdCluster.
    pub object: String,
    /// How often its data has started over.
    pub incarnation: u64,
}

/// A member, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Name, for people.
    pub name: String,
    /// Host and port of its client URL.
    pub address: String,
    /// The name in its certificate; absent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Its ID, in hexadecimal digits: another one that answers is not asked.
    pub id: String,
}

/// Who made a base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MadeBy {
    /// Namespace of the EtcdBackup.
    pub namespace: String,
    /// Its name. Retention of an object concerns bases of its own only.
    pub name: String,
    /// Why.
    pub kind: Kind,
}

/// Why a base was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// By its schedule.
    Scheduled,
    /// Because it was asked for.
    Demand,
    /// Because something else rests on it: an upgrade, a stop that deletes, a restore.
    Needed,
}

/// Which bases are kept: what any of these keeps. The newest, and the newest that was verified, always are. One that failed its
/// trial takes the place of none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Keep {
    /// So many of the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u32>,
    /// All that are younger than so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// The newest of each of so many days, of UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily: Option<u32>,
    /// The newest of each of so many weeks, of UTC, which begin on Monday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weekly: Option<u32>,
    /// The newest of each of so many months, of UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly: Option<u32>,
    /// IDs of bases that a restore needs: they stay, and take the place of none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spared: Vec<String>,
}

/// Restores a base in [`SCRATCH`] with the tools of an etcd image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// Which data.
    pub place: Place,
    /// Which base; the newest of the place when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Which verification this is. One that has a record in the store is answered from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Brings a base to a directory, or finds out whether that would work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetch {
    /// Which data. Without a cluster ID: the only one that the store has of this cluster.
    pub place: Place,
    /// Which base; when absent the newest of the place, or the one that holds the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// As of which revision: one that the base holds. When absent, its newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// This directory, which is made where it is missing. When absent, all of it is read and compared, and nothing written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// Brings a snapshot that something else made to a directory, or finds out whether that would work. Whether it is encrypted and how it was made smaller is told by
/// its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Import {
    /// Its name in the store, below the path of that.
    pub name: String,
    /// SHA-256 of the file as it is in the store, in hexadecimal digits; not compared when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// etcd's own hash at its end is not compared, and may be missing.
    #[serde(default)]
    pub skip_hash_check: bool,
    /// As of [`Fetch`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// What a keeper says when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "result",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Answer {
    /// It is done.
    Done(Done),
    /// It is not.
    Failed {
        /// What kind of failure it is.
        cause: Cause,
        /// What happened, to what, in the words of the store or of etcd. One line.
        message: String,
    },
}

/// What kind of failure it is: whether another attempt may help, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The store cannot be reached, or does not accept the credentials, the bucket or the object.
    Store,
    /// The member cannot be reached, broke the stream off, or is another one.
    Member,
    /// What is in the store is damaged: a checksum differs, or something is missing.
    Damaged,
    /// It cannot be decrypted with the identities that are there.
    Identity,
    /// The request makes no sense, or this keeper does not know it.
    Request,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Done {
    /// A base is there.
    Snapshot(Made),
    /// A base was restored.
    Verify(Verified),
    /// A base was fetched, or a file was.
    Fetch(Fetched),
}

/// A base that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    /// It.
    pub base: Base,
    /// How many bases were pruned.
    pub pruned: u32,
    /// Why some were not, though they are no longer kept. One line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpruned: Option<String>,
    /// The newest ones of this place, of any object, newest first; at most ten.
    pub newest: Vec<Listed>,
}

/// The facts of a base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Base {
    /// Its ID.
    pub id: String,
    /// Address of its data in the store, such as `s3://bucket/path/…`.
    pub url: String,
    /// When it was complete.
    pub time: Timestamp,
    /// Newest revision in it.
    pub revision: i64,
    /// Revision up to which history was compacted away.
    pub compact_revision: i64,
    /// Bytes in the store.
    pub stored_bytes: u64,
    /// Bytes of the snapshot.
    pub raw_bytes: u64,
    /// Version of the etcd that it is from.
    pub etcd_version: String,
}

/// One of several bases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its ID.
    pub id: String,
    /// When it was complete.
    pub time: Timestamp,
    /// Newest revision in it.
    pub revision: i64,
    /// Bytes in the store.
    pub bytes: u64,
    /// When it was restored for a trial, and was as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Timestamp>,
    /// Its last trial failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// A base that was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// Its ID.
    pub id: String,
    /// Newest revision in it.
    pub revision: i64,
    /// How far it was tried.
    pub depth: Depth,
    /// When.
    pub time: Timestamp,
    /// Keys that a client reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
}

/// How far a base was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Depth {
    /// etcd ran on it, and its hash is that of the member that it is from.
    Hash,
    /// etcd ran on it; the member that it is from had not been asked for a hash.
    Restored,
    /// Its bytes in the store are those that were written; it could not be decrypted.
    ChecksumOnly,
}

/// A base that was fetched. Of a file that something else made, the ID is its name, the time is that of its last change, and
/// the version is the least that an etcd must have; empty where the file does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetched {
    /// Its facts.
    pub base: Base,
    /// The hash at the end of the file, in hexadecimal digits.
    pub trailer: String,
    /// Authentication was on when it was made; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<bool>,
    /// The file is as of an earlier revision than the newest of the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewound: Option<Rewound>,
}

/// How a file differs from the base that it was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewound {
    /// Its newest revision.
    pub revision: i64,
    /// The hash at the end of the base, in hexadecimal digits. Where nothing was written, [`Fetched::trailer`] is the same.
    pub base_trailer: String,
    /// Its bytes; 0 where nothing was written.
    pub bytes: u64,
    /// Leases that ended after the revision, and on which keys hang: they were made again, with a time to live of
    /// [`crate::materialise::LEASE_SECONDS`].
    pub leases: u64,
    /// Some of them, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub some_leases: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_answers_and_requests_never_panic() {
        let answer = r#"{"result":"done","done":{"kind":"verify","id":"a","revision":7,"depth":"Hash","time":"2026-11-19T00:00:00Z"}}"#;
        let failed = r#"{"result":"failed","cause":"Store","message":"x"}"#;
        let request = Request {
            store: Store::Local {
                path: String::new(),
            },
            task: Task::Import(Import {
                name: "f".to_owned(),
                sha256: None,
                skip_hash_check: false,
                into: None,
            }),
        };
        hostile::never_panics_on_text(&[answer, failed, &request.to_text()], |text| {
            let answer = serde_json::from_str::<Answer>(text);
            (
                answer.map(|answer| answer.to_message()),
                serde_json::from_str::<Request>(text),
            )
                .0
                .is_ok()
        });
    }
}
