//! What a spec asks for that cannot be had, as far as it shows when it is written. The webhook refuses it then, by the same
//! functions with which the rules refuse to carry it out: what was stored before, or while no webhook served, meets those.
//!
//! CEL in the schema comes first. Here is what it cannot say: what needs another object, or the code of the rules.

use api::{ClusterIntent, EtcdCluster};

use crate::observed::Latched;
use crate::status;
use crate::target::decide_target;
use crate::why::{Small, Volumes};

/// What was read of other objects. What could not be read is not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The StorageClass that the spec names exists; `None` where it names none, or that is not known.
    pub class_exists: Option<bool>,
    /// The claims of the cluster whose class is known.
    pub claims: Vec<Claim>,
    /// Why something could not be read, each a sentence for the user.
    pub unread: Vec<String>,
}

/// A claim of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: Option<String>,
    /// Requested size in bytes.
    pub requested: u64,
    /// Its class can expand volumes; `None` where there is no such class.
    pub expandable: Option<bool>,
}

/// Something that stands in the way of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It cannot become right by itself.
    Wrong(String),
    /// Something is not there yet, and may come: manifests are applied in any order.
    Missing(String),
}

/// What the user is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why the spec is refused; empty where it is not.
    pub refused: Vec<String>,
    /// What else should be known.
    pub warnings: Vec<String>,
}

/// Judges a spec, and on an update what it makes of the one before. What is wrong with that one as well is no reason to
/// refuse: other fields can be corrected first.
pub fn judge(old: Option<&EtcdCluster>, new: &EtcdCluster, facts: &Facts) -> Verdict {
    let latched = old.map(remembered).unwrap_or_default();
    let before = old.map_or_else(Vec::new, |old| find(old, &latched, facts));
    let mut verdict = Verdict::default();
    for finding in find(new, &latched, facts) {
        let known = before.contains(&finding);
        match finding {
            Finding::Wrong(text) if known => verdict.warnings.push(text),
            Finding::Wrong(text) => verdict.refused.push(text),
            Finding::Missing(text) => verdict.warnings.push(text),
        }
    }
    verdict.warnings.extend(facts.unread.iter().cloned());
    verdict
}

/// Whether a claim can grow as it should; an error says why not.
pub fn growth(small: Small, expandable: Option<bool>) -> Result<(), Volumes> {
    match expandable {
        Some(true) => Ok(()),
        Some(false) => Err(Volumes::NotExpandable(small)),
        None => Err(Volumes::NoClass(small)),
    }
}

fn find(cluster: &EtcdCluster, latched: &Latched, facts: &Facts) -> Vec<Finding> {
    let intent = match ClusterIntent::parse(&cluster.spec) {
        Ok(intent) => intent,
        Err(invalid) => return vec![Finding::Wrong(invalid.to_string())],
    };
    let mut all = Vec::new();
    let refused = decide_target(&intent, latched).refused;
    all.extend(refused.map(|refused| Finding::Wrong(refused.to_string())));
    let storage = &intent.storage;
    let size = storage.size.to_string();
    let small = facts.claims.iter();
    let small = small.filter(|claim| claim.requested < storage.bytes);
    // Their class is mostly the same, and one sentence is enough.
    let blocked = small.filter_map(|claim| {
        let small = Small {
            claim: claim.name.clone(),
            class: claim.class.clone(),
            size: size.clone(),
        };
        let why = growth(small, claim.expandable).err()?;
        let text = why.to_string();
        Some(match claim.expandable {
            Some(_) => Finding::Wrong(text),
            None => Finding::Missing(text),
        })
    });
    all.extend(blocked.take(1));
    if let Some(class) = storage.class.as_ref().filter(|class| !class.is_empty())
        && facts.class_exists == Some(false)
    {
        all.push(Finding::Missing(format!(
            "there is no StorageClass {class}: no member of this cluster starts until it is created"
        )));
    }
    all
}

/// What is recorded of an object, unless it speaks of another object of this name.
fn remembered(cluster: &EtcdCluster) -> Latched {
    let uid = cluster.metadata.uid.clone().unwrap_or_default();
    let status = cluster.status.as_ref();
    let status = status.and_then(|status| status::of_object(status, &uid));
    status.map(status::latched).unwrap_or_default()
}

#[cfg(test)]
mod tests;
