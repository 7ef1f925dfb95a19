//! What the operator and the gate say to each other: the report an agent serves while it waits, the
//! grant that lets it go on, and the identity it leaves beside the data. Types only; no IO, no
//! judgement. `docs/reference/contract.md` sections 4 to 6 are its prose.

use serde::{Deserialize, Serialize};

/// Version of the report's shape; raised when a field changes its meaning.
pub const PROTOCOL: u32 = 1;
/// Pod annotation that carries the grant.
pub const GRANT_ANNOTATION: &str = "etcd.etcd.io/grant";
/// Pod annotation that names members whose data must never be read again, because they were removed
/// from the cluster: hexadecimal member IDs, separated by commas. Looked at whenever the agent starts.
pub const REMOVED_ANNOTATION: &str = "etcd.etcd.io/removed";
/// Pod annotation that holds back data of earlier incarnations: a decimal number; data whose identity file
/// tells a lower incarnation, or none, waits as [`State::Fenced`]. Looked at whenever the agent starts,
/// and during a wait, where it can only rise.
pub const FENCE_ANNOTATION: &str = "etcd.etcd.io/fence";
/// Pod annotation that tells how far members are known to have come: `<member ID>=<index>`, separated by
/// commas. Data of such a member whose log ends before that index waits as [`State::RolledBack`]. Looked at
/// whenever the agent starts.
pub const FLOORS_ANNOTATION: &str = "etcd.etcd.io/floors";
/// Port of the gate, and of etcd's metrics once etcd runs.
pub const PORT: u16 = 2381;
/// Port of the gate, and of etcd's metrics once etcd runs, for callers with a certificate: where clients use TLS, the report
/// is served here and no longer on [`PORT`].
pub const SECURE_PORT: u16 = 2382;
/// What the names of directories begin with to which a backup is brought.
pub const RESTORE_PREFIX: &str = "restore-";
/// The snapshot in such a directory.
pub const SNAPSHOT_FILE: &str = "snapshot.db";
/// Path of the report.
pub const REPORT_PATH: &str = "/gate";

/// What the agent found in the data directory, and why it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// No WAL and no database.
    Empty,
    /// Valid data that another `EtcdCluster` object left here.
    OtherObject,
    /// Valid data without an identity file; or in the volume's root, where an earlier operator had it.
    Unidentified,
    /// Valid data whose IDs contradict the identity file.
    Mismatch,
    /// Something is there, but no WAL that can be read.
    Damaged,
    /// Valid data of an earlier incarnation, held back by [`FENCE_ANNOTATION`].
    Fenced,
    /// Valid data of this member that ends before what it is known to have had, by [`FLOORS_ANNOTATION`].
    RolledBack,
}

/// The answer to `GET /gate` while the agent waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Why the agent waits.
    pub state: State,
    /// 128 random bits in hexadecimal, new for every wait.
    pub nonce: String,
    /// The pod that waits.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// One sentence for people.
    pub detail: String,
    /// What could be read from the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// A recovery or a restore that failed before this wait, in the same process; the data is as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
    /// Set once the wait has ended with a Join: etcd runs for the first time and serves no clients yet, and this many
    /// bytes of the leader's data have come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
}

/// A recovery or a restore that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// One sentence for people.
    pub why: String,
    /// When, in seconds since 1970.
    pub time: i64,
}

/// What a readable data directory holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// Cluster ID in the WAL, hexadecimal.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Member ID in the WAL, hexadecimal.
    #[serde(rename = "memberID")]
    pub member_id: String,
    /// Term of the last log entry.
    pub term: u64,
    /// Index of the last log entry.
    pub index: u64,
    /// Last commit index that was recorded.
    pub commit: u64,
    /// When the log was last written to, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<i64>,
    /// The identity file beside the data, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// Whose data this is; written beside the data directory before etcd first starts on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// UID of the `EtcdCluster` object.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// Incarnation of that object in which the data began.
    pub incarnation: u64,
    /// Nonce of the grant that let etcd start.
    pub nonce: String,
    /// Name of the pod whose volume it is; absent where an earlier agent wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Member ID the data must have; absent after a bootstrap.
    #[serde(rename = "memberID", default, skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,
    /// Cluster ID the data must have; absent after a bootstrap.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// How members and clients spoke with the etcd that was last started on the data, such as `client=Tls,peer=Tls`; absent
    /// where they did so in plaintext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// The operator's permission for one wait, carried by [`GRANT_ANNOTATION`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The wait this was made for; any other wait ignores it.
    pub nonce: String,
    /// UID of the `EtcdCluster` object.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// Incarnation of that object.
    pub incarnation: u64,
    /// What may be done.
    #[serde(flatten)]
    pub action: Action,
}

