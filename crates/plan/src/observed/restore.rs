//! The backup that a cluster is to begin with: what the spec asks for, and the Job that brings it.

use api::v1alpha1::backup::{EtcdBackup, EtcdBackupSpec};
use api::v1alpha1::memory::{ReplaceMemory, ReplaceStage, RestoreMemory};
use api::v1alpha1::restore::{
    BackupLocation, EtcdRestore, RestoreFrom, RestorePhase, RestoreType, Restored,
};
use archive::layout;
use archive::work::{Fetch, Import, Place, Request, SCRATCH, Store, Task};

use super::{Claim, Latched, Observed, Offer};
pub use crate::backup::JobState;
use crate::backup::{elsewhere, store_of};

/// What is known of the backup that a cluster is to begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    /// What the spec asks for, or why it cannot be had; `None` where it asks for nothing.
    pub wish: Option<Result<Box<RestoreWish>, String>>,
    /// The Job that brings it.
    pub job: Option<Box<FetchJob>>,
    /// EtcdRestores that ask for a backup in the place of the data there is, the oldest first.
    pub requests: Vec<ReplaceRequest>,
    /// Whether the EtcdRestore is still there that is being carried out could not be read.
    pub unheard: bool,
    /// The backup to begin with where everything is lost. Looked for only while no quorum serves.
    pub offer: Option<Box<Offer>>,
}

/// An EtcdRestore that asks for a backup in the place of the data there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaceRequest {
    /// Its UID.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// The etcd cluster whose data it names.
    pub replaces: Option<u64>,
    /// What it asks for, or why that cannot be had.
    pub wish: Result<Box<RestoreWish>, String>,
}

/// A backup that can be brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreWish {
    /// Hash of all of it. The directory on the volume is named after it.
    pub hash: String,
    /// Where it is, with the Secrets for that, as an EtcdBackup names them.
    pub location: EtcdBackupSpec,
    /// The same for the keeper.
    pub store: Store,
    /// Which one.
    pub wanted: Wanted,
    /// Secret with private keys.
    pub identity: Option<String>,
    /// etcd's own hash is not compared.
    pub skip_hash_check: bool,
}

/// What is to be brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A backup that an EtcdBackup made.
    Backup {
        /// Which cluster it is of. Without an ID: the only one that the store has of that name.
        place: Place,
        /// Its ID; when absent the newest, or one that holds the revision.
        id: Option<String>,
        /// As of which revision; the newest of the backup when absent.
        revision: Option<i64>,
    },
    /// A file that something else made.
    File {
        /// Its name below the path of the store.
        key: String,
        /// Its SHA-256.
        sha256: Option<String>,
    },
}

/// The Job that brings a backup, and what it was created for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchJob {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Hash of what was asked for.
    pub wish: String,
    /// The member to whose volume it is brought; empty where it is only read.
    pub member: String,
    /// UID of that claim; of the EtcdRestore where it is only read.
    pub claim_uid: String,
    /// How many attempts failed before.
    pub attempt: i32,
    /// How far it is.
    pub state: JobState,
}

impl ReplaceRequest {
    /// Whether this EtcdRestore asks for one: it does not where it replaces nothing, has ended, or is being deleted. That it ended
    /// in failure is remembered by the cluster, too; but one that is created again from kept claims has the ID of then.
    pub fn is_one(restore: &EtcdRestore) -> bool {
        let status = restore.status.as_ref();
        let ended = status.is_some_and(|it| match it.phase {
            Some(RestorePhase::Completed) => true,
            // The UID is told once a cluster carries it out; before that, what is wrong can be corrected.
            Some(RestorePhase::Failed) => it.cluster_uid.is_some(),
            Some(RestorePhase::Running) | None => false,
        });
        let over = ended || restore.metadata.deletion_timestamp.is_some();
        !over && restore.spec.restore_type == Some(RestoreType::Replace)
    }

    /// What one of them asks for.
    pub fn of(restore: &EtcdRestore, wish: Result<RestoreWish, String>) -> Option<Self> {
        let metadata = &restore.metadata;
        Some(Self {
            uid: metadata.uid.clone()?,
            name: metadata.name.clone().unwrap_or_default(),
            replaces: restore.spec.replaces.as_deref().and_then(super::parse_id),
            wish: wish.map(Box::new),
        })
    }
}

