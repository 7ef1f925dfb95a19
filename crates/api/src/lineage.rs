//! Which data a claim belongs to: the part of the memory that decides over data, recorded on every claim before it is
//! needed. It travels with the volumes, so that a wiped or outdated status can be restored from it.

use serde::{Deserialize, Serialize};

use crate::transport::Transport;
use crate::v1alpha1::memory::{ReplaceMemory, RestoreMemory};
use crate::v1alpha1::status::{BootstrapIntent, RecoveryIntent};

/// Where the data of a cluster comes from. The value of the annotation `etcd.etcd.io/lineage`, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    /// How often the data has started over, from 1.
    pub incarnation: u64,
    /// The member that may bootstrap the cluster; only on its own claim, until the cluster has formed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapIntent>,
    /// ID of the etcd cluster, hexadecimal, once it has formed.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// The data was resumed from the volumes of a deleted object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Data of an earlier incarnation than this is held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// A recovery from lost quorum in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryIntent>,
    /// Which planes speak TLS; absent for plaintext. Members that were stopped find each other again only as they were
    /// listed.
    #[serde(default, skip_serializing_if = "Transport::is_plain")]
    pub transport: Transport,
    /// How often another transport was proven since the cluster was bootstrapped: of two records the later one is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub switches: u64,
    /// The backup that the cluster begins, or began, with; only on the claim to which it was brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Box<RestoreMemory>>,
    /// A backup that is to take the place of the data, or did so last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<Box<ReplaceMemory>>,
    /// The release of etcd that wrote the data, once the cluster has formed: another one may not be able to read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Lineage {
    /// Of two that were recorded at different times the later one has the higher rank: the incarnation only rises, and
    /// within one a cluster is bootstrapped or recovered, and then has formed; from there on its transport is switched, and a backup takes the
    /// place of its data.
    pub fn rank(&self) -> (u64, u8, u64, i64) {
        let stage = match (&self.recovery, &self.cluster_id, &self.bootstrap) {
            (None, Some(_), _) => 4,
            (Some(recovery), ..) if recovery.survivor.is_some() => 3,
            (Some(_), ..) => 2,
            (None, None, Some(_)) => 1,
            (None, None, None) => 0,
        };
        let record = self.replace.as_ref().map_or(0, |replace| replace.record);
        (self.incarnation, stage, self.switches, record)
    }

    /// As it is written on a claim.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As it is read from a claim; `None` for what no version of this operator wrote.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Plane;
    use crate::v1alpha1::status::Survivor;

    #[test]
    fn what_was_written_later_ranks_higher() {
        let began = Lineage {
            incarnation: 1,
            ..Lineage::default()
        };
        let formed = Lineage {
            cluster_id: Some("a".to_owned()),
            ..began.clone()
        };
        let recovers = |survivor| Lineage {
            incarnation: 2,
            fence: Some(2),
            recovery: Some(RecoveryIntent {
                cluster_id: "a".to_owned(),
                survivor,
                excused: Vec::new(),
            }),
            ..formed.clone()
        };
        let chosen = Survivor {
            member: "db-0".to_owned(),
            claim_uid: "uid".to_owned(),
        };
        let continues = Lineage {
            cluster_id: Some("b".to_owned()),
            recovery: None,
            ..recovers(None)
        };
        let switched = Lineage {
            transport: Transport {
                client: Plane::Both,
                peer: Plane::Plain,
            },
            switches: 1,
            ..formed.clone()
        };
        let replaced = Lineage {
            replace: Some(Box::new(ReplaceMemory {
                record: 1,
                ..ReplaceMemory::default()
            })),
            ..formed.clone()
        };
        let all = [
            began,
            formed.clone(),
            replaced,
            switched,
            recovers(None),
            recovers(Some(chosen)),
            continues,
        ];
        assert!(
            all.iter()
                .map(Lineage::rank)
                .is_sorted_by(|one, next| one < next)
        );
        for lineage in all {
            assert_eq!(Lineage::parse(&lineage.to_text()), Some(lineage));
        }
        assert_eq!(Lineage::parse("nonsense"), None);
    }
}
