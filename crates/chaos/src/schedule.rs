//! What is done to the cluster, as a pure function of the seed: endless rounds, of which a run plays as many as fit into
//! its time. A round names its victim by role, not by name, because who leads is not the seed's to say.
//!
//! What must not happen here: a look at the cluster or the clock. Whether a fault would break a quorum is asked when its
//! turn comes (`faults.rs`).

use std::fmt;
use std::time::Duration;

use crate::dice::Dice;

/// The sizes between which a cluster goes to and fro. Nothing is promised to clients below three members.
pub(crate) const SIZES: [u32; 2] = [3, 5];

/// The member that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Leader,
    /// One of the others, counted by name, round and round.
    Follower(u64),
}

/// Something that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The pod is deleted without a grace period.
    KillPod(Victim),
    /// Claim and pod are deleted, and with them the data.
    LoseVolume(Victim),
    /// The operator's pods are deleted without a grace period.
    KillOperator,
    /// etcd gets SIGKILL.
    CrashProcess(Victim),
    /// etcd gets SIGSTOP, and later SIGCONT.
    Freeze(Victim, Duration),
    /// No packet passes between the victim's node and any other.
    CutNode(Victim, Duration),
    /// No packet passes between the pods of the victim's node and those of others; clients and kubelet still come through.
    CutPods(Victim, Duration),
    /// The victim's node loses its power, and gets it back.
    KillNode(Victim, Duration),
    RestartKubelet(Victim),
    RestartApiServer,
    /// etcd dies, and finds a database that it cannot open.
    FlipBytes(Victim),
    /// The database is filled until etcd refuses writes.
    FillQuota,
}

/// Something that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Resize(u32),
    /// The annotation that restarts every member.
    Restart,
    /// Another request for processor time, in thousandths; also restarts every member.
    Resources(u64),
    /// Another certificate authority; also restarts every member.
    RotateAuthority,
}

/// One round: perhaps an edit, and a while later perhaps a fault, and perhaps another before the first is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) edit: Option<Edit>,
    pub(crate) lag: Duration,
    pub(crate) fault: Option<Fault>,
    pub(crate) second: Option<Second>,
    /// Peace after the cluster is healthy again.
    pub(crate) rest: Duration,
}

/// A fault while another one lasts or is being repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Second {
    /// So long after the first began.
    pub(crate) after: Duration,
    pub(crate) fault: Fault,
}

/// How long faults last that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// Up to ten seconds: shorter than Kubernetes takes to give up a node.
    Briefly,
    /// Up to a minute.
    Long,
}

/// How far the run's hands reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Only the Kubernetes API.
    Api,
    /// Also processes and networks of the nodes: the project's local cluster.
    Nodes,
}

/// The rounds of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    dice: Dice,
    /// Others, so that the first faults of a seed are what they were before there were second ones.
    second_dice: Dice,
    reach: Reach,
    lasting: Lasting,
    size: u32,
    without: Vec<FaultKind>,
    faults: Vec<FaultKind>,
    edits: Vec<EditKind>,
    number: u64,
    with_fault: u64,
    /// The cluster has TLS.
    pub(crate) locked: bool,
}

/// A fault without its victim. The variants are documented for `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FaultKind {
    /// Delete a pod without a grace period
    KillPod,
    /// Delete a claim and its pod
    LoseVolume,
    /// Delete the operator's pods without a grace period
    KillOperator,
    /// Kill an etcd process
    CrashProcess,
    /// Stop an etcd process for a while
    Freeze,
    /// Cut a node off from all others for a while
    CutNode,
    /// Cut the pods of a node off from those of others for a while
    CutPods,
    /// Take a node's power away for a while
    KillNode,
    /// Kill a kubelet and start it again
    RestartKubelet,
    /// Kill the API server and start it again
    RestartApiServer,
    /// Kill an etcd process and flip bytes in its database file
    FlipBytes,
    /// Write until the quota is reached
    FillQuota,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditKind {
    Resize,
    Restart,
    Resources,
    RotateAuthority,
}

