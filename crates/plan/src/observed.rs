//! What we may know about a cluster at one moment: one plain value. A fact that could not be read is
//! `Unknown`, never a guess.

mod auth;
mod backups;
mod certificates;
mod change;
mod describe;
mod disturbance;
mod failed;
mod id;
mod joining;
mod leaving;
mod list;
mod memory;
mod missing;
mod node_binding;
mod objects;
mod offer;
mod peers;
mod pod;
mod recorded;
mod recreated;
mod refused;
mod restore;
mod space;
mod spare;
mod stall;
mod stranger;
mod told;
mod trust;
mod unavailable;
mod unusable;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};

use api::intent::InvalidSpec;
use api::v1alpha1::memory::{ReplaceMemory, RestoreMemory};
use api::v1alpha1::status::{
    BootstrapIntent, HangIntent, JoinIntent, KnownVoter, RecoveryIntent, RetireIntent,
};
use api::{ClusterIntent, EtcdVersion, Lineage, Transport, names};
use gate::{Grant, Report};
use jiff::Timestamp;

pub use auth::{
    Accounts, Auth, AuthChange, Declared, Grants, Login, Made, NO_CERTIFICATE, NOT_A_USER,
    OPERATOR, Password, ROOT, RoleWish, RootPassword, RootWish, UserWish,
};
pub use backups::Backups;
pub(crate) use certificates::is_due;
pub use certificates::{Certificates, Issued, Offered, Refreshed, Request};
pub use describe::Doing;
pub(crate) use describe::describe;
pub use disturbance::Disturbance;
pub(crate) use failed::Failures;
pub use failed::{FailedStep, Vain, may_rest};
pub use id::{format_id, parse_id};
pub use joining::Joining;
pub use leaving::Leaving;
pub(crate) use leaving::NO_MEMBER;
pub use list::{Member, MemberList};
pub(crate) use missing::Missing;
pub use node_binding::{NodeBinding, NodeState};
pub use objects::Objects;
pub use offer::Offer;
pub(crate) use peers::{describe_schemes, schemes_of};
pub(crate) use recorded::Recorded;
pub use recreated::Recreated;
pub(crate) use recreated::Restarts;
pub use refused::{Answer, Attempt, Refusals, Refused, Wish};
pub(crate) use restore::skips_hash;
pub use restore::{FetchJob, JobState, ReplaceRequest, Restore, RestoreWish, Wanted};
pub use space::{Alarm, AlarmKind, Hash, Space};
pub(crate) use spare::MAX_LAG;
pub use stall::{Stall, Vitals, Watch, Writes, doubts};
pub use told::Told;
pub(crate) use unusable::what_is_lost;
pub use upkeep::{Upkeep, UpkeepTask};

use crate::target::Target;

/// Age in seconds at which a pod's name is known everywhere, come what may.
const FOUND_BY_NOW: i64 = 15;

/// Everything that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// When.
    pub now: Timestamp,
    /// The custom resource.
    pub cluster: Cluster,
    /// The objects that should exist.
    pub objects: Objects,
    /// Claims by ordinal.
    pub claims: BTreeMap<u32, Claim>,
    /// Pods by ordinal.
    pub pods: BTreeMap<u32, Pod>,
    /// The nodes that members depend on, by ordinal; asked for where nothing answers, absent where nothing is known.
    pub node_bindings: BTreeMap<u32, NodeBinding>,
    /// What etcd says of itself.
    pub etcd: Etcd,
    /// What the Secrets of certificates say of themselves.
    pub certificates: Certificates,
    /// Steps that failed.
    pub failed: Vec<FailedStep>,
    /// Pods that were recreated without a quorum and still run nothing, by ordinal.
    pub recreated: BTreeMap<u32, Recreated>,
    /// Since when the StatefulSet controller has not been able to create the pod of an ordinal, as far as is known.
    pub not_created: BTreeMap<u32, Timestamp>,
    /// What is known of backups.
    pub backups: Backups,
    /// The backup that the cluster is to begin with.
    pub restore: Restore,
    /// When the indexes of voters were last recorded, as far as is known.
    pub indexes_recorded: Option<Timestamp>,
}

