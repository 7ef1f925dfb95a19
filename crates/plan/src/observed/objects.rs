//! The objects of a cluster, as they are.

use manifests::Kind;

use super::{Refused, Wish};

/// The objects that should exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Replicas of the live StatefulSet, if there is one.
    pub replicas: Option<u32>,
    /// Pods that the StatefulSet controller counts; `None` where it has not seen the StatefulSet as it is now.
    pub created: Option<u32>,
    /// Hash of the template in the live StatefulSet; empty for what an earlier operator left.
    pub template: Option<String>,
    /// Data of an earlier incarnation than this is held back in pods that the live StatefulSet makes.
    pub fence: Option<u64>,
    /// Quota in bytes that the template of the live StatefulSet gives to etcd.
    pub quota: Option<u64>,
    /// Hash of the template that is kept beside it while another one is tried.
    pub kept_template: Option<String>,
    /// Requested size in the claim template of the live StatefulSet, in bytes.
    pub claim_template: Option<u64>,
    /// UID of the live StatefulSet.
    pub set_uid: Option<String>,
    /// The StatefulSet is being deleted.
    pub set_terminating: bool,
    /// The live StatefulSet is one that an earlier operator made.
    pub predecessor: bool,
    /// Our Service for clients exists. It is made only once the cluster ID is latched, so it remembers that
    /// the cluster had formed even when the status no longer does.
    pub client_service: bool,
    /// Objects and claims that an earlier object of this name still owns.
    pub former: Vec<String>,
    /// Pods of our names that belong to another owner.
    pub foreign: Vec<String>,
    /// Objects that are missing or not as they should be, with what differs, and may be written now.
    pub drifted: Vec<Wish>,
    /// Objects that were written in vain.
    pub refused: Vec<Refused>,
    /// Those that differ and may not be tried yet. One predicate for the rule that writes and for what is written.
    pub held: Vec<(Kind, String)>,
}