impl RestoreWish {
    /// What a spec asks for, with the EtcdBackup that it names; otherwise what to write instead.
    pub fn resolve(
        from: &RestoreFrom,
        namespace: &str,
        backup: Option<&EtcdBackup>,
    ) -> Result<Self, String> {
        let (location, wanted) = match (&from.backup_name, &from.source) {
            (Some(name), None) => {
                let there = elsewhere::namespace_of(from.backup_namespace.as_deref(), namespace);
                let backup = elsewhere::usable(name, there, namespace, backup)?;
                let id = from.backup.clone();
                let place = place_of(name, there, backup)?;
                let location = elsewhere::location(from, there, namespace, backup)?;
                let revision = revision_of(from)?;
                let wanted = Wanted::Backup {
                    place,
                    id,
                    revision,
                };
                (location, wanted)
            }
            (None, Some(source)) => (source.as_backup(), wanted(from, source, namespace)?),
            (Some(_), Some(_)) | (None, None) => {
                return Err("write either backupName or source, and not both".to_owned());
            }
        };
        let store = store_of(&location)?;
        let wish = Self {
            hash: String::new(),
            location,
            store,
            wanted,
            identity: from.identity_secret.clone(),
            skip_hash_check: from.skip_hash_check == Some(true),
        };
        let secret = wish.identity.as_deref().unwrap_or_default();
        let skip = wish.skip_hash_check;
        let text = format!("{} {secret} {skip}", wish.request().to_text());
        Ok(Self {
            hash: format!("{:016x}", crate::backup::hash(&text)),
            ..wish
        })
    }

    /// The very backup or file that it names, if it names one.
    pub fn id(&self) -> Option<&String> {
        match &self.wanted {
            Wanted::Backup { id, .. } => id.as_ref(),
            Wanted::File { key, .. } => Some(key),
        }
    }

    /// Whether the hash at the end of what was brought is not compared: see [`skips_hash`].
    pub(crate) fn skips_hash(&self) -> bool {
        self.skip_hash_check && matches!(self.wanted, Wanted::Backup { .. })
    }

    /// What the keeper is told.
    pub fn request(&self) -> Request {
        let into = format!("{SCRATCH}/{}", gate::restore_directory(&self.hash));
        self.fetch(Some(into))
    }

    /// What a keeper is told that only reads it.
    pub fn check(&self) -> Request {
        self.fetch(None)
    }

    fn fetch(&self, into: Option<String>) -> Request {
        let task = match &self.wanted {
            Wanted::Backup {
                place,
                id,
                revision,
            } => Task::Fetch(Fetch {
                place: place.clone(),
                id: id.clone(),
                revision: *revision,
                into,
            }),
            Wanted::File { key, sha256 } => Task::Import(Import {
                name: key.clone(),
                sha256: sha256.clone(),
                skip_hash_check: self.skip_hash_check,
                into,
            }),
        };
        let store = self.store.clone();
        Request { store, task }
    }

    /// This very backup, whatever has become the newest since it was read: in the timeline that its address names, and as of the
    /// same revision.
    pub(crate) fn pinned(self, checked: &Restored, hash: &str) -> Self {
        let wanted = match self.wanted {
            Wanted::Backup {
                place, revision, ..
            } => {
                let cluster_id = timeline_of(&checked.url);
                let cluster_id = cluster_id.map_or(place.cluster_id, str::to_owned);
                Wanted::Backup {
                    place: Place {
                        cluster_id,
                        ..place
                    },
                    id: Some(checked.backup.clone()),
                    revision,
                }
            }
            file @ Wanted::File { .. } => file,
        };
        Self {
            hash: hash.to_owned(),
            wanted,
            ..self
        }
    }
}

/// The cluster ID in the address of a base: `…/CLUSTER-ID/base/FILE`.
pub(super) fn timeline_of(url: &str) -> Option<&str> {
    let cluster_id = url.rsplit('/').nth(2)?;
    layout::is_cluster_id(cluster_id).then_some(cluster_id)
}

/// As of when. What the CRD does not let in may have been stored before it was installed.
fn revision_of(from: &RestoreFrom) -> Result<Option<i64>, String> {
    let Some(target) = &from.target else {
        return Ok(None);
    };
    let revision = target.revision.filter(|revision| *revision >= 1);
    let missing = "target: write a revision from 1 on, or leave target out: then the newest revision of the backup is restored";
    revision.map(Some).ok_or_else(|| missing.to_owned())
}

