//! Which member a backup is read from, and what it must wait for.

use api::conditions::ConditionType;
use api::v1alpha1::backup::BackupRun;
use api::v1alpha1::memory::DisturbanceKind;
use api::v1alpha1::status::{EtcdClusterStatus, Role};
use api::{ClusterIntent, EtcdCluster, Plane, Reason, names};
use archive::work::{Member, Place, Timeline};

use super::Seen;

/// What the status of a cluster says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// UID of the object.
    pub uid: String,
    /// ID of the etcd cluster, once it has formed.
    pub id: Option<String>,
    /// How often its data has started over.
    pub incarnation: u64,
    /// `spec.size` is 0.
    pub stopped: bool,
    /// A quorum serves.
    pub available: bool,
    /// The data of its members differs.
    pub differs: bool,
    /// Clients speak TLS.
    pub tls: bool,
    /// Clients are asked who they are.
    pub auth: bool,
    /// The member that is recorded as being defragmented.
    pub defragmented: Option<String>,
    /// Voters that are ready.
    pub voters: Vec<Voter>,
    /// Its image of etcd; `None` while its spec is not valid.
    pub image: Option<String>,
    /// Secrets with which that is pulled.
    pub pull_secrets: Vec<String>,
}

/// A voter that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// Its name.
    pub name: String,
    /// Its ID.
    pub id: String,
    /// It leads.
    pub leads: bool,
}

impl Cluster {
    /// What is written in the status of this object. One that was restored under another UID tells nothing.
    pub fn of(cluster: &EtcdCluster) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let uid = cluster.metadata.uid.clone().unwrap_or_default();
        let EtcdClusterStatus {
            memory, cluster_id, ..
        } = &status;
        let memory = memory.clone().filter(|memory| memory.object_uid == uid);
        let memory = memory.unwrap_or_default();
        let available = ConditionType::Available.to_string();
        // A database that is full is read as well as any other.
        let full = Reason::NoSpace.to_string();
        let available = status.conditions.iter().any(|condition| {
            condition.type_ == available && (condition.status == "True" || condition.reason == full)
        });
        let differs = Reason::DataInconsistent.to_string();
        let differs = status.conditions.iter().any(|it| it.reason == differs);
        let disturbance = memory.disturbance.as_ref();
        let defragmented = disturbance.filter(|it| it.kind == DisturbanceKind::Defragment);
        let client = memory.lineage.transport.map(|transport| transport.client);
        let voters = status.members.iter().filter_map(|member| {
            let votes = matches!(member.role, Some(Role::Leader | Role::Follower));
            Some(Voter {
                name: member.name.clone(),
                id: member.id.clone().filter(|_| member.ready && votes)?,
                leads: member.role == Some(Role::Leader),
            })
        });
        let intent = ClusterIntent::parse(&cluster.spec).ok();
        let secrets = intent.iter().flat_map(|intent| {
            let secrets = intent.pod.settings.image_pull_secrets.iter();
            secrets.map(|secret| secret.name.clone())
        });
        Self {
            pull_secrets: secrets.collect(),
            image: intent.as_ref().map(ClusterIntent::image_reference),
            id: cluster_id.clone(),
            incarnation: memory
                .lineage
                .incarnation
                .and_then(|it| u64::try_from(it).ok())
                .unwrap_or(1),
            stopped: cluster.spec.size == Some(0),
            available,
            differs,
            tls: client == Some(Plane::Tls),
            auth: status.auth.as_ref().is_some_and(|auth| auth.enabled),
            defragmented: defragmented.and_then(|it| it.member.clone()),
            voters: voters.collect(),
            uid,
        }
    }
}

/// Who is asked, and how.
pub(super) struct Source {
    pub(super) place: Place,
    pub(super) timeline: Timeline,
    pub(super) member: Member,
    pub(super) secret: Option<String>,
}

/// A follower, another one at each attempt; the leader only where it is alone. Otherwise what is waited for.
pub(super) fn choose(seen: &Seen, run: &BackupRun) -> Result<Source, String> {
    let name = &seen.spec.cluster_name;
    let Some(cluster) = &seen.cluster else {
        return Err(format!("there is no EtcdCluster {name} in this namespace"));
    };
    if cluster.stopped {
        return Err(format!(
            "EtcdCluster {name} is stopped: it is backed up once it runs again"
        ));
    }
    let id = cluster.id.as_ref().filter(|_| cluster.available);
    let Some(id) = id else {
        return Err(format!(
            "EtcdCluster {name} has no quorum that serves: see its conditions"
        ));
    };
    if cluster.differs {
        return Err(format!(
            "the data of the members of EtcdCluster {name} differs: it is backed up once it is known whose is right; see its conditions"
        ));
    }
    let secret = secret(seen, cluster)?;
    let followers = cluster.voters.iter().filter(|voter| !voter.leads);
    let mut able: Vec<&Voter> = followers.collect();
    if able.is_empty() {
        able = cluster.voters.iter().collect();
    }
    // Reading it would stall the defragmentation, and with it the member.
    able.retain(|voter| cluster.defragmented.as_ref() != Some(&voter.name));
    let attempt = usize::try_from(run.attempt).unwrap_or(0);
    let chosen = attempt
        .checked_rem(able.len())
        .and_then(|turn| able.get(turn));
    let Some(voter) = chosen else {
        return Err(format!(
            "no member of EtcdCluster {name} can be read now: a follower is away, or is being defragmented"
        ));
    };
    let ordinal = names::ordinal(name, &voter.name)
        .ok_or_else(|| format!("member {} has no ordinal", voter.name))?;
    let host = names::member_host(name, &seen.namespace, ordinal);
    Ok(Source {
        place: Place {
            namespace: seen.namespace.clone(),
            cluster: name.clone(),
            cluster_id: id.clone(),
        },
        timeline: Timeline {
            object: cluster.uid.clone(),
            incarnation: cluster.incarnation,
        },
        member: Member {
            name: voter.name.clone(),
            address: format!("{host}:2379"),
            server_name: cluster.tls.then_some(host),
            id: voter.id.clone(),
        },
        secret,
    })
}

/// The Secret with the certificate that the keeper shows.
fn secret(seen: &Seen, cluster: &Cluster) -> Result<Option<String>, String> {
    let name = &seen.spec.cluster_name;
    match &seen.spec.etcd_user {
        _plain if !cluster.tls => Ok(None),
        Some(user) => Ok(Some(names::user_secret(name, user))),
        None if cluster.auth => Err(format!(
            "EtcdCluster {name} has authentication, and etcd gives a snapshot only to root: create an EtcdUser with certificate: true and roles: [root], and write its name as spec.etcdUser"
        )),
        None => Ok(Some(names::client_secret(name))),
    }
}
