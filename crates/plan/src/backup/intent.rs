//! What the spec of an EtcdBackup asks for, or why it cannot be had.

use api::v1alpha1::backup::{EtcdBackupSpec, RetentionPolicy, StorageType, Verification};
use archive::schedule::Schedule;
use archive::work::{Keep, Store};

/// A spec that can be carried out.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Where backups go.
    pub store: Store,
    /// When; once, where there is none.
    pub schedule: Option<Schedule>,
    /// Nothing is begun.
    pub suspend: bool,
    /// Which are kept; all of them, where there is none.
    pub keep: Option<Keep>,
    /// With zstd.
    pub compress: bool,
    /// Public keys.
    pub recipients: Vec<String>,
    /// Backups are tried.
    pub verify: Option<VerifyIntent>,
}

/// When backups are tried.
#[derive(Clone, Debug)]
pub struct VerifyIntent {
    /// When; after each backup, where there is none.
    pub schedule: Option<Schedule>,
}

impl Intent {
    /// Reads a spec; otherwise what to write instead.
    pub fn parse(spec: &EtcdBackupSpec, namespace: &str) -> Result<Self, String> {
        let other = spec.cluster_namespace.as_deref();
        if let Some(other) = other.filter(|other| !other.is_empty() && *other != namespace) {
            return Err(format!(
                "spec.clusterNamespace: an EtcdBackup serves clusters of its own namespace, {namespace}: create it in namespace {other}, with allowedNamespaces: [{namespace}] if its backups are to be restored here"
            ));
        }
        let zone = spec.time_zone.as_deref();
        let schedule = schedule("spec.schedule", spec.schedule.as_deref(), zone)?;
        let verify = spec
            .verify
            .as_ref()
            .map(|it| verify(it, zone))
            .transpose()?;
        let encryption = spec.encryption.clone().unwrap_or_default();
        Ok(Self {
            store: store(spec)?,
            schedule,
            suspend: spec.suspend == Some(true),
            keep: keep(spec.retention_policy.as_ref())?,
            compress: spec.compression != Some(false),
            recipients: encryption.recipients,
            verify,
        })
    }
}

fn schedule(
    field: &str,
    text: Option<&str>,
    zone: Option<&str>,
) -> Result<Option<Schedule>, String> {
    let text = text.filter(|text| !text.is_empty());
    let schedule = text.map(|text| Schedule::parse(text, zone));
    let schedule = schedule.transpose();
    schedule.map_err(|error| format!("{field}: {error}"))
}

fn verify(verify: &Verification, zone: Option<&str>) -> Result<VerifyIntent, String> {
    for (field, quantity) in [
        ("scratchSize", &verify.scratch_size),
        ("memoryLimit", &verify.memory_limit),
    ] {
        let Some(written) = quantity else {
            continue;
        };
        if written.value().unwrap_or(0) == 0 {
            return Err(format!(
                "spec.verify.{field} is {:?}: write a quantity such as 10Gi",
                written.0
            ));
        }
    }
    let text = verify.schedule.as_deref();
    Ok(VerifyIntent {
        schedule: schedule("spec.verify.schedule", text, zone)?,
    })
}

/// Where backups of this spec are.
pub(crate) fn store(spec: &EtcdBackupSpec) -> Result<Store, String> {
    let missing = |block: &str, kind: &str| {
        format!("spec.{block} is missing, which says where backups of storageType {kind} go")
    };
    match spec.storage_type {
        StorageType::S3 => {
            let s3 = spec.s3.as_ref().ok_or_else(|| missing("s3", "S3"))?;
            Ok(Store::S3 {
                bucket: s3.bucket.clone(),
                path: path(s3.path.as_deref()),
                region: s3.region.clone(),
                endpoint: s3.endpoint.clone(),
                path_style: s3.path_style.unwrap_or(s3.endpoint.is_some()),
                allow_http: s3.allow_http == Some(true),
                checksum: s3.checksum.is_some(),
            })
        }
        StorageType::Gcs => {
            let gcs = spec.gcs.as_ref().ok_or_else(|| missing("gcs", "GCS"))?;
            Ok(Store::Gcs {
                bucket: gcs.bucket.clone(),
                path: path(gcs.path.as_deref()),
            })
        }
        StorageType::Azure => {
            let azure = spec
                .azure
                .as_ref()
                .ok_or_else(|| missing("azure", "Azure"))?;
            Ok(Store::Azure {
                account: azure.account.clone(),
                container: azure.container.clone(),
                path: path(azure.path.as_deref()),
            })
        }
        StorageType::Local => {
            let local = spec
                .local
                .as_ref()
                .ok_or_else(|| missing("local", "Local"))?;
            Ok(Store::Local {
                path: path(local.path.as_deref()),
            })
        }
    }
}