/// The custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// Generation of its spec.
    pub generation: i64,
    /// It is being deleted.
    pub deleting: bool,
    /// The predecessor's finalizer is on it.
    pub held_by_predecessor: bool,
    /// Its owner asked that nothing be changed.
    pub paused: bool,
    /// Its owner asked to go on with what is left of this cluster.
    pub recover: Option<u64>,
    /// No quorum has served since.
    pub unavailable_since: Option<Timestamp>,
    /// What it asks for; once there is a cluster, what is in force while its spec makes no sense.
    pub intent: Result<ClusterIntent, InvalidSpec>,
    /// What to run next on the way to it; `None` while it makes no sense.
    pub target: Option<Target>,
    /// What was recorded before a side effect.
    pub latched: Latched,
    /// The status says less than that: it was wiped or is an older one, and the rest came from the claims.
    pub recalled: bool,
}

/// The part of the status that is memory, not report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latched {
    /// Incarnation of the data, from 1.
    pub incarnation: u64,
    /// The member that may bootstrap the cluster.
    pub bootstrap: Option<BootstrapIntent>,
    /// Who may join.
    pub joins: Vec<JoinIntent>,
    /// Who is leaving.
    pub retiring: Vec<RetireIntent>,
    /// Who votes, as last listed.
    pub voters: Vec<KnownVoter>,
    /// Who is listed without a vote, and how far it has come.
    pub learners: BTreeMap<u64, Joining>,
    /// The cluster has formed.
    pub cluster_id: Option<u64>,
    /// The data was taken over from an earlier object.
    pub resumed: bool,
    /// Which planes of the members speak TLS, as in the template that is proven; `None` before that is settled, and where an
    /// earlier release formed the cluster, which was plaintext then.
    pub transport: Option<Transport>,
    /// What was in the template that was proven before, plane by plane, while some members still run on that.
    pub transport_before: Option<Transport>,
    /// How often another transport was proven.
    pub switches: u64,
    /// Pods in force.
    pub replicas: Option<u32>,
    /// The template that members are known to run on.
    pub proven: Option<Proven>,
    /// What members are disturbed for.
    pub disturbance: Option<Disturbance>,
    /// Oldest minor version of etcd whose entries may still be in the logs; `None` when that is not known.
    pub log_line: Option<u8>,
    /// Size in bytes that every volume has reached.
    pub storage: Option<u64>,
    /// The data is being deleted, by the owner's policy.
    pub ending: bool,
    /// Data of an earlier incarnation than this is held back.
    pub fence: Option<u64>,
    /// A recovery from lost quorum is under way.
    pub recovery: Option<RecoveryIntent>,
    /// Revision up to which we compacted last.
    pub compacted: Option<u64>,
    /// Who was restarted because it hung.
    pub hung: Vec<HangIntent>,
    /// Hash of the template from which no pod could be created.
    pub called_off: Option<String>,
    /// The backup that the cluster begins, or began, with.
    pub restore: Option<Box<RestoreMemory>>,
    /// A backup that is to take the place of the data, or did so last.
    pub replace: Option<Box<ReplaceMemory>>,
    /// Users and roles that are the operator's to delete.
    pub made: Made,
}

