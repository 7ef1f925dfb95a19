//! Which EtcdCluster an EtcdRestore makes, or why it makes none.

use api::v1alpha1::restore::{
    BackupLocation, Bootstrap, EtcdRestoreSpec, RestoreFrom, RestoreType,
};
use api::{EtcdCluster, EtcdClusterSpec, labels};

use super::{Named, Original, Seen};
use crate::backup::elsewhere;

/// Where every member has its data, in the words of this release and of the one before.
const DATA_DIRS: [&str; 3] = ["/data", "/var/lib/etcd", "/var/lib/etcd/data"];
const WAL_DIRS: [&str; 2] = ["/data/member/wal", "/var/lib/etcd/data/member/wal"];

/// What the EtcdCluster begins with; otherwise what to write instead. What the CRD does not let in may have been stored
/// before it was installed.
pub fn parse(spec: &EtcdRestoreSpec) -> Result<RestoreFrom, String> {
    if spec.restore_type == Some(RestoreType::Replace) && spec.cluster_template.is_some() {
        return Err(
            "spec.clusterTemplate is for restoreType New: with Replace the EtcdCluster exists and has a spec of its own; leave it out"
                .to_owned(),
        );
    }
    if spec.backup_name.is_some() == spec.source.is_some() {
        return Err(
            "write either spec.backupName (an EtcdBackup) or spec.source (a store), and not both"
                .to_owned(),
        );
    }
    if let Some(directory) = chosen(spec.data_dir.as_ref(), &DATA_DIRS) {
        return Err(format!(
            "spec.dataDir: {directory} cannot be chosen: leave it out, or write /var/lib/etcd/data, where every member has its data"
        ));
    }
    if let Some(directory) = chosen(spec.wal_dir.as_ref(), &WAL_DIRS) {
        return Err(format!(
            "spec.walDir: {directory} cannot be chosen: leave it out, or write /var/lib/etcd/data/member/wal"
        ));
    }
    let template = spec.cluster_template.as_ref();
    let bootstrap = template.and_then(|template| template.bootstrap.as_ref());
    if bootstrap.is_some_and(|bootstrap| bootstrap.restore.is_some()) {
        return Err(
            "spec.clusterTemplate.bootstrap.restore: which backup the EtcdCluster begins with is said by spec.backupName or spec.source: leave it out"
                .to_owned(),
        );
    }
    Ok(from(spec))
}

/// The same part of it that an EtcdCluster has.
pub fn from(spec: &EtcdRestoreSpec) -> RestoreFrom {
    let there = spec.backup_namespace.clone();
    RestoreFrom {
        backup_name: spec.backup_name.clone(),
        backup_namespace: there.filter(|it| !it.is_empty()),
        credentials_secret: spec.credentials_secret.clone(),
        service_account_name: spec.service_account_name.clone(),
        source: spec.source.clone(),
        backup: spec.backup.clone(),
        target: spec.target.clone(),
        identity_secret: spec.identity_secret.clone(),
        skip_hash_check: spec.skip_hash_check,
    }
}

/// A directory that is another than members have anyway.
fn chosen<'a>(written: Option<&'a String>, known: &[&str]) -> Option<&'a String> {
    written.filter(|written| !known.contains(&written.as_str()))
}

/// Name of the EtcdCluster whose spec is copied, where none is written.
pub fn copied_from<'a>(
    spec: &'a EtcdRestoreSpec,
    namespace: &str,
    backup: &'a Named<String>,
) -> Option<&'a str> {
    if spec.cluster_template.is_some() {
        return None;
    }
    match (&spec.source, backup) {
        (Some(source), _) => {
            let of = source.cluster_namespace.as_deref();
            let here = of.is_none_or(|of| of.is_empty() || of == namespace);
            source.cluster_name.as_deref().filter(|_| here)
        }
        // What runs in another namespace is not for this one to know.
        (None, _)
            if elsewhere::namespace_of(spec.backup_namespace.as_deref(), namespace)
                != namespace =>
        {
            None
        }
        (None, Named::There(cluster)) => Some(cluster),
        (None, Named::Absent | Named::Unreadable) => None,
    }
}

/// The spec of the EtcdCluster; otherwise what is waited for.
pub(super) fn spec(seen: &Seen, from: RestoreFrom) -> Result<EtcdClusterSpec, String> {
    if let Some(why) = &seen.withheld {
        return Err(why.clone());
    }
    if let Some(name) = &seen.spec.backup_name {
        match &seen.backup {
            Named::There(_) => {}
            Named::Absent => {
                return Err(format!("there is no EtcdBackup {name} in this namespace"));
            }
            Named::Unreadable => {
                return Err(format!(
                    "EtcdBackup {name} cannot be read: correct its spec"
                ));
            }
        }
    }
    let spec = match (&seen.spec.cluster_template, &seen.original) {
        (Some(template), _) => template.clone(),
        (None, Named::There(original)) => copy(original, seen.spec.source.as_ref()),
        (None, Named::Absent) => EtcdClusterSpec::default(),
        (None, Named::Unreadable) => {
            return Err(
                "the EtcdCluster that was backed up cannot be read: correct its spec, or write spec.clusterTemplate"
                    .to_owned(),
            );
        }
    };
    Ok(EtcdClusterSpec {
        bootstrap: Some(Bootstrap {
            restore: Some(Box::new(from)),
        }),
        ..spec
    })
}

/// As the original is, but it runs where that was stopped, and takes no node port and no name of a load balancer from one
/// that exists: clients outside would reach either of two clusters.
fn copy(original: &Original, source: Option<&BackupLocation>) -> EtcdClusterSpec {
    let meant = source.and_then(|source| source.cluster_id.as_ref());
    let another = meant.is_some_and(|meant| original.id.as_ref() != Some(meant));
    if another {
        return EtcdClusterSpec::default();
    }
    let spec = original.spec.clone();
    EtcdClusterSpec {
        size: spec.size.filter(|size| *size != 0),
        access: None,
        ..spec
    }
}

/// The EtcdCluster. It has no owner, so that it stays where the EtcdRestore is deleted.
pub(super) fn cluster(seen: &Seen, spec: EtcdClusterSpec) -> EtcdCluster {
    let mut cluster = EtcdCluster::new(&seen.spec.cluster_name, spec);
    let made_by = (labels::RESTORE_ANNOTATION.to_owned(), seen.uid.clone());
    cluster.metadata.namespace = Some(seen.namespace.clone());
    cluster.metadata.annotations = Some([made_by].into());
    cluster
}
