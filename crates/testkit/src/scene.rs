//! Single observations, painted from a few strokes for each ordinal: the same vocabulary for tables of
//! every small world, for random large ones and for the handful that a status is shown for.

mod ask;
mod dark;
mod paint;
pub mod schemes;
pub mod trust;
mod upkeep;
mod watched;

use api::v1alpha1::cluster::Retention;
use gate::State;

pub use dark::{Begun, Dark, FENCE, Log, Word};
use jiff::{SignedDuration, Timestamp};
pub use paint::wish;
pub use upkeep::{Alarmed, Differs, Fill, QUOTA};
pub use watched::{Logs, Stalls};

/// The cluster in every scene.
pub const CLUSTER: u64 = 0xc1;
/// Another cluster.
pub const STRANGER: u64 = 0xf0;
/// Index of the leader's log.
pub const HEAD: u64 = 50_000;
/// UID of the object.
pub const UID: &str = "uid";

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// There is no pod.
    Absent,
    /// It does not answer.
    Unknown,
    /// It waits at the gate.
    Waits(State),
    /// It waits at the gate with data of another cluster.
    WaitsWithStranger,
    /// etcd runs and does not serve.
    Starts,
    /// etcd serves, with a leader.
    Serves,
    /// etcd serves, far behind.
    Lags,
    /// etcd serves, without a leader.
    Leaderless,
    /// etcd serves another cluster.
    ServesStranger,
}

/// What etcd lists for an ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    /// Nothing.
    No,
    /// A learner that never started.
    New,
    /// A learner.
    Learner,
    /// A voter.
    Voter,
}

/// The wait that something was recorded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// None.
    NoWait,
    /// The wait that stands.
    ThisWait,
    /// A wait that is over.
    FormerWait,
}

/// A claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claimed {
    /// None.
    Absent,
    /// Made for this object.
    Ours,
    /// Kept by an earlier one.
    Kept,
    /// Being deleted.
    Terminating,
}

/// How large a volume is, where 10 GiB are proven and the scene may ask for 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sized {
    /// As the scene asks.
    AsAsked,
    /// 10 GiB, and its class can expand it.
    Small,
    /// 10 GiB, and its class cannot expand it.
    Fixed,
    /// 10 GiB, and its class is gone.
    Classless,
    /// More than the scene asks for.
    Huge,
    /// As the scene asks, but the volume has not grown yet.
    Growing,
}

/// What a pod was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Made {
    /// From what is to be run next.
    AsAsked,
    /// From what was run before.
    Before,
    /// From something that is neither proven nor asked for.
    Otherwise,
}

/// One ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// What its pod does.
    pub does: Does,
    /// What etcd lists.
    pub listed: Listed,
    /// The join that is latched.
    pub join: For,
    /// The grant that the pod carries.
    pub grant: For,
    /// Its claim.
    pub claim: Claimed,
    /// The pod is being deleted.
    pub terminating: bool,
    /// The kubelet calls it ready.
    pub ready: bool,
    /// Age of the pod in seconds.
    pub age: i64,
    /// It knows the present membership.
    pub informed: bool,
    /// It was recorded that this member leaves.
    pub leaves: bool,
    /// What its pod was made from.
    pub made: Made,
    /// Its container cannot start.
    pub stuck: bool,
    /// Its volume.
    pub volume: Sized,
    /// Minor version of etcd whose format its data has; that of the scene where it is `None`.
    pub format: Option<u8>,
    /// Its agent was told that the member of this ordinal was removed.
    pub told: bool,
    /// What is known of its node and its volume.
    pub fate: Fate,
    /// It leaves because it cannot come back.
    pub replaced: bool,
    /// How full its database is.
    pub fill: Fill,
    /// What its hash says.
    pub differs: Differs,
    /// Data of an earlier incarnation is held back in its pod.
    pub fenced: bool,
    /// How far the log on its volume goes, where its agent waits.
    pub log: Log,
    /// How it keeps up.
    pub stalls: Stalls,
    /// It was recorded that it is restarted because it hangs: in this pod, or in an earlier one.
    pub hung: For,
}