/// A pod template that members are known to run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// Its hash; empty for what an earlier operator left.
    pub template: String,
    /// The release in it.
    pub version: EtcdVersion,
    /// Every member runs on it.
    pub everywhere: bool,
    /// The release before it, while some members still run on that.
    pub before: Option<EtcdVersion>,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// It was made for this very object, or taken over by it.
    pub ours: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// Requested size in bytes.
    pub requested: Option<u64>,
    /// Size that the volume has, in bytes.
    pub capacity: Option<u64>,
    /// Its class can expand volumes; `None` while that is not known.
    pub expandable: Option<bool>,
    /// Name of its class; `None` where it names none.
    pub class: Option<String>,
    /// Why there is no volume behind it any more.
    pub lost: Option<String>,
    /// Which data it belongs to, as it was last written on it.
    pub lineage: Option<Lineage>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// Its address is published to DNS.
    pub resolvable: bool,
    /// It has a node.
    pub scheduled: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// The kubelet calls it ready. Reported, never waited for.
    pub ready: bool,
    /// What the scheduler or the kubelet says stands in its way.
    pub problem: Option<String>,
    /// etcd ends again and again, and its last words say that its data cannot be used.
    pub broken: Option<String>,
    /// It was made from an older template than the StatefulSet has now.
    pub outdated: bool,
    /// Hash of the template it was made from; empty for what an earlier operator left.
    pub template: String,
    /// Which of its planes speak TLS.
    pub transport: Transport,
    /// Generation of the authorities that it was started with, or will be.
    pub trust: u64,
    /// The certificates that the kubelet was told to bring into it, and when.
    pub refreshed: Option<Refreshed>,
    /// It has the container for debugging.
    pub debug: bool,
    /// Members whose data its agent must never read again, as annotated on the pod.
    pub told_removed: Vec<u64>,
    /// The grant it carries.
    pub grant: Option<Grant>,
    /// When the pod was last annotated with it.
    pub told: Option<Told>,
    /// Data of an earlier incarnation than this is held back in it.
    pub fence: Option<u64>,
    /// What runs in it.
    pub process: Process,
    /// Bytes of the leader's data that it has received while it joins, where its agent says so.
    pub received: Option<u64>,
    /// Who answered at its address, where that was not this pod.
    pub stranger: Option<String>,
    /// It runs and does not keep up.
    pub stall: Option<Stall>,
}

/// What runs in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// No answer came.
    Unknown,
    /// The agent waits at the gate.
    Held(Report),
    /// It answers, and does not accept our certificate, or we do not accept its own; why. Nothing else is known of it.
    Refusing(String),
    /// etcd runs, but does not serve clients.
    Starting,
    /// etcd serves.
    Serving(Serving),
}

/// A member that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Its ID.
    pub member_id: u64,
    /// The cluster it belongs to.
    pub cluster_id: u64,
    /// Its release.
    pub version: Option<EtcdVersion>,
    /// The leader it follows; 0 is none.
    pub leader: u64,
    /// Last index in its log.
    pub raft_index: u64,
    /// Last index it applied.
    pub applied_index: u64,
    /// Alarms and other complaints.
    pub errors: Vec<String>,
    /// The members it lists itself, where that was asked.
    pub view: Option<BTreeSet<u64>>,
    /// It answered a linearizable read, where that was asked.
    pub reads: Option<bool>,
    /// Minor version of etcd whose format its data has; `None` where it does not say (3.5).
    pub storage: Option<u8>,
    /// Minor version of etcd that a downgrade under way aims at.
    pub downgrade: Option<u8>,
    /// How large its database is.
    pub space: Space,
    /// The checksum of its data, where that was asked.
    pub hash: Option<Hash>,
}

/// What etcd says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    /// The member list, confirmed by a quorum; `None` when no member could give it.
    pub members: Option<MemberList>,
    /// A long call of this operator to its members.
    pub upkeep: Option<Upkeep>,
    /// Users and roles.
    pub auth: Auth,
}

/// How many of so many voters are a quorum.
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

impl Observed {
    /// Name of the member of an ordinal.
    pub fn member_name(&self, ordinal: u32) -> String {
        names::member(&self.cluster.name, ordinal)
    }

    /// The ordinal whose name is in a member's peer URL; `None` for strangers. An earlier operator wrote the name with
    /// the cluster's domain.
    pub fn ordinal_of(&self, member: &Member) -> Option<u32> {
        let (name, namespace) = (&self.cluster.name, &self.cluster.namespace);
        let mut urls = member.peer_urls.iter();
        urls.find_map(|url| names::ordinal_of_url(name, namespace, url))
    }

