//! Writes of objects that the API server refuses, puts off or lets an admission webhook undo, and objects of our names
//! that are not ours.

use api::names;
use manifests::{Kind, Shape};
use plan::Step;
use plan::observed::{Answer, Wish};
use plan::status::Outcome;

use crate::world::act::Written;
use crate::world::{NAME, World};

/// What becomes of the writes of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Refused in words: a quota, a policy, a webhook that denies (403, 422).
    Refused,
    /// Put off: a conflict, or too many requests (409, 429).
    Later,
    /// Accepted, and nothing of it is there afterwards: a webhook that mutates.
    Undone,
    /// Accepted, but for a field that a webhook or another field manager changes back.
    Mutated,
    /// An object of that name belongs to another owner.
    Foreign,
}

/// Every object that can be refused, by the name that this world gives it.
pub const OBJECTS: [&str; 9] = [
    "account",
    "peer",
    "budget",
    "client",
    "StatefulSet",
    "claim 0",
    "claim 1",
    "claim 2",
    "claim 3",
];

/// Every step that can fail, by the name that this world gives it.
pub const STEPS: [&str; 24] = [
    "Grant",
    "AddLearner",
    "Promote",
    "RemoveMember",
    "RestartPod",
    "MoveLeader",
    "RetireMember",
    "DeleteClaim",
    "StopPod",
    "Downgrade",
    "ExpandClaim",
    "OrphanPods",
    "MarkRemoved",
    "RepeatGrant",
    "Compact",
    "Defragment",
    "Disarm",
    "AddDebugContainer",
    "IssueCertificates",
    "RequestCertificate",
    "RotateAuthority",
    "RefreshCertificates",
    "UpdatePeer",
    "ChangeAuth",
];

/// How a step ends of which nothing comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The API server or etcd rejects it.
    Rejected,
    /// It is put off each time.
    PutOff,
    /// It succeeds, and something undoes it.
    Undone,
}

/// The name of a step, and the ordinal that it is about.
fn named(step: &Step) -> Option<(&'static str, Option<u32>)> {
    Some(match step {
        Step::Nothing
        | Step::Wait
        | Step::Refuse
        | Step::RemoveFinalizer
        | Step::ApplyObjects(_)
        | Step::RestoreTemplate(_)
        | Step::Latch(_) => return None,
        Step::Fetch(fetch) => ("Fetch", Some(fetch.ordinal)),
        Step::EndFetch { .. } => ("EndFetch", None),
        Step::Grant { ordinal, .. } => ("Grant", Some(*ordinal)),
        Step::AddLearner { ordinal, .. } => ("AddLearner", Some(*ordinal)),
        Step::UpdatePeer { ordinal, .. } => ("UpdatePeer", Some(*ordinal)),
        Step::Promote { ordinal, .. } => ("Promote", Some(*ordinal)),
        Step::RemoveMember { ordinal, .. } => ("RemoveMember", Some(*ordinal)),
        Step::RestartPod { ordinal, .. } => ("RestartPod", Some(*ordinal)),
        Step::MoveLeader { ordinal, .. } => ("MoveLeader", Some(*ordinal)),
        Step::RetireMember { ordinal, .. } => ("RetireMember", Some(*ordinal)),
        Step::DeleteClaim { ordinal, .. } => ("DeleteClaim", Some(*ordinal)),
        Step::StopPod { ordinal, .. } => ("StopPod", Some(*ordinal)),
        Step::Downgrade { .. } => ("Downgrade", None),
        Step::ExpandClaim { ordinal, .. } => ("ExpandClaim", Some(*ordinal)),
        Step::OrphanPods { .. } => ("OrphanPods", None),
        Step::MarkRemoved { ordinal, .. } => ("MarkRemoved", Some(*ordinal)),
        Step::RepeatGrant { ordinal, .. } => ("RepeatGrant", Some(*ordinal)),
        Step::Compact { .. } => ("Compact", None),
        Step::Defragment { ordinal, .. } => ("Defragment", Some(*ordinal)),
        Step::Disarm { .. } => ("Disarm", None),
        Step::AddDebugContainer { ordinal, .. } => ("AddDebugContainer", Some(*ordinal)),
        Step::IssueCertificates(_) => ("IssueCertificates", None),
        Step::RequestCertificate => ("RequestCertificate", None),
        Step::RotateAuthority(_) => ("RotateAuthority", None),
        Step::RefreshCertificates { ordinal, .. } => ("RefreshCertificates", Some(*ordinal)),
        Step::ChangeAuth(_) => ("ChangeAuth", None),
    })
}

