//! The settings of volumes in a spec.

use super::{DEFAULT_STORAGE, InvalidSpec};
use crate::Quantity;
use crate::v1alpha1::cluster::{ClaimTemplate, Retention, Storage};

/// Largest quota that etcd recommends.
const MAX_QUOTA: u64 = 8 * 1024 * 1024 * 1024;

/// The volume of each member.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageIntent {
    /// Requested size.
    pub size: Quantity,
    /// The same in bytes.
    pub bytes: u64,
    /// Bytes that every volume has by now, which is less than what is requested while claims are expanded. It is not part
    /// of a spec: the caller that parses one adds it; `None` counts as the size requested.
    pub size_in_force: Option<u64>,
    /// Storage class; the default class when absent.
    pub class: Option<String>,
    /// A whole claim to start from.
    pub template: Option<ClaimTemplate>,
    /// What happens to the claims when the cluster is stopped.
    pub when_stopped: Retention,
    /// What happens to the claim of a member that was removed by a scale-in.
    pub when_scaled: Retention,
    /// What happens to the claims with the object.
    pub when_deleted: Retention,
}

impl StorageIntent {
    /// Bytes that every volume has.
    pub fn bytes_in_force(&self) -> u64 {
        self.size_in_force.unwrap_or(self.bytes)
    }
}

pub(super) fn parse(storage: Option<&Storage>) -> Result<StorageIntent, InvalidSpec> {
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
    let policy = storage.claim_policy.unwrap_or_default();
    Ok(StorageIntent {
        size,
        bytes,
        size_in_force: None,
        class: class_of_template.or(storage.storage_class_name),
        template,
        when_stopped: policy.when_stopped,
        when_scaled: policy.when_scaled,
        when_deleted: policy.when_deleted,
    })
}

/// A defragmentation and an incoming snapshot each need a second copy beside the database.
pub(super) fn quota(bytes: u64) -> u64 {
    (bytes / 5).saturating_mul(2).min(MAX_QUOTA)
}
