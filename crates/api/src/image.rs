//! Images of etcd: what each flavour looks like inside, in one table, and how a reference to one is written. A new
//! flavour is a variant and its row here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::intent::{DEFAULT_REPOSITORY, InvalidSpec};
use crate::v1alpha1::cluster::EtcdClusterSpec;
use crate::{EtcdVersion, names};

/// Layout of the image. When absent it is derived from the repository: `Bitnami` if that contains `bitnami`, else
/// `Official`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Flavour {
    /// etcd's own releases and mirrors of them.
    Official,
    /// Bitnami's.
    Bitnami,
}

/// When the kubelet pulls the image; the default of Kubernetes when absent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum PullPolicy {
    /// At every start of a pod.
    Always,
    /// When the node does not have it.
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

/// Contents of an image of a flavour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Path of etcd.
    pub binary: &'static str,
    /// User and group that the image is made for.
    pub user: i64,
    /// Prefix of a version in a tag.
    tag_prefix: &'static str,
}

impl Flavour {
    /// The table.
    pub fn layout(self) -> Layout {
        match self {
            Self::Official => Layout {
                binary: "/usr/local/bin/etcd",
                user: 65532,
                tag_prefix: "v",
            },
            Self::Bitnami => Layout {
                binary: "/opt/bitnami/etcd/bin/etcd",
                user: 1001,
                tag_prefix: "",
            },
        }
    }

    /// Environment that the image's own scripts expect, if one is called in a pod: our entrypoint is not theirs.
    pub fn environment(self, cluster: &str, namespace: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::Official => Vec::new(),
            Self::Bitnami => vec![
                ("ALLOW_NONE_AUTHENTICATION", "yes".to_owned()),
                ("ETCD_ROOT_PASSWORD", String::new()),
                ("ETCD_ON_K8S", "yes".to_owned()),
                (
                    "ETCD_CLUSTER_DOMAIN",
                    format!("{}.{namespace}.svc", names::peer_service(cluster)),
                ),
                ("MY_STS_NAME", cluster.to_owned()),
            ],
        }
    }

    fn of_repository(repository: &str) -> Self {
        if repository.contains("bitnami") {
            Self::Bitnami
        } else {
            Self::Official
        }
    }
}

/// The image to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageIntent {
    /// Repository, without a tag.
    pub repository: String,
    /// What is inside.
    pub flavour: Flavour,
    /// A tag that does not follow from the version.
    pub tag: Option<String>,
    /// This very image.
    pub digest: Option<String>,
    /// When the kubelet pulls; its own rule when absent.
    pub pull_policy: Option<PullPolicy>,
}

impl ImageIntent {
    /// Reads a spec.
    pub(crate) fn parse(spec: &EtcdClusterSpec) -> Result<Self, InvalidSpec> {
        let repository = spec.repository.as_deref().unwrap_or(DEFAULT_REPOSITORY);
        let image = spec.image.clone().unwrap_or_default();
        // Its tags have a suffix (3.6.5-0) that does not follow from the version.
        let has_implied_tags = !repository.starts_with("registry.k8s.io/");
        if !has_implied_tags && image.tag.is_none() && image.digest.is_none() {
            return Err(InvalidSpec::ImageTag(repository.to_owned()));
        }
        Ok(Self {
            flavour: image
                .flavour
                .unwrap_or_else(|| Flavour::of_repository(repository)),
            repository: repository.to_owned(),
            tag: image.tag,
            digest: image.digest,
            pull_policy: image.pull_policy,
        })
    }

    /// The image is pinned by a tag or a digest.
    pub fn is_pinned(&self) -> bool {
        self.tag.is_some() || self.digest.is_some()
    }

    /// The reference for a release. Where there are a tag and a digest, the digest decides and the tag is for people.
    pub fn reference(&self, version: EtcdVersion) -> String {
        let repository = &self.repository;
        match (&self.tag, &self.digest) {
            (Some(tag), Some(digest)) => format!("{repository}:{tag}@{digest}"),
            (None, Some(digest)) => format!("{repository}@{digest}"),
            (Some(tag), None) => format!("{repository}:{tag}"),
            (None, None) => format!("{repository}:{}{version}", self.flavour.layout().tag_prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(json: &str) -> Result<ImageIntent, InvalidSpec> {
        ImageIntent::parse(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn references_take_the_form_of_their_registry_and_pins_win() {
        let version = EtcdVersion::parse("3.6.16").unwrap();
        for (spec, reference) in [
            ("{}", "quay.io/coreos/etcd:v3.6.16"),
            (r#"{"repository":"bitnami/etcd"}"#, "bitnami/etcd:3.6.16"),
            (
                r#"{"repository":"mirror.example/bitnamilegacy/etcd","image":{"flavour":"Official"}}"#,
                "mirror.example/bitnamilegacy/etcd:v3.6.16",
            ),
            (
                r#"{"repository":"mirror.example/etcd","image":{"flavour":"Bitnami"}}"#,
                "mirror.example/etcd:3.6.16",
            ),
            (
                r#"{"repository":"registry.k8s.io/etcd","image":{"tag":"3.6.16-0"}}"#,
                "registry.k8s.io/etcd:3.6.16-0",
            ),
            (
                r#"{"image":{"digest":"sha256:ab"}}"#,
                "quay.io/coreos/etcd@sha256:ab",
            ),
            (
                r#"{"image":{"tag":"v3.6.16","digest":"sha256:ab"}}"#,
                "quay.io/coreos/etcd:v3.6.16@sha256:ab",
            ),
        ] {
            assert_eq!(image(spec).unwrap().reference(version), reference, "{spec}");
        }
    }

    #[test]
    fn tags_that_no_version_implies_must_be_written() {
        assert_eq!(
            image(r#"{"repository":"registry.k8s.io/etcd"}"#),
            Err(InvalidSpec::ImageTag("registry.k8s.io/etcd".into()))
        );
    }

    #[test]
    fn bitnami_gets_what_its_scripts_expect() {
        let image = image(r#"{"repository":"docker.io/bitnami/etcd"}"#).unwrap();
        assert_eq!(image.flavour.layout().user, 1001);
        let environment = image.flavour.environment("c", "ns");
        assert!(environment.contains(&("ETCD_CLUSTER_DOMAIN", "c-peer.ns.svc".to_owned())));
        assert!(Flavour::Official.environment("c", "ns").is_empty());
    }
}
