//! Restores: from what was seen of an EtcdRestore and of the EtcdCluster that it makes to one step and a status. Pure, as all
//! rules are. It brings no data itself: the EtcdCluster says what it begins with, and the cluster's own rules see to that. One
//! that replaces data makes nothing: it is read by those rules, and tells how far they are (`in_place.rs`).
//!
//! An EtcdRestore makes one EtcdCluster, once. The annotation on the cluster says who made it, and its UID is in the status
//! from the answer to the create on; a cluster that is recorded is never made again. What cannot be known: whether a cluster
//! was made and deleted where neither is left, because the operator was killed between the create and the next write of the
//! status and the cluster was deleted meanwhile, or because the status was wiped after the cluster was deleted. Both look
//! like a restore that is yet to begin, and the cluster is made.

mod in_place;
mod make;
mod target;
mod tell;

use std::time::Duration;

use api::v1alpha1::restore::{EtcdRestoreSpec, EtcdRestoreStatus, RestorePhase, RestoreType};
use api::{ConditionType, EtcdCluster, EtcdClusterSpec, Reason};
use jiff::Timestamp;

pub use make::{copied_from, from, parse};
pub use target::{State, Target};

/// What was seen of one EtcdRestore.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The clock.
    pub now: Timestamp,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Generation of its spec.
    pub generation: i64,
    /// Its spec.
    pub spec: EtcdRestoreSpec,
    /// Its status.
    pub status: EtcdRestoreStatus,
    /// The EtcdCluster that has the name of the one to be made.
    pub target: Option<Target>,
    /// The EtcdBackup that it names: the name of the EtcdCluster that this backs up.
    pub backup: Named<String>,
    /// Why the EtcdBackup of another namespace cannot be used.
    pub withheld: Option<String>,
    /// The EtcdCluster that was backed up, where its spec is copied.
    pub original: Named<Original>,
    /// The API server rejected the EtcdCluster of this generation a short while ago.
    pub rejected: Option<Rejected>,
}

/// An object that another one names.
#[derive(Clone, Debug, PartialEq)]
pub enum Named<T> {
    /// There is none, or none is named.
    Absent,
    /// There is one that this release cannot read.
    Unreadable,
    /// What is needed of it.
    There(T),
}

/// An EtcdCluster that was backed up.
#[derive(Clone, Debug, PartialEq)]
pub struct Original {
    /// ID of the etcd cluster, hexadecimal, once it has formed.
    pub id: Option<String>,
    /// Its spec.
    pub spec: EtcdClusterSpec,
}

/// A create that the API server rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// In its words.
    pub why: String,
    /// How long until it is tried again.
    pub left: Duration,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing but the status.
    Nothing,
    /// Create this EtcdCluster, once the status is written.
    Create(Box<EtcdCluster>),
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Next {
    /// What is done.
    pub step: Step,
    /// The status as it is to be, before the step is done.
    pub status: EtcdRestoreStatus,
    /// What happened, for an event.
    pub event: Option<(Reason, String)>,
    /// When to look again, at the latest.
    pub requeue: Duration,
}

/// Where nothing is expected to change by itself.
const CALM: Duration = Duration::from_mins(5);
/// Where something else is waited for.
const SOON: Duration = Duration::from_secs(10);
/// Where the cluster is on its way. Only caches are read.
const FOLLOW: Duration = Duration::from_secs(2);

/// What is done next.
pub fn decide(seen: &Seen) -> Next {
    let recorded = seen.status.cluster_uid.as_ref();
    let ours = seen.target.as_ref().filter(|target| match recorded {
        // Another one under that name is not ours, even where the annotation was copied to it.
        Some(uid) => target.uid == *uid,
        None => target.made_by.as_ref() == Some(&seen.uid),
    });
    if seen.status.phase == Some(RestorePhase::Completed) {
        return tell::completed(seen, recorded.is_some() && ours.is_none());
    }
    let made = ours.is_some_and(|target| target.made_by.as_ref() == Some(&seen.uid));
    if seen.spec.restore_type == Some(RestoreType::Replace) && !made {
        return in_place::decide(seen);
    }
    match ours {
        Some(target) => follow(seen, target),
        None if recorded.is_some() => tell::gone(seen),
        None => begin(seen),
    }
}

/// The cluster was made. What the spec says from now on changes nothing of it.
fn follow(seen: &Seen, target: &Target) -> Next {
    let Some(state) = &target.state else {
        let why = "it cannot be read: correct its spec".to_owned();
        return tell::follows(seen, target, (Reason::RestoreWaiting, why));
    };
    match &state.restored {
        _dark if !state.is(ConditionType::Available) => tell::follows(seen, target, state.says()),
        Some(restored) => tell::restored(seen, target, restored),
        None if state.resumed => tell::resumed(seen, target),
        // All there is to tell has been told.
        None if state.is(ConditionType::Ready) => tell::without(seen, target),
        None => {
            let why = "it serves, and does not tell yet what it began with".to_owned();
            tell::follows(seen, target, (Reason::Restoring, why))
        }
    }
}

fn begin(seen: &Seen) -> Next {
    let from = match parse(&seen.spec) {
        Ok(from) => from,
        Err(why) => return tell::fails(seen, why, CALM),
    };
    let name = &seen.spec.cluster_name;
    if seen.target.is_some() {
        let why = format!(
            "EtcdCluster {name} exists already and is left alone: create an EtcdRestore with another clusterName, or delete the EtcdCluster first"
        );
        return tell::fails(seen, why, SOON);
    }
    let spec = match make::spec(seen, from) {
        Ok(spec) => spec,
        Err(why) => return tell::waits(seen, why),
    };
    if let Some(Rejected { why, left }) = &seen.rejected {
        return rejected(seen, why, *left);
    }
    let cluster = make::cluster(seen, spec);
    Next {
        step: Step::Create(Box::new(cluster)),
        ..tell::begins(seen)
    }
}

/// The EtcdCluster was created.
pub fn created(seen: &Seen, uid: &str) -> Next {
    tell::created(seen, uid)
}

/// The API server did not accept the EtcdCluster: told in its words, and tried again after a while.
pub fn rejected(seen: &Seen, why: &str, left: Duration) -> Next {
    let name = &seen.spec.cluster_name;
    let why = format!("EtcdCluster {name} was rejected: {why}");
    tell::fails(seen, why, left)
}