/// What is known of the node and the volume of an ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Nothing.
    Unknown,
    /// The node is well.
    Fine,
    /// The node has been silent for a moment.
    Late,
    /// The node has been silent for longer than its owner waits.
    Silent,
    /// The node is out of service.
    OutOfService,
    /// There is no such node any more.
    Deleted,
    /// There is no volume behind the claim any more.
    Lost,
    /// etcd ends again and again, because of its data.
    Broken,
}

impl Fate {
    /// Whatever ran there cannot come back.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Silent | Self::OutOfService | Self::Deleted | Self::Lost
        )
    }
}

impl Slot {
    /// A pod on its own claim.
    pub fn new(does: Does, listed: Listed) -> Self {
        Self {
            does,
            listed,
            join: For::NoWait,
            grant: For::NoWait,
            claim: Claimed::Ours,
            terminating: false,
            ready: false,
            age: 60,
            informed: true,
            leaves: false,
            made: Made::AsAsked,
            stuck: false,
            volume: Sized::AsAsked,
            format: None,
            told: false,
            fate: Fate::Unknown,
            replaced: false,
            fill: Fill::Roomy,
            differs: Differs::Unasked,
            fenced: false,
            log: Log::Whole,
            stalls: Stalls::No,
            hung: For::NoWait,
        }
    }

    /// A healthy voter that was made before the last change.
    pub fn outdated() -> Self {
        Self {
            made: Made::Before,
            ..Self::voter()
        }
    }

    /// A voter whose container cannot start on what is asked for.
    pub fn stuck() -> Self {
        Self {
            does: Does::Unknown,
            stuck: true,
            ready: false,
            ..Self::voter()
        }
    }

    /// A healthy voter.
    pub fn voter() -> Self {
        Self {
            ready: true,
            ..Self::new(Does::Serves, Listed::Voter)
        }
    }

    /// An agent that waits on an empty volume.
    pub fn empty() -> Self {
        Self::new(Does::Waits(State::Empty), Listed::No)
    }
}

/// A whole observation.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Members asked for.
    pub size: u32,
    /// Minor version of etcd.
    pub minor: u8,
    /// By ordinal.
    pub slots: Vec<Slot>,
    /// The cluster ID is latched.
    pub formed: bool,
    /// The data was taken over.
    pub resumed: bool,
    /// The member that may bootstrap the cluster, and for which wait.
    pub bootstrap: Option<(u32, For)>,
    /// The member list could be had.
    pub list: bool,
    /// Objects that differ.
    pub drifted: bool,
    /// Replicas of the live StatefulSet.
    pub replicas: Option<u32>,
    /// What is to be run next has not been proven.
    pub edited: bool,
    /// Who tries it, and how far that got.
    pub trial: Option<(u32, Trial)>,
    /// Minor version of etcd that is proven.
    pub from: u8,
    /// The proven template reached every member.
    pub everywhere: bool,
    /// A jump over a minor version is walked.
    pub walk: bool,
    /// Minor version of etcd whose format the data has.
    pub format: u8,
    /// Minor version of etcd that a downgrade under way aims at.
    pub downgrade: Option<u8>,
    /// 20 GiB are asked for.
    pub larger: bool,
    /// The claim template in the StatefulSet is as large as is asked for.
    pub claims_follow: bool,
    /// What happens to the claim of a member that leaves.
    pub when_scaled: Retention,
    /// What happens to the claims when the cluster is stopped.
    pub when_stopped: Retention,
    /// The data is being deleted.
    pub ending: bool,
    /// Its owner asked for a pause.
    pub paused: bool,
    /// The StatefulSet is an earlier operator's.
    pub predecessor: bool,
    /// The Service for clients exists.
    pub clients: bool,
    /// An alarm that stands.
    pub alarm: Alarmed,
    /// Who is being defragmented.
    pub defragmenting: Option<u32>,
    /// Revision up to which the history was forgotten.
    pub compacted: Option<u64>,
    /// What is known and recorded of a lost quorum.
    pub dark: Dark,
    /// Who votes is recorded.
    pub known: bool,
    /// For so many seconds learners have been recorded as such.
    pub learning: Option<i64>,
    /// Members are made to renew their logs.
    pub renewing: bool,
    /// What may be in the logs.
    pub logs: Logs,
}

