//! What exists, and what happens by itself. [`World::tick`] lets the StatefulSet controller, the
//! kubelets, the agents, etcd and one client each do a little, in an order that the seed chooses.
//! Whatever must never happen is recorded in [`World::violations`], however it came about.

pub mod act;
mod adopt;
pub mod astray;
pub mod auth;
pub mod backup;
pub(crate) mod canon;
mod etcd;
mod hang;
mod kubernetes;
mod members;
pub mod moves;
mod nodes;
pub mod observe;
mod others;
mod recover;
pub mod refuse;
pub mod replace;
pub mod slow;
pub mod space;
pub mod tls;
mod trust;
mod versions;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use api::v1alpha1::cluster::{OnEverythingLost, OnQuorumLoss, Retention};
use api::{EtcdClusterStatus, Transport, names};
use gate::{Grant, Identity, Report};
use jiff::{SignedDuration, Timestamp};
use plan::observed::{Accounts, Member, NodeState, Refreshed, Told};

use crate::rng::Rng;

/// Name of the cluster in every world.
pub const NAME: &str = "db";
/// Its namespace.
pub const NAMESPACE: &str = "ns";

/// Everything.
#[derive(Clone, Debug)]
pub struct World {
    /// Virtual time.
    pub now: Timestamp,
    /// Chance.
    pub rng: Rng,
    /// The custom resource.
    pub object: Object,
    /// Claims by ordinal, each with its volume.
    pub claims: BTreeMap<u32, Claim>,
    /// Pods by ordinal.
    pub pods: BTreeMap<u32, Pod>,
    /// The StatefulSet.
    pub set: Option<Set>,
    /// The small objects (`account`, `peer`, `budget`, `client`): owner's UID and content.
    pub small: BTreeMap<&'static str, (String, u32)>,
    /// Every etcd cluster that ever was.
    pub clusters: BTreeMap<u64, Cluster>,
    /// What must never happen and did.
    pub violations: Vec<String>,
    /// Writes of the operator so far.
    pub writes: u64,
    /// When the operator dies.
    pub kill: Option<Kill>,
    /// The client writes nothing for the moment.
    pub quiet: bool,
    /// Pods vanish at random, so that a process may meet data that it cannot read: it refuses, and must be led back.
    pub forgiving: bool,
    /// Where chance would decide, what is worst for us happens.
    pub contrary: bool,
    /// Kubelets miss every grant until the pod is annotated again.
    pub deaf: bool,
    /// Edits of the spec whose pods never start.
    pub bad_edits: BTreeSet<u32>,
    /// Edits of the spec whose pods the API server rejects: a quota, or a policy.
    pub rejected_edits: BTreeSet<u32>,
    /// Transports whose pods never start.
    pub bad_transports: BTreeSet<Transport>,
    /// Most voters of the cluster that were away at once since this was last set to 0.
    pub most_away: usize,
    /// Templates that a voter of a cluster with a quorum has served on.
    pub tried: BTreeSet<String>,
    /// Most pods on one template that no member has served on, since this was last set to 0.
    pub most_untried: usize,
    /// How often of a hundred ticks data follows to another minor version.
    pub conversion: u64,
    /// The class of the volumes can expand them.
    pub expandable: bool,
    /// The databases.
    pub upkeep: space::Upkeep,
    /// How data comes to members that join; at once where nothing is said.
    pub link: Option<slow::Link>,
    /// `spec.recovery.joinPatienceSeconds`.
    pub join_patience: Option<i64>,
    /// UIDs of claims on which etcd never begins to serve.
    pub sluggish: BTreeSet<String>,
    /// Volumes are tied to a zone, of which every node has one of its own, and name no node.
    pub zonal: bool,
    /// Pods at whose address another one answers.
    pub astray: BTreeMap<u32, astray::Stray>,
    /// Volumes can be used on any node.
    pub mobile: bool,
    /// How many pods the nodes have room for; `None` for any number.
    pub places: Option<usize>,
    /// Nodes that are not well.
    pub nodes: BTreeMap<String, NodeState>,
    /// The Secrets of certificates.
    pub certificates: tls::Secrets,
    /// Objects whose writes do not take effect.
    pub refuses: BTreeMap<String, refuse::How>,
    /// Steps that do not take effect, by their name, and the ordinal where only that one does.
    pub rejects: BTreeMap<(&'static str, Option<u32>), refuse::Ends>,
    /// What people do about users and roles.
    pub people: auth::People,
    /// The backup that the cluster is to begin with.
    pub backup: backup::Backup,
    hung_in: BTreeMap<u64, String>,
    untried_for: u32,
    restarted: BTreeSet<u32>,
    tokens: BTreeSet<String>,
    counter: u64,
}

/// The operator dies at its n-th write.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Which write, from 1.
    pub at: u64,
    /// The write itself still happens.
    pub performed: bool,
}