    /// The member listed for an ordinal.
    pub fn member_of(&self, ordinal: u32) -> Option<&Member> {
        let list = self.etcd.members.as_ref()?;
        list.members
            .iter()
            .find(|member| self.ordinal_of(member) == Some(ordinal))
    }

    /// The pod that serves as this member.
    pub fn serving_as(&self, id: u64) -> Option<&Serving> {
        self.pods
            .values()
            .filter_map(Pod::serving)
            .find(|serving| serving.member_id == id)
    }

    /// A voter that answers, belongs to the cluster, follows a leader and does not hang.
    pub fn is_healthy(&self, member: &Member) -> bool {
        let Some(list) = &self.etcd.members else {
            return false;
        };
        self.serving_as(member.id)
            .is_some_and(|serving| serving.cluster_id == list.cluster_id && serving.leader != 0)
            && self.hangs(member).is_none()
    }

    /// Its pod is gone or going, or it is being defragmented, whatever still answers from it. Of strangers nothing is known.
    pub fn is_away(&self, member: &Member) -> bool {
        self.ordinal_of(member).is_some_and(|ordinal| {
            let pod = self.pods.get(&ordinal);
            pod.is_none_or(|pod| pod.terminating) || self.is_being_defragmented(ordinal)
        })
    }

    /// Voters that are healthy.
    pub fn healthy_voters(&self) -> usize {
        let voters = self.etcd.members.iter().flat_map(MemberList::voters);
        voters.filter(|voter| self.is_healthy(voter)).count()
    }

    /// Others find the pod by its name. A name that is asked for too early is remembered as absent, and a member that
    /// joins then waits half a minute for it. Where addresses are not published in an object that we read, the age of
    /// the pod has to do.
    pub fn can_be_found(&self, pod: &Pod) -> bool {
        pod.resolvable || self.now.duration_since(pod.created).as_secs() >= FOUND_BY_NOW
    }

    /// The leader, as most of those who answer see it.
    pub fn leader(&self) -> Option<u64> {
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for serving in self
            .pods
            .values()
            .filter_map(Pod::serving)
            .filter(|s| s.leader != 0)
        {
            let count = votes.entry(serving.leader).or_default();
            *count = count.saturating_add(1);
        }
        votes
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(leader, _)| leader)
    }

    /// The ordinal of a member that was added and granted but has not been heard of since. While there is
    /// one, the member list must stay as the grant says it is.
    pub fn open_grant(&self) -> Option<u32> {
        self.pods.iter().find_map(|(ordinal, pod)| {
            let member = self.member_of(*ordinal)?;
            let granted = pod.grant.as_ref().and_then(granted_member);
            // A wait that is not the granted one shows that the grant is spent, and so does a process that runs: it has
            // asked the others who they are, and has data. Its name may take it seconds longer to publish.
            let runs = matches!(pod.process, Process::Starting | Process::Serving(_));
            let spent = runs || (pod.held().is_some() && !pod.is_granted());
            (member.is_unstarted() && granted == Some(member.id) && !spent).then_some(*ordinal)
        })
    }

    /// This wait was recorded before a member was added for it, and the member that is listed was not
    /// granted to an earlier wait.
    pub fn may_join(&self, ordinal: u32, pod: &Pod, report: &Report) -> bool {
        let name = self.member_name(ordinal);
        let before = pod
            .grant
            .as_ref()
            .filter(|grant| grant.nonce != report.nonce);
        let before = before.and_then(granted_member);
        let listed = self.member_of(ordinal).map(|member| member.id);
        (before.is_none() || before != listed)
            && self.cluster.latched.joins.iter().any(|join| {
                join.member == name && join.pod_uid == pod.uid && join.nonce == report.nonce
            })
    }
}

/// The member ID in a grant to join.
fn granted_member(grant: &Grant) -> Option<u64> {
    match &grant.action {
        gate::Action::Join { member_id, .. } => parse_id(member_id),
        gate::Action::Bootstrap { .. }
        | gate::Action::Resume { .. }
        | gate::Action::Recover { .. }
        | gate::Action::Restore { .. } => None,
    }
}