const BY_API: [FaultKind; 4] = [
    FaultKind::KillPod,
    FaultKind::LoseVolume,
    FaultKind::KillOperator,
    FaultKind::FillQuota,
];
const BY_NODES: [FaultKind; 8] = [
    FaultKind::CrashProcess,
    FaultKind::Freeze,
    FaultKind::CutNode,
    FaultKind::CutPods,
    FaultKind::KillNode,
    FaultKind::RestartKubelet,
    FaultKind::RestartApiServer,
    FaultKind::FlipBytes,
];
const EDITS: [EditKind; 3] = [EditKind::Resize, EditKind::Restart, EditKind::Resources];
const EDITS_WITH_TLS: [EditKind; 1] = [EditKind::RotateAuthority];
/// One round in so many has an edit.
const EDIT_EVERY: u64 = 3;
/// One round with an edit in so many has no fault.
const ALONE_EVERY: u64 = 4;
/// One round with a fault in so many has two.
const PAIR_EVERY: u64 = 3;
/// What comes second besides the operator's end: at once, and to one member.
const SECOND_BY_API: [FaultKind; 2] = [FaultKind::KillPod, FaultKind::LoseVolume];
const SECOND_BY_NODES: [FaultKind; 3] = [
    FaultKind::CrashProcess,
    FaultKind::RestartKubelet,
    FaultKind::FlipBytes,
];

impl Schedule {
    pub(crate) fn new(seed: u64, reach: Reach, lasting: Lasting, without: &[FaultKind]) -> Self {
        let [size, _larger] = SIZES;
        Self {
            dice: Dice::new(seed),
            second_dice: Dice::new(!seed),
            reach,
            lasting,
            size,
            without: without.to_vec(),
            faults: Vec::new(),
            edits: Vec::new(),
            number: 0,
            with_fault: 0,
            locked: false,
        }
    }

    /// From a shuffled heap that holds every kind once, so that a short run is as mixed as a long one.
    fn fault(&mut self) -> Option<Fault> {
        if self.faults.is_empty() {
            self.faults.extend(BY_API);
            if self.reach == Reach::Nodes {
                self.faults.extend(BY_NODES);
            }
            self.dice.shuffle(&mut self.faults);
            self.faults.retain(|kind| !self.without.contains(kind));
        }
        let kind = self.faults.pop()?;
        let victim = victim(&mut self.dice);
        let time = match self.lasting {
            Lasting::Briefly => self.dice.between(2000, 10_000),
            Lasting::Long => self.dice.between(10_000, 60_000),
        };
        Some(kind.of(victim, Duration::from_millis(time)))
    }

    /// Every other pair is a fault whose repair loses its operator.
    fn second(&mut self) -> Option<Second> {
        self.with_fault += 1;
        if self.with_fault % PAIR_EVERY != 2 {
            return None;
        }
        let dice = &mut self.second_dice;
        let after = Duration::from_millis(dice.between(200, 3000));
        let mut kinds: Vec<FaultKind> = SECOND_BY_API.into();
        if self.reach == Reach::Nodes {
            kinds.extend(SECOND_BY_NODES);
        }
        dice.shuffle(&mut kinds);
        let operator_next = (self.with_fault / PAIR_EVERY).is_multiple_of(2);
        if operator_next {
            kinds.push(FaultKind::KillOperator);
        }
        kinds.retain(|kind| !self.without.contains(kind));
        let fault = kinds.pop()?.of(victim(dice), Duration::ZERO);
        Some(Second { after, fault })
    }

    fn edit(&mut self) -> Option<Edit> {
        if self.edits.is_empty() {
            self.edits.extend(EDITS);
            if self.locked {
                self.edits.extend(EDITS_WITH_TLS);
            }
            self.dice.shuffle(&mut self.edits);
        }
        Some(match self.edits.pop()? {
            EditKind::Resize => {
                let [small, large] = SIZES;
                self.size = if self.size == small { large } else { small };
                Edit::Resize(self.size)
            }
            EditKind::Restart => Edit::Restart,
            EditKind::RotateAuthority => Edit::RotateAuthority,
            // The number of the round makes it another request than the last one.
            EditKind::Resources => Edit::Resources(50 + self.number % 50),
        })
    }
}

