//! Writes of objects that the API server refuses, puts off or lets an admission webhook undo, and objects of our names
//! that are not ours.

use api::names;
use manifests::{Kind, Shape};
use plan::observed::{Answer, Wish};

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

impl World {
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
