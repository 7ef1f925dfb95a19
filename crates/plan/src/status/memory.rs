//! The memory as it is written, and what of it is believed when it is read. A person may have edited it: what cannot be
//! true counts as absent, and its witness restores it.

use api::EtcdVersion;
use api::v1alpha1::memory::{
    Admissions, DisturbanceKind, DisturbanceMemory, LineageMemory, MadeAccounts, Memory, Proof,
    Tried,
};
use api::v1alpha1::status::{KnownVoter, TrialIntent};

use super::voters;
use crate::observed::{Disturbance, Latched, Made, OPERATOR, Proven, ROOT, format_id, parse_id};

/// No data starts over so often.
const ABSURD: u64 = 1 << 20;

/// What is remembered, but for the pods in force.
pub(super) fn read(memory: &Memory) -> Latched {
    let lineage = &memory.lineage;
    let incarnation = positive(lineage.incarnation)
        .filter(|incarnation| *incarnation < ABSURD)
        .unwrap_or(1)
        .max(1);
    // A fence is the incarnation of the recovery that raised it, and a recovery never outlives its fence.
    let fence = positive(lineage.fence).filter(|fence| *fence <= incarnation);
    let recovery = lineage.recovery.clone();
    let recovery = recovery.filter(|_| fence == Some(incarnation));
    // While it lasts, the cluster is the one that is recovered.
    let lost = recovery.as_ref().map(|recovery| &recovery.cluster_id);
    let cluster_id = lineage.cluster_id.as_deref().and_then(parse_id);
    let has_id = |voter: &&KnownVoter| parse_id(&voter.member_id).is_some();
    let proven = &memory.proven;
    Latched {
        incarnation,
        bootstrap: lineage.bootstrap.clone(),
        joins: memory.admissions.joins.clone(),
        retiring: memory.leaving.clone(),
        voters: memory.voters.iter().filter(has_id).cloned().collect(),
        learners: voters::read_learners(&memory.admissions.learners),
        cluster_id: cluster_id.or_else(|| parse_id(lost?)),
        resumed: lineage.resumed.unwrap_or(false),
        transport: lineage.transport,
        transport_before: proven.transport_before,
        switches: positive(lineage.switches).unwrap_or(0),
        replicas: None,
        proven: read_proven(proven),
        disturbance: memory.disturbance.as_ref().and_then(read_disturbance),
        log_line: proven.log_minor.and_then(|minor| u8::try_from(minor).ok()),
        storage: positive(proven.storage_bytes),
        ending: lineage.ending.unwrap_or(false),
        fence,
        recovery,
        compacted: positive(memory.tried.compacted_revision),
        hung: memory.tried.hung.clone(),
        called_off: memory.tried.called_off.clone(),
        restore: memory.restore.clone(),
        replace: memory.replace.clone(),
        made: read_made(&memory.accounts),
    }
}

/// The users and the role that the operator needs are never its to delete.
fn read_made(memory: &MadeAccounts) -> Made {
    let own = |name: &&String| *name != ROOT && *name != OPERATOR;
    Made {
        users: memory.users.iter().filter(own).cloned().collect(),
        roles: memory.roles.iter().filter(own).cloned().collect(),
        root_password: memory.root_password == Some(true),
    }
}

/// The same, as it is written into the status of the object with this UID.
pub(super) fn write(latched: &Latched, uid: &str) -> Memory {
    let proven = latched.proven.as_ref();
    Memory {
        object_uid: uid.to_owned(),
        lineage: LineageMemory {
            incarnation: i64::try_from(latched.incarnation).ok(),
            bootstrap: latched.bootstrap.clone(),
            cluster_id: latched.cluster_id.map(format_id),
            resumed: latched.resumed.then_some(true),
            fence: number(latched.fence),
            recovery: latched.recovery.clone(),
            ending: latched.ending.then_some(true),
            // Plaintext goes without saying once there is a cluster.
            transport: latched
                .transport
                .filter(|transport| latched.cluster_id.is_none() || !transport.is_plain()),
            switches: number(Some(latched.switches).filter(|count| *count > 0)),
        },
        disturbance: latched.disturbance.as_ref().map(write_disturbance),
        tried: Tried {
            hung: latched.hung.clone(),
            called_off: latched.called_off.clone(),
            compacted_revision: number(latched.compacted),
        },
        admissions: Admissions {
            joins: latched.joins.clone(),
            learners: voters::write_learners(&latched.learners),
        },
        leaving: latched.retiring.clone(),
        voters: latched.voters.clone(),
        restore: latched.restore.clone(),
        replace: latched.replace.clone(),
        accounts: MadeAccounts {
            users: latched.made.users.iter().cloned().collect(),
            roles: latched.made.roles.iter().cloned().collect(),
            root_password: latched.made.root_password.then_some(true),
        },
        proven: Proof {
            template: proven.map(|it| it.template.clone()).unwrap_or_default(),
            version: proven.map(|it| it.version.to_string()),
            everywhere: proven.map(|it| it.everywhere),
            before: proven.and_then(|it| Some(it.before?.to_string())),
            transport_before: latched.transport_before,
            log_minor: latched.log_line.map(i32::from),
            storage_bytes: number(latched.storage),
        },
    }
}

fn positive(number: Option<i64>) -> Option<u64> {
    number.and_then(|number| u64::try_from(number).ok())
}

fn number(positive: Option<u64>) -> Option<i64> {
    positive.and_then(|positive| i64::try_from(positive).ok())
}

fn read_proven(proven: &Proof) -> Option<Proven> {
    Some(Proven {
        template: proven.template.clone(),
        version: EtcdVersion::parse(proven.version.as_deref()?)?,
        everywhere: proven.everywhere.unwrap_or(false),
        before: proven.before.as_deref().and_then(EtcdVersion::parse),
    })
}

fn read_disturbance(memory: &DisturbanceMemory) -> Option<Disturbance> {
    Some(match memory.kind {
        DisturbanceKind::Trial => Disturbance::Trial(TrialIntent {
            member: memory.member.clone()?,
            template: memory.template.clone()?,
            pod_uid: memory.pod_uid.clone().unwrap_or_default(),
        }),
        DisturbanceKind::Defragment => Disturbance::Defragment {
            member: memory.member.clone()?,
        },
        DisturbanceKind::RenewLogs => Disturbance::RenewLogs,
    })
}

fn write_disturbance(disturbance: &Disturbance) -> DisturbanceMemory {
    let of = |kind, member: Option<&String>| DisturbanceMemory {
        kind,
        member: member.cloned(),
        template: None,
        pod_uid: None,
    };
    match disturbance {
        Disturbance::Trial(trial) => DisturbanceMemory {
            template: Some(trial.template.clone()),
            pod_uid: Some(trial.pod_uid.clone()),
            ..of(DisturbanceKind::Trial, Some(&trial.member))
        },
        Disturbance::Defragment { member } => of(DisturbanceKind::Defragment, Some(member)),
        Disturbance::RenewLogs => of(DisturbanceKind::RenewLogs, None),
    }
}