fn victim(dice: &mut Dice) -> Victim {
    match dice.below(2) {
        0 => Victim::Leader,
        _other => Victim::Follower(dice.below(12)),
    }
}

impl FaultKind {
    fn of(self, victim: Victim, time: Duration) -> Fault {
        match self {
            Self::KillPod => Fault::KillPod(victim),
            Self::LoseVolume => Fault::LoseVolume(victim),
            Self::KillOperator => Fault::KillOperator,
            Self::CrashProcess => Fault::CrashProcess(victim),
            Self::Freeze => Fault::Freeze(victim, time),
            Self::CutNode => Fault::CutNode(victim, time),
            Self::CutPods => Fault::CutPods(victim, time),
            Self::KillNode => Fault::KillNode(victim, time),
            Self::RestartKubelet => Fault::RestartKubelet(victim),
            Self::RestartApiServer => Fault::RestartApiServer,
            Self::FlipBytes => Fault::FlipBytes(victim),
            Self::FillQuota => Fault::FillQuota,
        }
    }
}

impl Iterator for Schedule {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        self.number += 1;
        let edit = if self.dice.below(EDIT_EVERY) == 0 {
            self.edit()
        } else {
            None
        };
        let alone = edit.is_some() && self.dice.below(ALONE_EVERY) == 0;
        let fault = if alone { None } else { self.fault() };
        let second = fault.and_then(|_first| self.second());
        Some(Round {
            edit,
            lag: Duration::from_millis(self.dice.below(4000)),
            fault,
            second,
            rest: Duration::from_millis(self.dice.between(500, 2500)),
        })
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader => f.write_str("the leader"),
            Self::Follower(number) => write!(f, "follower {number}"),
        }
    }
}

impl Fault {
    /// A few words without the victim, under which faults are counted.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::KillPod(_) => "kill pod",
            Self::LoseVolume(_) => "lose volume",
            Self::KillOperator => "kill operator",
            Self::CrashProcess(_) => "crash process",
            Self::Freeze(..) => "freeze process",
            Self::CutNode(..) => "cut node off",
            Self::CutPods(..) => "cut pods off",
            Self::KillNode(..) => "kill node",
            Self::RestartKubelet(_) => "restart kubelet",
            Self::RestartApiServer => "restart API server",
            Self::FlipBytes(_) => "flip bytes",
            Self::FillQuota => "fill quota",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::KillPod(victim)
            | Self::LoseVolume(victim)
            | Self::CrashProcess(victim)
            | Self::RestartKubelet(victim)
            | Self::FlipBytes(victim) => write!(f, "{kind} of {victim}"),
            Self::Freeze(victim, time)
            | Self::CutNode(victim, time)
            | Self::CutPods(victim, time)
            | Self::KillNode(victim, time) => {
                write!(f, "{kind} of {victim} for {:.1} s", time.as_secs_f32())
            }
            Self::KillOperator | Self::RestartApiServer | Self::FillQuota => f.write_str(kind),
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resize(size) => write!(f, "resize to {size}"),
            Self::Restart => f.write_str("restart all members"),
            Self::RotateAuthority => f.write_str("replace the certificate authority"),
            Self::Resources(cpu) => write!(f, "request {cpu}m of processor time"),
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.edit, self.fault) {
            (Some(edit), Some(fault)) => {
                write!(f, "{edit}, {:.1} s later {fault}", self.lag.as_secs_f32())
            }
            (Some(edit), None) => write!(f, "{edit}"),
            (None, Some(fault)) => write!(f, "{fault}"),
            (None, None) => f.write_str("nothing"),
        }?;
        match self.second {
            Some(Second { after, fault }) => {
                write!(f, ", and {:.1} s later {fault}", after.as_secs_f32())
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
