//! What can come out of deciding: one step from a closed list, why, and when to look again.

use std::time::Duration;

use api::Reason;
use gate::Grant;
use manifests::Shape;

use crate::invariants::Violation;
use crate::observed::{Alarm, AuthChange, Latched, Refreshed, RestoreWish, Told};
use crate::why::Why;

/// One step. Each has one small executor; there is nothing else the operator can do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one step at a time, and it lives for one look"
)]
pub enum Step {
    /// All is as it should be.
    Nothing,
    /// Something must happen by itself first.
    Wait,
    /// Only a person can go on; nothing is touched.
    Refuse,
    /// Take the predecessor's finalizer off an object that is being deleted.
    RemoveFinalizer,
    /// Write the objects that are missing or differ.
    ApplyObjects(Shape),
    /// Bring the proven template back into the StatefulSet, and write nothing else.
    RestoreTemplate(Shape),
    /// Record what is about to be done, or has been found out for good.
    Latch(Latched),
    /// Create the Job that brings a backup to a volume.
    Fetch(Box<Fetch>),
    /// Delete a Job that brought a backup, or was to.
    EndFetch {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Let a pod through the gate.
    Grant {
        /// Ordinal of the pod.
        ordinal: u32,
        /// UID of the pod the grant is made for.
        pod_uid: String,
        /// The permission.
        grant: Grant,
    },
    /// Add a member that does not vote.
    AddLearner {
        /// Ordinal of its pod.
        ordinal: u32,
        /// Where the others will reach it.
        peer_url: String,
    },
    /// Have the others reach a voter under other URLs.
    UpdatePeer {
        /// Its ID.
        id: u64,
        /// Ordinal of its pod.
        ordinal: u32,
        /// All of its URLs from now on.
        peer_urls: Vec<String>,
    },
    /// Let a learner vote.
    Promote {
        /// Its ID.
        id: u64,
        /// Ordinal of its pod.
        ordinal: u32,
    },
    /// Remove a member whose data is gone.
    RemoveMember {
        /// Its ID.
        id: u64,
        /// Ordinal of its pod.
        ordinal: u32,
        /// The wait that shows its data to be gone; looked at once more before the removal.
        nonce: String,
    },
    /// Have a pod recreated, from the template of now.
    RestartPod {
        /// Its ordinal.
        ordinal: u32,
        /// Its UID.
        uid: String,
    },
    /// Let another member lead before this one leaves.
    MoveLeader {
        /// ID of the member that shall lead.
        to: u64,
        /// Ordinal of the one that leads now.
        ordinal: u32,
    },
    /// Remove a member because the cluster was made smaller.
    RetireMember {
        /// Its ID.
        id: u64,
        /// Ordinal of its pod.
        ordinal: u32,
    },
    /// Delete the claim of a member that has left.
    DeleteClaim {
        /// Its ordinal.
        ordinal: u32,
        /// UID of the claim that was recorded; any other claim of that name is left alone.
        uid: String,
    },
    /// Stop a pod for whose clients nothing is left to do: its member was removed, or its cluster has no quorum.
    StopPod {
        /// Its ordinal.
        ordinal: u32,
        /// Its UID.
        uid: String,
        /// Its node cannot be asked to stop it first.
        force: bool,
    },
    /// Have etcd prepare its data for an older minor version, or stop that.
    Downgrade {
        /// The minor version; `None` stops it.
        to: Option<u8>,
    },
    /// Ask for a larger volume.
    ExpandClaim {
        /// Its ordinal.
        ordinal: u32,
        /// UID of the claim.
        uid: String,
        /// The size.
        size: String,
    },
    /// Delete the StatefulSet and leave its pods running, so that it can be recreated with what cannot be changed.
    OrphanPods {
        /// UID of the StatefulSet.
        uid: String,
    },
    /// Tell a pod's agent that its volume holds data of members that were removed.
    MarkRemoved {
        /// Ordinal of the pod.
        ordinal: u32,
        /// Its UID.
        uid: String,
        /// The members.
        members: Vec<u64>,
    },
    /// Annotate a pod again with the grant that it carries.
    RepeatGrant {
        /// Ordinal of the pod.
        ordinal: u32,
        /// Its UID.
        uid: String,
        /// What is written beside the grant.
        told: Told,
    },
    /// Forget every revision below this one.
    Compact {
        /// The revision.
        revision: u64,
    },
    /// Write the file of a member again, without what is free in it.
    Defragment {
        /// Its ID.
        id: u64,
        /// Ordinal of its pod.
        ordinal: u32,
    },
    /// Take back an alarm whose cause is gone.
    Disarm {
        /// The alarm.
        alarm: Alarm,
    },
    /// Issue certificates, and write them to their Secrets.
    IssueCertificates(Issue),
    /// Ask cert-manager for what members show, by a Certificate; delete that where another source is named.
    RequestCertificate,
    /// Carry the certificate authority over to another one.
    RotateAuthority(Rotate),
    /// Have the kubelet of a pod bring the certificates that were issued since the pod was made.
    RefreshCertificates {
        /// Ordinal of the pod.
        ordinal: u32,
        /// Its UID.
        uid: String,
        /// What is written on the pod.
        refreshed: Refreshed,
    },
    /// Change users, roles or authentication of etcd.
    ChangeAuth(AuthChange),
    /// Put the container for debugging into a running pod.
    AddDebugContainer {
        /// Ordinal of the pod.
        ordinal: u32,
        /// Its UID.
        uid: String,
    },
}

/// Certificates that are to be issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    /// A new authority for each plane.
    pub authority: bool,
    /// The certificates of the members.
    pub members: bool,
    /// The certificate for clients.
    pub clients: bool,
    /// By which authority of ours.
    pub by: Issuer,
}