impl World {
    /// From now on this step fails; with an ordinal, only where it is about that.
    pub fn reject(&mut self, step: &'static str, ordinal: Option<u32>) {
        self.thwart(step, ordinal, Ends::Rejected);
    }

    /// From now on this step ends so, and nothing comes of it; with an ordinal, only where it is about that.
    pub fn thwart(&mut self, step: &'static str, ordinal: Option<u32>, ends: Ends) {
        self.rejects.insert((step, ordinal), ends);
    }

    /// How a step ends of which nothing comes.
    pub(super) fn thwarted(&self, step: &Step) -> Option<Outcome> {
        let (name, ordinal) = named(step)?;
        let all = self.rejects.get(&(name, None));
        let ends = all.or_else(|| self.rejects.get(&(name, ordinal)))?;
        Some(match ends {
            Ends::Rejected => Outcome::Failed(format!("admission webhook denied {name}")),
            Ends::PutOff => Outcome::NotNow(format!("{name} was put off")),
            Ends::Undone => Outcome::Done,
        })
    }

    /// From now on, writes of this object end so; `None` ends that.
    pub fn refuse(&mut self, object: &str, how: Option<How>) {
        match how {
            Some(how) => self.refuses.insert(object.to_owned(), how),
            None => self.refuses.remove(object),
        };
    }

    /// What becomes of a write.
    pub(super) fn fate(&self, object: &str) -> Option<How> {
        self.refuses.get(object).copied()
    }

    /// The StatefulSet controller makes claims as well, and is refused as we are.
    pub(super) fn can_have_claim(&self, ordinal: u32) -> bool {
        self.claims.contains_key(&ordinal) || self.fate(&format!("claim {ordinal}")).is_none()
    }
}

impl How {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Refused,
        Self::Later,
        Self::Undone,
        Self::Mutated,
        Self::Foreign,
    ];

    pub(super) fn answer(self) -> Answer {
        match self {
            Self::Refused => Answer::Refused("exceeded quota: compute".to_owned()),
            Self::Later => Answer::Later("too many requests".to_owned()),
            Self::Undone | Self::Mutated => Answer::Written,
            Self::Foreign => Answer::Foreign,
        }
    }
}

/// An object as the rules know it.
pub(super) fn wish(object: &Written, shape: &Shape) -> Wish {
    let (kind, name) = match object {
        Written::Small("account", _) => (Kind::ServiceAccount, NAME.to_owned()),
        Written::Small("budget", _) => (Kind::PodDisruptionBudget, NAME.to_owned()),
        Written::Small("peer", _) => (Kind::Service, names::peer_service(NAME)),
        Written::Small(..) | Written::NoClient => (Kind::Service, names::client_service(NAME)),
        Written::Claim(ordinal, _) => (Kind::PersistentVolumeClaim, names::claim(NAME, *ordinal)),
        Written::Set(_) => (Kind::StatefulSet, NAME.to_owned()),
    };
    let (body, template) = match object {
        Written::Small(_, content) => (content.to_string(), None),
        Written::Claim(_, lineage) => (lineage.clone(), None),
        Written::NoClient => (String::new(), None),
        Written::Set(set) => {
            let (hash, how) = (&set.template.hash, shape.template);
            let body = format!("{} {hash} {how:?} {:?}", set.replicas, set.template.fence);
            let tried = how == manifests::Template::Try;
            (body, tried.then(|| hash.clone()))
        }
    };
    let body = body.bytes().fold(7, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    Wish {
        kind,
        name,
        field: None,
        body,
        template,
    }
}