/// The custom resource.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its UID.
    pub uid: String,
    /// Generation of its spec.
    pub generation: i64,
    /// Members asked for.
    pub size: u32,
    /// Minor version of etcd.
    pub minor: u8,
    /// Stands for everything else in the spec that reaches the pods.
    pub edit: u32,
    /// TLS is asked for, on both planes.
    pub tls: bool,
    /// What is asked for instead, plane by plane.
    pub transport: Option<Transport>,
    /// A change of that reaches members that run.
    pub live_switch: bool,
    /// Another authority is asked for.
    pub rotate: Option<String>,
    /// Authentication is to be on, or off.
    pub auth: Option<bool>,
    /// A jump over a minor version is walked.
    pub walk: bool,
    /// GiB of each volume.
    pub storage: u64,
    /// Its spec makes no sense.
    pub invalid: bool,
    /// Nothing is to be changed.
    pub paused: bool,
    /// The operator may go on with what is left of this cluster.
    pub recover: Option<u64>,
    /// Who decides when no quorum can return.
    pub on_quorum_loss: OnQuorumLoss,
    /// Who decides when no member has data any more.
    pub on_everything_lost: OnEverythingLost,
    /// What happens to the claims with it.
    pub when_deleted: Retention,
    /// What happens to the claims when it is stopped.
    pub when_stopped: Retention,
    /// What happens to the claim of a member that leaves.
    pub when_scaled: Retention,
    /// Its status.
    pub status: EtcdClusterStatus,
    /// Changes with every write of the object.
    pub revision: u64,
}

/// The StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// UID of the object that owns it.
    pub owner: String,
    /// Pods.
    pub replicas: u32,
    /// What they are made from.
    pub template: Template,
    /// What is kept beside it.
    pub kept: Option<Template>,
    /// GiB in its claim template.
    pub storage: u64,
    /// Its UID.
    pub uid: String,
    /// Changes with every write.
    pub revision: u64,
}

/// What a pod is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Its hash.
    pub hash: String,
    /// Minor version of etcd in it.
    pub minor: u8,
    /// Its pods never start.
    pub bad: bool,
    /// No pod can be created from it.
    pub rejected: bool,
    /// An earlier operator's: no gate stands in front of etcd.
    pub ungated: bool,
    /// Which planes speak TLS.
    pub transport: Transport,
    /// Generation of the authorities that its pods are started with.
    pub trust: u64,
    /// Data of an earlier incarnation than this is held back.
    pub fence: Option<u64>,
    /// By member ID: a log that ends before this index was rolled back.
    pub floors: BTreeMap<String, u64>,
}

/// A claim and the volume behind it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// The object it was made for or taken over by.
    pub cluster_uid: String,
    /// Deleted, but a pod still uses it.
    pub terminating: bool,
    /// GiB that are requested.
    pub requested: u64,
    /// GiB that the volume has.
    pub capacity: u64,
    /// The node that the volume is tied to, once it is.
    pub node: Option<String>,
    /// What was written on it of the data that it belongs to.
    pub lineage: String,
    /// What is on the volume.
    pub volume: Volume,
}

/// What is on a volume.
#[derive(Clone, Debug, Default)]
pub struct Volume {
    /// The identity file.
    pub identity: Option<Identity>,
    /// etcd's data.
    pub data: Option<Data>,
    /// The data cannot be read.
    pub damaged: bool,
    /// The log can be read, but etcd ends of what it finds behind it.
    pub broken: bool,
    /// etcd cannot replay the log, so that no recovery from it succeeds.
    pub stubborn: bool,
    /// No write to it ends: a process that runs on it hangs.
    pub stalled: bool,
    /// GiB without which etcd ends, and a recovery fails: the disk is full.
    pub needs: u64,
    /// A backup that was brought to it.
    pub brought: Option<backup::Brought>,
}

/// etcd's data: whose it is, and how long its log is. Logs of one cluster are prefixes of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The cluster.
    pub cluster: u64,
    /// The member.
    pub member: u64,
    /// Entries.
    pub log: u64,
    /// Minor version of etcd whose format it has.
    pub storage: u8,
    /// Oldest minor version that wrote into the log since the last snapshot.
    pub log_line: u8,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// The object its StatefulSet belongs to.
    pub owner: String,
    /// When it was made.
    pub created: Timestamp,
    /// It is being deleted.
    pub terminating: bool,
    /// Its process refuses the data that it found.
    pub refuses: bool,
    /// What it was made from.
    pub template: Template,
    /// Members whose data its agent never reads again.
    pub told_removed: Vec<u64>,
    /// The grant it carries.
    pub grant: Option<Grant>,
    /// When the pod was annotated with it, in a world whose kubelets are [`World::deaf`].
    pub told: Option<Told>,
    /// The certificates that its kubelet was told to bring.
    pub refreshed: Option<Refreshed>,
    /// What runs in it.
    pub container: Container,
    /// Its node; `None` while no node takes it.
    pub node: Option<String>,
    /// Its node is gone: nothing runs, nothing answers, nothing restarts.
    pub frozen: bool,
}