/// What a grant permits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "action", rename_all_fields = "camelCase")]
pub enum Action {
    /// Found a cluster of one.
    Bootstrap {
        /// etcd's `--initial-cluster-token`.
        token: String,
        /// This member alone, as `name=url`.
        initial_cluster: String,
        /// Move aside what lies in the data directory.
        #[serde(default)]
        discard: bool,
    },
    /// Start as a member that was just added.
    Join {
        /// etcd's `--initial-cluster-token`.
        token: String,
        /// The whole member list, as `name=url,…`.
        initial_cluster: String,
        /// The ID that `MemberAdd` returned.
        #[serde(rename = "memberID")]
        member_id: String,
        /// The cluster that was joined.
        #[serde(rename = "clusterID")]
        cluster_id: String,
        /// Move aside what lies in the data directory.
        #[serde(default)]
        discard: bool,
    },
    /// Start on the data that is there and call it ours from now on.
    Resume {
        /// The ID the data must have.
        #[serde(rename = "memberID")]
        member_id: String,
        /// The cluster the data must belong to.
        #[serde(rename = "clusterID")]
        cluster_id: String,
    },
    /// Found a cluster of one from the fenced data that is there, under IDs of its own.
    Recover {
        /// etcd's `--initial-cluster-token`, of an incarnation that the data has not seen.
        token: String,
        /// This member alone, as `name=url`.
        initial_cluster: String,
        /// The ID the data must have; it gets another one.
        #[serde(rename = "memberID")]
        member_id: String,
        /// The cluster the data must belong to; it gets another one.
        #[serde(rename = "clusterID")]
        cluster_id: String,
        /// How far the revision is raised, so that watchers notice; all before it is compacted.
        bump_revision: u64,
    },
    /// Bootstrap a cluster of one from a snapshot that was brought to the volume. What lies in the data directory is moved
    /// aside.
    Restore {
        /// etcd's `--initial-cluster-token`.
        token: String,
        /// This member alone, as `name=url`.
        initial_cluster: String,
        /// Name of the directory on the volume that holds it, as [`restore_directory`] makes it.
        directory: String,
        /// The last 32 bytes of [`SNAPSHOT_FILE`], in hexadecimal digits: another file is not taken for it.
        trailer: String,
        /// The hash at the end of the file is not compared with its contents.
        #[serde(default)]
        skip_hash_check: bool,
        /// How far the revision is raised, so that watchers notice; all before it is compacted. 0: not at all.
        bump_revision: u64,
    },
}

/// The directory on a volume to which the backup of one restore is brought: `restore-` and at most 32 hexadecimal digits.
pub fn restore_directory(wish: &str) -> String {
    format!("{RESTORE_PREFIX}{wish}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_recovery_is_told_only_where_there_was_one() {
        let text = r#"{"protocol":1,"state":"Fenced","nonce":"0f","podUID":"u","detail":"d"}"#;
        let mut report: Report = serde_json::from_str(text).unwrap();
        assert_eq!(report.failed, None);
        assert_eq!(serde_json::to_string(&report).unwrap(), text);
        report.failed = Some(Failed {
            why: "w".into(),
            time: 7,
        });
        let told = serde_json::to_string(&report).unwrap();
        assert!(
            told.ends_with(r#""failed":{"why":"w","time":7}}"#),
            "{told}"
        );
        assert_eq!(serde_json::from_str::<Report>(&told).unwrap(), report);
    }

    #[test]
    fn an_identity_tells_the_transport_only_where_it_is_not_plaintext() {
        let text = r#"{"clusterUID":"u","incarnation":1,"nonce":"0f"}"#;
        let mut identity: Identity = serde_json::from_str(text).unwrap();
        assert_eq!(identity.transport, None);
        assert_eq!(serde_json::to_string(&identity).unwrap(), text);
        identity.transport = Some("client=Tls,peer=Plain".into());
        let told = serde_json::to_string(&identity).unwrap();
        assert!(
            told.ends_with(r#","transport":"client=Tls,peer=Plain"}"#),
            "{told}"
        );
        assert_eq!(serde_json::from_str::<Identity>(&told).unwrap(), identity);
    }

    #[test]
    fn a_grant_reads_as_the_contract_page_says() {
        let grant = Grant {
            nonce: "ab".into(),
            cluster_uid: "u".into(),
            incarnation: 1,
            action: Action::Join {
                token: "u-1".into(),
                initial_cluster: "c-0=http://c-0".into(),
                member_id: "1f".into(),
                cluster_id: "2f".into(),
                discard: false,
            },
        };
        let text = serde_json::to_string(&grant).unwrap();
        assert_eq!(
            text,
            r#"{"nonce":"ab","clusterUID":"u","incarnation":1,"action":"Join","token":"u-1","initialCluster":"c-0=http://c-0","memberID":"1f","clusterID":"2f","discard":false}"#
        );
        assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), grant);

        let grant = Grant {
            action: Action::Recover {
                token: "u-2".into(),
                initial_cluster: "c-0=http://c-0".into(),
                member_id: "1f".into(),
                cluster_id: "2f".into(),
                bump_revision: 1 << 60,
            },
            incarnation: 2,
            ..grant
        };
        let text = serde_json::to_string(&grant).unwrap();
        assert_eq!(
            text,
            r#"{"nonce":"ab","clusterUID":"u","incarnation":2,"action":"Recover","token":"u-2","initialCluster":"c-0=http://c-0","memberID":"1f","clusterID":"2f","bumpRevision":1152921504606846976}"#
        );
        assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), grant);

        let grant = Grant {
            action: Action::Restore {
                token: "u-2".into(),
                initial_cluster: "c-0=http://c-0".into(),
                directory: restore_directory("3f"),
                trailer: "4f".into(),
                skip_hash_check: false,
                bump_revision: 0,
            },
            ..grant
        };
        let text = serde_json::to_string(&grant).unwrap();
        assert_eq!(
            text,
            r#"{"nonce":"ab","clusterUID":"u","incarnation":2,"action":"Restore","token":"u-2","initialCluster":"c-0=http://c-0","directory":"restore-3f","trailer":"4f","skipHashCheck":false,"bumpRevision":0}"#
        );
        let without = text.replace(r#""skipHashCheck":false,"#, "");
        assert_eq!(serde_json::from_str::<Grant>(&without).unwrap(), grant);
    }
}