/// Without slashes at its ends, which the samples of the predecessor have.
fn path(path: Option<&str>) -> String {
    path.unwrap_or_default().trim_matches('/').to_owned()
}

fn keep(policy: Option<&RetentionPolicy>) -> Result<Option<Keep>, String> {
    let Some(policy) = policy else {
        return Ok(None);
    };
    let count = |number: Option<i32>| {
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number > 0)
    };
    let older = policy.keep.clone().unwrap_or_default();
    let age = policy.max_age.as_deref().filter(|age| !age.is_empty());
    let keep = Keep {
        newest: count(policy.max_backups),
        seconds: age.map(seconds).transpose()?,
        daily: count(older.daily),
        weekly: count(older.weekly),
        monthly: count(older.monthly),
        spared: Vec::new(),
    };
    Ok((keep != Keep::default()).then_some(keep))
}

fn seconds(age: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "spec.retentionPolicy.maxAge: {age} is no age: write a number and one of s, m, h, d and w, such as 30d"
        )
    };
    let unit = age.chars().next_back().ok_or_else(bad)?;
    let factor: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _other => return Err(bad()),
    };
    let number = age.strip_suffix(unit).and_then(|text| text.parse().ok());
    let seconds = number.and_then(|number: u64| number.checked_mul(factor));
    seconds.filter(|seconds| *seconds > 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1alpha1::backup::{Keep as Older, S3};

    fn spec() -> EtcdBackupSpec {
        EtcdBackupSpec {
            cluster_name: "c".to_owned(),
            s3: Some(S3 {
                bucket: "b".to_owned(),
                path: Some("etcd-backups/".to_owned()),
                ..S3::default()
            }),
            ..EtcdBackupSpec::default()
        }
    }

    #[test]
    fn the_sample_of_the_predecessor_is_understood() {
        let sample = EtcdBackupSpec {
            schedule: Some("0 2 * * *".to_owned()),
            retention_policy: Some(RetentionPolicy {
                max_backups: Some(30),
                max_age: Some("30d".to_owned()),
                keep: None,
            }),
            compression: Some(true),
            ..spec()
        };
        let intent = Intent::parse(&sample, "ns").unwrap();
        let keep = intent.keep.unwrap();
        assert_eq!((keep.newest, keep.seconds), (Some(30), Some(2_592_000)));
        assert!(intent.compress && intent.schedule.is_some());
        assert!(matches!(intent.store, Store::S3 { path, .. } if path == "etcd-backups"));
    }

    #[test]
    fn zero_backups_and_no_policy_keep_everything() {
        assert_eq!(keep(None), Ok(None));
        let zero = RetentionPolicy {
            max_backups: Some(0),
            keep: Some(Older::default()),
            ..RetentionPolicy::default()
        };
        assert_eq!(keep(Some(&zero)), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_names_its_field() {
        let cases = [
            (
                EtcdBackupSpec {
                    schedule: Some("at night".to_owned()),
                    ..spec()
                },
                "spec.schedule",
            ),
            (
                EtcdBackupSpec {
                    storage_type: StorageType::Local,
                    ..spec()
                },
                "spec.local",
            ),
            (
                EtcdBackupSpec {
                    cluster_namespace: Some("other".to_owned()),
                    ..spec()
                },
                "spec.clusterNamespace",
            ),
            (
                EtcdBackupSpec {
                    retention_policy: Some(RetentionPolicy {
                        max_age: Some("99999999999999999999w".to_owned()),
                        ..RetentionPolicy::default()
                    }),
                    ..spec()
                },
                "spec.retentionPolicy.maxAge",
            ),
            (
                EtcdBackupSpec {
                    verify: Some(Verification {
                        schedule: Some("weekly".to_owned()),
                        ..Verification::default()
                    }),
                    ..spec()
                },
                "spec.verify.schedule",
            ),
            (
                EtcdBackupSpec {
                    verify: Some(Verification {
                        scratch_size: Some(api::Quantity("much".to_owned())),
                        ..Verification::default()
                    }),
                    ..spec()
                },
                "spec.verify.scratchSize",
            ),
        ];
        for (spec, field) in cases {
            let why = Intent::parse(&spec, "ns").unwrap_err();
            assert!(why.starts_with(field), "{why}");
        }
    }
}
