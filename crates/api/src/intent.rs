//! Parse, don't validate: a spec becomes a [`ClusterIntent`] or a sentence that says why not. The
//! API server has rejected most invalid specs already ([`crate::rules`]); what was stored before those rules
//! existed is validated here.

mod maintenance;
mod pod;
mod security;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::image::ImageIntent;
use crate::v1alpha1::access::Access;
use crate::v1alpha1::cluster::{Debug, EtcdClusterSpec, OnEverythingLost, OnQuorumLoss, Resources};
use crate::v1alpha1::etcd::Etcd;
use crate::v1alpha1::restore::{Bootstrap, RestoreFrom};
use crate::v1alpha1::security::NetworkPolicySettings;
use crate::{EtcdVersion, Quantity};

pub use maintenance::{DailyWindow, MaintenanceIntent};
pub use pod::PodIntent;
pub use security::{DEFAULT_LEAF_LIFETIME, Issuer, Source, TlsIntent};
pub use storage::StorageIntent;

/// Repository of the official image.
pub const DEFAULT_REPOSITORY: &str = "quay.io/coreos/etcd";
/// Default size of a volume.
pub const DEFAULT_STORAGE: &str = "10Gi";
/// Default number of members.
pub const DEFAULT_SIZE: u32 = 3;
/// Default seconds for which a node may be NotReady: as long as Kubernetes itself leaves pods on it.
pub const DEFAULT_NODE_PATIENCE: i64 = 300;
/// Default seconds without progress of a joining member.
pub const DEFAULT_JOIN_PATIENCE: i64 = 600;
/// Largest number of members.
pub const MAX_SIZE: u32 = 9;

/// A valid spec. Fields whose default may change with a release of the operator stay as they were written, so that
/// [`ClusterIntent`] is what the user wants and not how it is rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterIntent {
    /// Members; 0 is stopped.
    pub size: u32,
    /// Release to run.
    pub version: EtcdVersion,
    /// Image to run.
    pub image: ImageIntent,
    /// Volume of each member.
    pub storage: StorageIntent,
    /// Requests and limits of the etcd container, as they were written; see [`ClusterIntent::requests`].
    pub resources: Resources,
    /// TLS.
    pub tls: TlsIntent,
    /// Who may connect; absent unless it is switched on.
    pub network_policy: Option<NetworkPolicySettings>,
    /// Authentication is to be on, or off; `None` where it is left as it is.
    pub auth: Option<bool>,
    /// The Secret with the password of etcd's user root.
    pub root_password: Option<String>,
    /// Settings of etcd, as they were written.
    pub etcd: Etcd,
    /// Settings of the pods; shared, because intents are copied with every reconcile.
    pub pod: Arc<PodIntent>,
    /// How clients outside reach the cluster, as it was written.
    pub access: Access,
    /// A container with tools beside etcd; absent unless it is switched on.
    pub debug: Option<Debug>,
    /// Another release may be reached through intermediate releases.
    pub allow_intermediate: bool,
    /// Seconds for which a node may be NotReady before its member is replaced.
    pub node_patience: i64,
    /// Seconds for which a joining member may make no progress before it is replaced.
    pub join_patience: i64,
    /// Who decides when quorum is permanently lost.
    pub on_quorum_loss: OnQuorumLoss,
    /// Who decides when no member has data any more.
    pub on_everything_lost: OnEverythingLost,
    /// Defragmentation and compaction.
    pub maintenance: MaintenanceIntent,
    /// The backup that the cluster begins with, as it was written; absent where it begins empty.
    pub restore: Option<Arc<RestoreFrom>>,
    /// The last request to restart every member. It comes from an annotation of the object and not from its spec, so the
    /// caller that parses a spec adds it.
    pub restarted_at: Option<String>,
}

/// Why a spec is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidSpec {
    /// Size.
    #[error("spec.size is {0}: write 0 (stopped) or an odd number from 1 to 9")]
    Size(i32),
    /// Version.
    #[error("spec.version is {0:?}: write a release of etcd 3.5, 3.6 or 3.7, such as v3.6.16")]
    Version(String),
    /// A tag that cannot be known.
    #[error(
        "spec.repository is {0:?}, whose tags do not follow from spec.version: write spec.image.tag, such as 3.6.16-0, or spec.image.digest"
    )]
    ImageTag(String),
    /// Storage size.
    #[error("spec.storage.size is {0:?}: write a quantity such as 10Gi")]
    StorageSize(String),
    /// Maintenance window.
    #[error(
        "spec.maintenance.window is {0:?}: write a start such as 02:00, in UTC, and 1 to 24 hours"
    )]
    Window(String),
    /// Another quantity.
    #[error("spec.etcd.{field} is {text:?}: write a quantity such as 2Gi")]
    Quantity {
        /// Where.
        field: &'static str,
        /// What was written.
        text: String,
    },
    /// A volume or a container that Kubernetes would not understand.
    #[error("{field} {name:?} cannot be used: {why}: write it as a pod has it")]
    Item {
        /// Which list.
        field: &'static str,
        /// Which of it.
        name: String,
        /// Why not.
        why: String,
    },
}