/// Which authority of ours issues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Issuer {
    /// The newest.
    #[default]
    Newest,
    /// The one before, while not every member trusts the newest.
    Previous,
}

/// A part of the way from one authority to another. Between `Widen` and the certificates of the newest one every member is
/// restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotate {
    /// Make a new authority, and keep the one before with its key.
    Begin,
    /// Have members that start from now on trust what they are to trust, beside what they trust already.
    Widen,
    /// Destroy the key of the one before.
    Forget,
    /// Have members that start from now on trust nothing else any more.
    Narrow {
        /// All of them, so that they are restarted.
        revoke: bool,
    },
}

impl Rotate {
    /// What is done.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Begin => "replacing the certificate authority: a new one is issued",
            Self::Widen => {
                "replacing the certificate authority: members will trust the new one beside the one before, one after another"
            }
            Self::Forget => {
                "the certificate authority was replaced: the key of the one before is deleted"
            }
            Self::Narrow { revoke: false } => {
                "the certificate authority before is no longer trusted by members that start"
            }
            Self::Narrow { revoke: true } => {
                "revoking the certificate authority before: members will no longer trust it, one after another"
            }
        }
    }
}

impl Issue {
    /// There is something to issue.
    pub fn is_due(self) -> bool {
        self.authority || self.members || self.clients
    }

    /// What is issued.
    pub fn describe(self) -> String {
        let all = [
            (self.authority, "a new certificate authority"),
            (self.members, "certificates for the members"),
            (self.clients, "a certificate for clients"),
        ];
        let due = all.iter().filter(|(due, _)| *due);
        due.map(|(_, what)| *what).collect::<Vec<_>>().join(", ")
    }
}

/// A backup that is brought to a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Ordinal of the claim.
    pub ordinal: u32,
    /// Its UID.
    pub claim_uid: String,
    /// How many attempts failed before.
    pub attempt: i32,
    /// Which backup.
    pub wish: RestoreWish,
    /// It is only read and compared; the UID is that of the EtcdRestore then, and no volume is mounted.
    pub check: bool,
}

/// A step, the reason for it, and when to look again if nothing happens before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub step: Step,
    /// Why. It also says the reason in one word, and makes the sentence.
    pub why: Why,
    /// When to look again.
    pub requeue: Duration,
    /// What an earlier rule proposed and the invariants forbid.
    pub forbidden: Option<Box<Forbidden>>,
}

/// A step that a rule proposed and that must not be taken: a bug in that rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// The step.
    pub step: Step,
    /// Why it must not be taken.
    pub violation: Violation,
}

impl Forbidden {
    /// For the condition.
    pub fn tell(&self) -> String {
        format!(
            "a step was not taken because it is not safe ({}): this is a bug in the operator, please report it with the log entry that names the step; everything else continues",
            self.violation
        )
    }
}

/// A health round of a settled cluster.
pub const SETTLED: Duration = Duration::from_secs(10);
/// Something is expected within a moment, and no watch will report it.
pub const SOON: Duration = Duration::from_millis(100);
/// Something may take a while.
pub const LATER: Duration = Duration::from_secs(2);

/// How far revisions are raised where a cluster goes on from older data, so that clients that watch notice that history
/// was cut.
pub(crate) const BUMP: u64 = 1_000_000_000;

impl Decision {
    /// A step that changes something; look again at once.
    pub fn act(step: Step, why: impl Into<Why>) -> Self {
        Self::new(step, why, Duration::ZERO)
    }

    /// Wait for something.
    pub fn wait(why: impl Into<Why>, requeue: Duration) -> Self {
        Self::new(Step::Wait, why, requeue)
    }

    /// Leave it to a person.
    pub fn refuse(why: impl Into<Why>) -> Self {
        Self::new(Step::Refuse, why, SETTLED)
    }

    /// All is as it should be.
    pub fn rest(why: impl Into<Why>, requeue: Duration) -> Self {
        Self::new(Step::Nothing, why, requeue)
    }

    /// Why, in one word.
    pub fn reason(&self) -> Reason {
        self.why.reason()
    }

    fn new(step: Step, why: impl Into<Why>, requeue: Duration) -> Self {
        Self {
            step,
            why: why.into(),
            requeue,
            forbidden: None,
        }
    }
}
