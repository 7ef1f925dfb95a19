//! Parse, don't validate: a spec becomes a [`ClusterIntent`] or a sentence that says why not. The
//! API server has refused most nonsense already ([`crate::rules`]); what was stored before those rules
//! existed is judged here.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::v1alpha1::cluster::{ClaimTemplate, EtcdClusterSpec, Retention, Storage};
use crate::{EtcdVersion, Quantity};

/// Repository of the official image.
pub const DEFAULT_REPOSITORY: &str = "quay.io/coreos/etcd";
/// Size of a volume when nothing is said.
pub const DEFAULT_STORAGE: &str = "10Gi";
/// Members when nothing is said.
pub const DEFAULT_SIZE: u32 = 3;
/// Most members we run.
pub const MAX_SIZE: u32 = 9;
/// Largest quota that etcd recommends.
const MAX_QUOTA: u64 = 8 * 1024 * 1024 * 1024;

/// A spec that makes sense, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterIntent {
    /// Members; 0 is stopped.
    pub size: u32,
    /// Release to run.
    pub version: EtcdVersion,
    /// Image to run.
    pub image: String,
    /// Volume of each member.
    pub storage: StorageIntent,
    /// Requests of the etcd container.
    pub requests: BTreeMap<String, Quantity>,
    /// Limits of the etcd container.
    pub limits: BTreeMap<String, Quantity>,
}

/// The volume of each member.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageIntent {
    /// Requested size.
    pub size: Quantity,
    /// Storage class; the default class when absent.
    pub class: Option<String>,
    /// A whole claim to start from.
    pub template: Option<ClaimTemplate>,
    /// What happens to the claims with the object.
    pub when_deleted: Retention,
    /// etcd's backend quota in bytes.
    pub quota: u64,
}

/// Why a spec makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidSpec {
    /// Size.
    #[error("spec.size is {0}: write 0 (stopped) or an odd number from 1 to 9")]
    Size(i32),
    /// Version.
    #[error("spec.version is {0:?}: write a release of etcd 3.5, 3.6 or 3.7, such as v3.6.16")]
    Version(String),
    /// Storage size.
    #[error("spec.storage.size is {0:?}: write a quantity such as 10Gi")]
    StorageSize(String),
}

impl ClusterIntent {
    /// Reads a spec.
    pub fn parse(spec: &EtcdClusterSpec) -> Result<Self, InvalidSpec> {
        let version = parse_version(spec.version.as_deref())?;
        let repository = spec.repository.as_deref().unwrap_or(DEFAULT_REPOSITORY);
        let resources = spec.resources.clone().unwrap_or_default();
        let requests = if resources.requests.is_empty() && resources.limits.is_empty() {
            default_requests()
        } else {
            resources.requests
        };
        Ok(Self {
            size: parse_size(spec.size)?,
            version,
            image: image(repository, version),
            storage: parse_storage(spec.storage.as_ref())?,
            requests,
            limits: resources.limits,
        })
    }
}

fn parse_size(size: Option<i32>) -> Result<u32, InvalidSpec> {
    let Some(written) = size else {
        return Ok(DEFAULT_SIZE);
    };
    let size = u32::try_from(written).map_err(|_negative| InvalidSpec::Size(written))?;
    if size == 0 || (size <= MAX_SIZE && size % 2 == 1) {
        Ok(size)
    } else {
        Err(InvalidSpec::Size(written))
    }
}

fn parse_version(version: Option<&str>) -> Result<EtcdVersion, InvalidSpec> {
    let Some(written) = version else {
        return Ok(EtcdVersion::DEFAULT);
    };
    EtcdVersion::parse(written)
        .filter(|version| EtcdVersion::SUPPORTED_MINORS.contains(&version.minor))
        .ok_or_else(|| InvalidSpec::Version(written.to_owned()))
}

fn parse_storage(storage: Option<&Storage>) -> Result<StorageIntent, InvalidSpec> {
    let storage = storage.cloned().unwrap_or_default();
    let template = storage.volume_claim_template;
    let of_template = template
        .as_ref()
        .and_then(|template| template.spec.resources.as_ref())
        .and_then(|resources| resources.requests.get("storage").cloned());
    // The predecessor stored `0` in every object that left the size out.
    let size = of_template
        .or(storage.size)
        .filter(|size| size.value() != Some(0))
        .unwrap_or_else(|| Quantity(DEFAULT_STORAGE.into()));
    let bytes = size
        .value()
        .ok_or_else(|| InvalidSpec::StorageSize(size.to_string()))?;
    let class_of_template = template
        .as_ref()
        .and_then(|t| t.spec.storage_class_name.clone());
    Ok(StorageIntent {
        class: class_of_template.or(storage.storage_class_name),
        template,
        when_deleted: storage.claim_policy.unwrap_or_default().when_deleted,
        // A defragmentation and an incoming snapshot each need a second copy beside the database.
        quota: (bytes / 5).saturating_mul(2).min(MAX_QUOTA),
        size,
    })
}

/// Official tags carry a `v`.
fn image(repository: &str, version: EtcdVersion) -> String {
    format!("{repository}:v{version}")
}

fn default_requests() -> BTreeMap<String, Quantity> {
    [("cpu", "100m"), ("memory", "128Mi")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<ClusterIntent, InvalidSpec> {
        ClusterIntent::parse(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn an_empty_spec_gets_every_default() {
        let intent = parse("{}").unwrap();
        assert_eq!(intent.size, 3);
        assert_eq!(intent.image, "quay.io/coreos/etcd:v3.5.35");
        assert_eq!(intent.storage.size.0, "10Gi");
        assert_eq!(intent.storage.quota, 4 * 1024 * 1024 * 1024);
        assert_eq!(intent.requests["memory"].0, "128Mi");
    }

    #[test]
    fn both_spellings_of_a_version_give_the_tag_with_a_v() {
        assert_eq!(
            parse(r#"{"version":"3.5.21"}"#).unwrap().image,
            "quay.io/coreos/etcd:v3.5.21"
        );
        assert_eq!(
            parse(r#"{"version":"v3.5.21"}"#).unwrap().image,
            "quay.io/coreos/etcd:v3.5.21"
        );
    }

    #[test]
    fn a_stored_storage_size_of_zero_means_the_default() {
        assert_eq!(
            parse(r#"{"storage":{"size":"0"}}"#).unwrap().storage.size.0,
            "10Gi"
        );
    }

    #[test]
    fn what_the_claim_template_says_wins() {
        let intent = parse(
            r#"{"storage":{"size":"10Gi","volumeClaimTemplate":{"spec":
                {"storageClassName":"fast","resources":{"requests":{"storage":"2Gi"}}}}}}"#,
        )
        .unwrap();
        assert_eq!(
            (
                intent.storage.size.0.as_str(),
                intent.storage.class.as_deref()
            ),
            ("2Gi", Some("fast"))
        );
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(parse(r#"{"size":4}"#), Err(InvalidSpec::Size(4)));
        assert_eq!(parse(r#"{"size":-1}"#), Err(InvalidSpec::Size(-1)));
        assert_eq!(parse(r#"{"size":11}"#), Err(InvalidSpec::Size(11)));
        assert_eq!(
            parse(r#"{"version":"3.4.1"}"#),
            Err(InvalidSpec::Version("3.4.1".into()))
        );
        assert_eq!(
            parse(r#"{"storage":{"size":"lots"}}"#),
            Err(InvalidSpec::StorageSize("lots".into()))
        );
    }
}