/// How far a trial got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trial {
    /// It was recorded.
    Chosen,
    /// Its template stands in the StatefulSet, and the proven one is kept beside it.
    Written,
    /// Its pod was deleted or recreated since.
    Remade,
    /// The StatefulSet holds the proven template again.
    Restored,
}

/// Hash of a template that is not asked for.
pub const OLD: &str = "old";
/// Hash of a template that is neither proven nor asked for.
pub const OTHER: &str = "other";
/// What volumes have in bytes.
pub const SMALL: u64 = 10 << 30;
/// What a scene may ask for in bytes.
pub const LARGE: u64 = 20 << 30;

impl Scene {
    /// A formed cluster of these.
    pub fn formed(size: u32, slots: Vec<Slot>) -> Self {
        let list = slots.iter().any(|slot| slot.listed != Listed::No);
        let replicas = Some(u32::try_from(slots.len()).unwrap_or(0));
        let everywhere = slots.iter().all(|slot| slot.made == Made::AsAsked);
        Self {
            formed: true,
            list,
            replicas,
            everywhere,
            ..Self::unformed(size, slots)
        }
    }

    /// A formed cluster of these whose spec was edited; what ran before is proven.
    pub fn edited(size: u32, slots: Vec<Slot>) -> Self {
        Self {
            edited: true,
            everywhere: true,
            ..Self::formed(size, slots)
        }
    }

    /// A formed cluster on its way from one minor version of etcd to another.
    pub fn between(from: u8, to: u8, slots: Vec<Slot>) -> Self {
        let size = u32::try_from(slots.len()).unwrap_or(0);
        Self {
            from,
            minor: to,
            format: from,
            ..Self::edited(size, slots)
        }
    }

    /// A cluster of these that has not formed.
    pub fn unformed(size: u32, slots: Vec<Slot>) -> Self {
        Self {
            size,
            minor: 6,
            slots,
            formed: false,
            resumed: false,
            bootstrap: None,
            list: false,
            drifted: false,
            replicas: None,
            edited: false,
            trial: None,
            from: 6,
            everywhere: true,
            walk: false,
            format: 6,
            downgrade: None,
            larger: false,
            claims_follow: true,
            when_scaled: Retention::Delete,
            when_stopped: Retention::Retain,
            ending: false,
            paused: false,
            predecessor: false,
            clients: false,
            alarm: Alarmed::No,
            defragmenting: None,
            compacted: None,
            dark: Dark::default(),
            known: false,
            learning: None,
            renewing: false,
            logs: Logs::AsAsked,
        }
    }

    /// The moment of every scene.
    pub fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots)
    }
}

/// Member ID of an ordinal in every scene.
pub fn member_id(ordinal: u32) -> u64 {
    0xa0 + u64::from(ordinal)
}

/// UID of its pod.
pub fn pod_uid(ordinal: u32) -> String {
    format!("pod-{ordinal}")
}

/// UID of its claim.
pub fn claim_uid(ordinal: u32) -> String {
    format!("claim-{ordinal}")
}

/// Nonce of a wait.
pub fn nonce(ordinal: u32, wait: For) -> String {
    match wait {
        For::NoWait | For::ThisWait => format!("nonce-{ordinal}"),
        For::FormerWait => format!("former-{ordinal}"),
    }
}