/// What runs in a pod.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are nine at most")]
pub enum Container {
    /// Not started, or ended and about to start again.
    Down,
    /// The agent waits.
    Waiting(Report),
    /// etcd runs.
    Etcd(Process),
}

/// An etcd process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its cluster.
    pub cluster: u64,
    /// Its member ID.
    pub member: u64,
    /// Minor version of etcd.
    pub minor: u8,
    /// It answers clients.
    pub serving: bool,
    /// Since when the others see it.
    pub connected: Timestamp,
    /// The members as it knows them.
    pub view: Vec<Member>,
    /// The authorities that it read when it started; empty for plaintext.
    pub trust: Vec<String>,
    /// It answers, and takes part in nothing.
    pub hung: bool,
    /// The leader that it followed when it began to hang, and still names.
    pub followed: Option<u64>,
}

/// An etcd cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Its members.
    pub members: Vec<Member>,
    /// IDs that were members once; they never return.
    pub removed: BTreeSet<u64>,
    /// IDs under which a process has started from an empty directory.
    pub started: BTreeSet<u64>,
    /// Its leader.
    pub leader: Option<u64>,
    /// Length of the log up to which clients were told "written".
    pub acknowledged: u64,
    /// IDs for which a member was ever added, in order.
    pub added: Vec<u64>,
    /// Minor version of etcd that a downgrade under way aims at.
    pub downgrade: Option<u8>,
    /// Its users and roles.
    pub accounts: Accounts,
    /// It lost its quorum, and another cluster continues in its place.
    pub given_up: bool,
    /// ID of the backup that it began with.
    pub restored: Option<String>,
    /// The cluster whose place it took with that.
    pub replaces: Option<u64>,
}

impl Object {
    fn new(size: u32, minor: u8) -> Self {
        Self {
            uid: String::new(),
            generation: 1,
            size,
            minor,
            edit: 0,
            tls: false,
            transport: None,
            live_switch: false,
            rotate: None,
            auth: None,
            walk: false,
            storage: 10,
            invalid: false,
            paused: false,
            recover: None,
            on_quorum_loss: OnQuorumLoss::Ask,
            on_everything_lost: OnEverythingLost::Ask,
            when_deleted: Retention::Retain,
            when_stopped: Retention::Retain,
            when_scaled: Retention::Delete,
            status: EtcdClusterStatus::default(),
            revision: 0,
        }
    }
}

impl World {
    /// A cluster that was just created, and nothing else.
    pub fn new(size: u32, minor: u8, seed: u64) -> Self {
        let mut world = Self {
            now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
            rng: Rng::new(seed),
            object: Object::new(size, minor),
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            set: None,
            small: BTreeMap::new(),
            clusters: BTreeMap::new(),
            violations: Vec::new(),
            writes: 0,
            kill: None,
            quiet: false,
            forgiving: false,
            contrary: false,
            deaf: false,
            bad_edits: BTreeSet::new(),
            rejected_edits: BTreeSet::new(),
            bad_transports: BTreeSet::new(),
            most_away: 0,
            tried: BTreeSet::new(),
            most_untried: 0,
            conversion: 30,
            expandable: true,
            upkeep: space::Upkeep::default(),
            link: None,
            join_patience: None,
            sluggish: BTreeSet::new(),
            zonal: false,
            astray: BTreeMap::new(),
            mobile: false,
            places: None,
            nodes: BTreeMap::new(),
            certificates: tls::Secrets::default(),
            refuses: BTreeMap::new(),
            rejects: BTreeMap::new(),
            people: auth::People::default(),
            backup: backup::Backup::default(),
            hung_in: BTreeMap::new(),
            untried_for: 0,
            restarted: BTreeSet::new(),
            tokens: BTreeSet::new(),
            counter: 0,
        };
        world.object.uid = world.fresh("object");
        world
    }

    /// Time passes, and every actor does a little.
    pub fn tick(&mut self) {
        let passed = i64::try_from(20 + self.rng.below(400)).unwrap_or(20);
        self.now += SignedDuration::from_millis(passed);
        self.run_controllers();
        self.run_scheduler();
        self.run_kubelets();
        self.run_etcd();
        self.check_schemes();
        self.check_auth();
        self.convert();
        self.count_away();
        self.count_restarted();
        self.count_untried();
        self.run_resizer();
        self.run_job();
        self.run_space();
        self.run_client();
    }

    /// Lets time pass in which nothing else happens.
    pub fn sleep(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// A name that was never used before.
    fn fresh(&mut self, kind: &str) -> String {
        self.counter += 1;
        format!("{kind}-{}", self.counter)
    }

    fn violate(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.violations.contains(&what) {
            self.violations.push(what);
        }
    }
}

/// Peer URL of an ordinal.
pub(crate) fn peer_url(ordinal: u32) -> String {
    names::peer_url(names::Scheme::Http, NAME, NAMESPACE, ordinal)
}
