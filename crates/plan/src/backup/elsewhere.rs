//! An EtcdBackup that tells another object where backups are, perhaps from another namespace. Only the place is taken from there,
//! and only where the EtcdBackup lists the namespace that asks: names of Secrets and of the service account are those of the one
//! that asks, so that no one chooses for another which credentials are used.

use api::v1alpha1::backup::{EtcdBackup, EtcdBackupSpec, StorageType};
use api::v1alpha1::restore::RestoreFrom;

/// The namespace that is meant. An empty one is as good as none, in objects of the predecessor.
pub fn namespace_of<'a>(written: Option<&'a str>, own: &'a str) -> &'a str {
    written.filter(|it| !it.is_empty()).unwrap_or(own)
}

/// The EtcdBackup, if it may be used from here; otherwise what to do. Of one that does not list us no more is said than of one
/// that does not exist.
pub fn usable<'a>(
    name: &str,
    there: &str,
    own: &str,
    backup: Option<&'a EtcdBackup>,
) -> Result<&'a EtcdBackup, String> {
    if there == own {
        return backup.ok_or_else(|| format!("there is no EtcdBackup {name} in this namespace"));
    }
    let lists = |backup: &&EtcdBackup| backup.spec.allowed_namespaces.iter().any(|it| it == own);
    backup.filter(lists).ok_or_else(|| {
        format!(
            "in namespace {there} there is no EtcdBackup {name} that lists {own} in spec.allowedNamespaces: have that written there, or write source instead of backupName"
        )
    })
}

/// Whether the EtcdBackup that is named may be used from here, and with what; otherwise what to do.
pub fn judge(from: &RestoreFrom, own: &str, backup: Option<&EtcdBackup>) -> Result<(), String> {
    let there = namespace_of(from.backup_namespace.as_deref(), own);
    let name = from.backup_name.as_deref().unwrap_or_default();
    let backup = usable(name, there, own, backup)?;
    location(from, there, own, backup).map(drop)
}

/// An operator that serves some namespaces reads nothing in others.
pub fn unwatched(there: &str) -> String {
    format!(
        "backupNamespace: this operator does not watch namespace {there} (its flag --namespaces), so that it knows no EtcdBackup there: write source instead of backupName"
    )
}

/// Where backups are, with the credentials of the one that asks.
pub(crate) fn location(
    from: &RestoreFrom,
    there: &str,
    own: &str,
    backup: &EtcdBackup,
) -> Result<EtcdBackupSpec, String> {
    let spec = &backup.spec;
    let (secret, account) = (&from.credentials_secret, &from.service_account_name);
    let other = there != own;
    if !other && secret.is_none() && account.is_none() {
        return Ok(spec.clone());
    }
    if spec.storage_type == StorageType::Local {
        return if other {
            Err(format!(
                "the backups of that EtcdBackup are on a PersistentVolumeClaim of namespace {there}, which no Job of another namespace can mount: restore there, or copy them to a bucket or a claim of this namespace and write source instead of backupName"
            ))
        } else {
            Ok(spec.clone())
        };
    }
    if other && secret.is_none() && account.is_none() {
        return Err(
            "no Secret of another namespace is read: write credentialsSecret, the name of a Secret of this namespace with the credentials of the store, or serviceAccountName"
                .to_owned(),
        );
    }
    if other
        && spec
            .s3
            .as_ref()
            .is_some_and(|s3| s3.allow_http == Some(true))
    {
        return Err(format!(
            "the store of that EtcdBackup has allowHTTP, so that the credentials of this namespace would be sent without encryption because an object of namespace {there} says so: write source instead of backupName"
        ));
    }
    let private = spec.s3.as_ref().is_some_and(|s3| s3.ca_secret.is_some());
    if other && private && secret.is_none() {
        return Err(
            "the store has certificate authorities of its own: write credentialsSecret, the name of a Secret of this namespace with its ca.crt"
                .to_owned(),
        );
    }
    Ok(with(spec.clone(), other, secret.as_ref(), account.as_ref()))
}

/// Nothing of another namespace's is left; in the same one only what is said is other.
fn with(
    mut spec: EtcdBackupSpec,
    other: bool,
    secret: Option<&String>,
    account: Option<&String>,
) -> EtcdBackupSpec {
    if other || account.is_some() {
        spec.service_account_name = account.cloned();
    }
    if !other && secret.is_none() {
        return spec;
    }
    if let Some(s3) = &mut spec.s3 {
        s3.access_key_secret = secret.cloned();
        s3.secret_key_secret = secret.cloned();
        s3.ca_secret = s3.ca_secret.as_ref().and(secret).cloned();
    }
    if let Some(gcs) = &mut spec.gcs {
        gcs.credentials_secret = secret.cloned();
    }
    if let Some(azure) = &mut spec.azure {
        azure.credentials_secret = secret.cloned();
    }
    spec
}

#[cfg(test)]
mod tests;