impl ClusterIntent {
    /// Reads a spec.
    pub fn parse(spec: &EtcdClusterSpec) -> Result<Self, InvalidSpec> {
        let version = parse_version(spec.version.as_deref())?;
        let upgrade = spec.upgrade.clone().unwrap_or_default();
        let recovery = spec.recovery.clone().unwrap_or_default();
        Ok(Self {
            size: parse_size(spec.size)?,
            version,
            image: ImageIntent::parse(spec)?,
            storage: storage::parse(spec.storage.as_ref())?,
            resources: spec.resources.clone().unwrap_or_default(),
            tls: security::parse(spec.security.as_ref()),
            network_policy: parse_network_policy(spec),
            auth: security::parse_auth(spec.security.as_ref()),
            root_password: security::parse_root_password(spec.security.as_ref()),
            etcd: parse_etcd(spec.etcd.as_ref())?,
            pod: Arc::new(pod::parse(spec.pod.as_ref())?),
            access: spec.access.clone().unwrap_or_default(),
            debug: spec.debug.clone().filter(|debug| debug.enabled),
            allow_intermediate: upgrade.allow_intermediate,
            node_patience: recovery
                .node_patience_seconds
                .map_or(DEFAULT_NODE_PATIENCE, i64::from),
            join_patience: recovery
                .join_patience_seconds
                .map_or(DEFAULT_JOIN_PATIENCE, i64::from),
            on_quorum_loss: recovery.on_quorum_loss.unwrap_or_default(),
            on_everything_lost: recovery.on_everything_lost.unwrap_or_default(),
            maintenance: maintenance::parse(spec.maintenance.as_ref())?,
            restore: parse_restore(spec.bootstrap.as_ref()),
            restarted_at: None,
        })
    }

    /// The image to run, as a pod names it.
    pub fn image_reference(&self) -> String {
        self.image.reference(self.version)
    }

    /// The same on another release; `None` where the image is pinned.
    pub fn at_version(&self, version: EtcdVersion) -> Option<Self> {
        let same = version == self.version || !self.image.is_pinned();
        same.then(|| Self {
            version,
            ..self.clone()
        })
    }

    /// Resource requests of the etcd container, or their defaults.
    pub fn requests(&self) -> BTreeMap<String, Quantity> {
        if self.resources.requests.is_empty() && self.resources.limits.is_empty() {
            default_requests()
        } else {
            self.resources.requests.clone()
        }
    }

    /// etcd's quota in bytes, in effect now.
    pub fn quota(&self) -> u64 {
        self.quota_for(self.storage.bytes_in_force())
    }

    /// etcd's quota in bytes for volumes of this size; a quota in the spec takes precedence.
    pub fn quota_for(&self, bytes: u64) -> u64 {
        let written = self.etcd.quota_backend_bytes.as_ref();
        written
            .and_then(Quantity::value)
            .unwrap_or_else(|| storage::quota(bytes))
    }
}

fn parse_network_policy(spec: &EtcdClusterSpec) -> Option<NetworkPolicySettings> {
    let settings = spec.security.as_ref()?.network_policy.clone()?;
    settings.enabled.unwrap_or(true).then_some(settings)
}

/// Whether it can be had, only a look at other objects tells.
fn parse_restore(bootstrap: Option<&Bootstrap>) -> Option<Arc<RestoreFrom>> {
    let restore = bootstrap?.restore.clone()?;
    Some(restore.into())
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

fn parse_etcd(etcd: Option<&Etcd>) -> Result<Etcd, InvalidSpec> {
    let etcd = etcd.cloned().unwrap_or_default();
    for (field, written) in [
        ("quotaBackendBytes", &etcd.quota_backend_bytes),
        ("maxRequestBytes", &etcd.max_request_bytes),
    ] {
        if let Some(quantity) = written
            .as_ref()
            .filter(|quantity| quantity.value().is_none())
        {
            let text = quantity.to_string();
            return Err(InvalidSpec::Quantity { field, text });
        }
    }
    Ok(etcd)
}

fn default_requests() -> BTreeMap<String, Quantity> {
    [("cpu", "100m"), ("memory", "128Mi")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into()
}
