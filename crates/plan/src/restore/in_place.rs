//! `restoreType: Replace`. Nothing is done here: the cluster's own rules look for the EtcdRestore that names it. What they have
//! come to, and what is missing before they begin, is told.

use api::Reason;
use api::conditions::ConditionType;
use api::v1alpha1::memory::{ReplaceMemory, ReplaceStage};

use super::target::{State, Target};
use super::{CALM, FOLLOW, Next, Seen, make, tell};

pub(super) fn decide(seen: &Seen) -> Next {
    if let Err(why) = make::parse(&seen.spec) {
        return tell::fails(seen, why, CALM);
    }
    let name = &seen.spec.cluster_name;
    let Some(target) = &seen.target else {
        let why = format!(
            "there is no EtcdCluster {name} in this namespace whose data could be replaced: with restoreType New one is created"
        );
        return tell::waits(seen, why);
    };
    let Some(state) = &target.state else {
        let why = format!("EtcdCluster {name} cannot be read: correct its spec");
        return tell::waits(seen, why);
    };
    match &state.replace {
        Some(replace) if replace.by == seen.uid => mine(seen, (target, state), replace),
        Some(replace) if replace.ended.contains(&seen.uid) => over(seen, target, None),
        other => not_begun(seen, state, other.as_ref()),
    }
}

/// It is being carried out, or was.
fn mine(seen: &Seen, (target, state): (&Target, &State), replace: &ReplaceMemory) -> Next {
    let member = replace.seed.as_ref().map(|seed| seed.member.as_str());
    let member = member.unwrap_or_default();
    let says = || {
        let (reason, why) = state.says();
        let reason = match reason {
            Reason::RestoreBlocked => reason,
            _other => Reason::Restoring,
        };
        (reason, why)
    };
    match (replace.stage, &replace.failure) {
        (ReplaceStage::Checking, Some(why)) => {
            let why = format!("it serves on, and its data is not replaced: {why}");
            tell::follows(seen, target, (Reason::RestoreBlocked, why))
        }
        (ReplaceStage::Checking, None) => {
            let why = "step 1 of 4: the backup is read, and nothing is touched; next, all members are stopped".to_owned();
            tell::follows(seen, target, (Reason::Restoring, why))
        }
        (ReplaceStage::Fetching, _) => {
            let (reason, why) = says();
            let why = format!(
                "step 2 of 4: all members are stopped, and the backup is brought to the volume of {member} ({why}); next, that member begins with it. To call this off, delete this EtcdRestore"
            );
            tell::follows(seen, target, (reason, why))
        }
        (ReplaceStage::Bootstrapping, _) => {
            let (reason, why) = says();
            let why = format!(
                "step 3 of 4: {member} begins with the backup ({why}); next, the others join it. This cannot be called off any more"
            );
            tell::follows(seen, target, (reason, why))
        }
        (ReplaceStage::Ended, Some(why)) => over(seen, target, Some(why)),
        (ReplaceStage::Ended, None) => match &state.restored {
            Some(restored) if state.is(ConditionType::Available) => {
                tell::restored(seen, target, restored)
            }
            Some(_) | None => {
                let (reason, why) = says();
                let why = format!("step 4 of 4: the others join ({why})");
                tell::follows(seen, target, (reason, why))
            }
        },
    }
}

fn over(seen: &Seen, target: &Target, why: Option<&String>) -> Next {
    let why = why.map_or("its data was not replaced", String::as_str);
    let why = format!(
        "EtcdCluster {}: {why}. This EtcdRestore is not carried out once more: create another one to try again",
        seen.spec.cluster_name
    );
    tell::of(target, tell::fails(seen, why, CALM))
}

/// What is missing before it begins.
fn not_begun(seen: &Seen, state: &State, other: Option<&ReplaceMemory>) -> Next {
    let cluster = &seen.spec.cluster_name;
    let Some(id) = &state.cluster_id else {
        let why = format!("EtcdCluster {cluster} has not formed yet: it has no data to replace");
        return tell::waits(seen, why);
    };
    let Some(named) = &seen.spec.replaces else {
        let (name, namespace) = (&seen.name, &seen.namespace);
        let why = format!(
            "nothing is touched before spec.replaces names the data that makes way, that of etcd cluster {id}: kubectl patch etcdrestore {name} --namespace {namespace} --type merge --patch '{{\"spec\":{{\"replaces\":\"{id}\"}}}}'"
        );
        return tell::waits(seen, why);
    };
    if named.trim_start_matches('0') != id.trim_start_matches('0') {
        let why = format!(
            "spec.replaces names etcd cluster {named}, and EtcdCluster {cluster} is etcd cluster {id}: nothing is touched. To replace that, create another EtcdRestore with replaces: {id}"
        );
        return tell::waits(seen, why);
    }
    let going = other.filter(|other| other.stage != ReplaceStage::Ended);
    if let Some(other) = going {
        let why = format!(
            "{} is replacing the data of EtcdCluster {cluster}; once it has, that is another etcd cluster than the one that spec.replaces names",
            other.who()
        );
        return tell::waits(seen, why);
    }
    let why = format!("it is the turn of EtcdCluster {cluster}, which looks every ten seconds");
    Next {
        requeue: FOLLOW,
        ..tell::waits(seen, why)
    }
}