/// What is meant in a store that a spec names.
fn wanted(from: &RestoreFrom, source: &BackupLocation, namespace: &str) -> Result<Wanted, String> {
    match (&source.cluster_name, &source.snapshot) {
        (Some(cluster), None) => {
            let other = source.cluster_namespace.as_deref();
            let place = Place {
                namespace: other.unwrap_or(namespace).to_owned(),
                cluster: cluster.clone(),
                cluster_id: source.cluster_id.clone().unwrap_or_default(),
            };
            Ok(Wanted::Backup {
                place,
                id: from.backup.clone(),
                revision: revision_of(from)?,
            })
        }
        (None, Some(_)) if from.target.is_some() => {
            Err("target goes with backups that an EtcdBackup made: leave it out beside source.snapshot".to_owned())
        }
        (None, Some(_)) if from.backup.is_some() => {
            Err("backup is the ID of a backup that an EtcdBackup made: leave it out beside source.snapshot".to_owned())
        }
        (None, Some(file)) => Ok(Wanted::File {
            key: file.key.clone(),
            sha256: file.sha256.clone(),
        }),
        (Some(_), Some(_)) | (None, None) => Err(
            "source: write either clusterName (backups that an EtcdBackup made) or snapshot (a file that something else made), and not both"
                .to_owned(),
        ),
    }
}

/// Whether the hash at the end of what was brought is not compared. The keeper gave a file of others the hash of what it brought.
pub(crate) fn skips_hash(from: &RestoreFrom) -> bool {
    let source = from.source.as_ref();
    let of_others = source.is_some_and(|source| source.snapshot.is_some());
    from.skip_hash_check == Some(true) && !of_others
}

/// The timeline of the newest backup. Another cluster of that name may have been backed up since by another object.
fn place_of(name: &str, namespace: &str, backup: &EtcdBackup) -> Result<Place, String> {
    let status = backup.status.as_ref();
    let url = status.and_then(|status| status.storage_path.as_deref());
    let url = url.ok_or_else(|| format!("EtcdBackup {name} has no backup in its store yet"))?;
    let cluster_id = timeline_of(url).ok_or_else(|| {
        format!(
            "status.storagePath of EtcdBackup {name} is {url:?}, which names no backup: write source instead of backupName"
        )
    })?;
    Ok(Place {
        namespace: namespace.to_owned(),
        cluster: backup.spec.cluster_name.clone(),
        cluster_id: cluster_id.to_owned(),
    })
}

impl Latched {
    /// A backup is on its way to take the place of the data, and this far.
    pub fn replacing(&self, stage: ReplaceStage) -> Option<&ReplaceMemory> {
        let replace = self.replace.as_deref();
        replace.filter(|replace| replace.stage == stage)
    }

    /// A backup is on its way to take the place of the data.
    pub fn is_being_replaced(&self) -> bool {
        let replace = self.replace.as_deref();
        replace.is_some_and(|replace| replace.stage != ReplaceStage::Ended)
    }

    /// The data was replaced: from now on the cluster is one that began with that backup.
    pub(crate) fn replaced(self) -> Self {
        let Some(replace) = self.replacing(ReplaceStage::Bootstrapping).cloned() else {
            return self;
        };
        let ended = ReplaceMemory {
            stage: ReplaceStage::Ended,
            record: replace.record.saturating_add(1),
            seed: None,
            checked: None,
            failure: None,
            ended: vec![replace.by.clone()],
            ..replace.clone()
        };
        Self {
            restore: replace.seed.map(Box::new),
            replace: Some(Box::new(ended)),
            ..self
        }
    }
}

impl Observed {
    /// The backup that is brought, or was, to the volume of a cluster that has not formed.
    pub fn bringing(&self) -> Option<&RestoreMemory> {
        let latched = &self.cluster.latched;
        latched
            .restore
            .as_deref()
            .filter(|_| latched.cluster_id.is_none())
    }

    /// A backup is being brought, or a Job is there that may do so though nothing is recorded of it: no pod stands on the
    /// volume meanwhile, so that the Job can mount it wherever it is.
    pub fn is_fetching(&self) -> bool {
        let latched = &self.cluster.latched;
        if latched.replacing(ReplaceStage::Fetching).is_some() {
            return true;
        }
        if latched.cluster_id.is_some() || latched.bootstrap.is_some() {
            return false;
        }
        match &latched.restore {
            Some(restore) => restore.fetched.is_none(),
            None => self.restore.job.is_some(),
        }
    }

    /// The cluster is to begin with a backup, so that it must never begin empty.
    pub fn begins_with_backup(&self) -> bool {
        self.restore.wish.is_some() || self.bringing().is_some()
    }

    /// The claim that was recorded for it, if that still stands.
    pub(crate) fn seed(&self, restore: &RestoreMemory) -> Option<(u32, &Claim)> {
        let ordinal = api::names::ordinal(&self.cluster.name, &restore.member)?;
        let claim = self.claims.get(&ordinal)?;
        let same = claim.uid == restore.claim_uid && !claim.terminating && claim.lost.is_none();
        same.then_some((ordinal, claim))
    }
}

#[cfg(test)]
mod tests;
