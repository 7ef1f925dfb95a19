//! Whether all members hold the same data at one revision, by etcd's own hash of it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow, ensure};

use crate::members::Members;
use crate::wire::{Connection, Failure, Hash};

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) members: usize,
    pub(crate) revision: i64,
}

/// What was found once every member had answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Same(Agreed),
    /// For good: no member may be asked again until it agrees, because the operator replaces one whose data differs.
    Different(String),
}

/// Asks every member for its hash at the highest revision any of them has reached. An error means that it could not be
/// found out now.
pub(crate) async fn check(members: &Members) -> Result<Found> {
    let mut connections: BTreeMap<String, Connection> = BTreeMap::new();
    let mut revision = 0;
    for place in members.all() {
        let connection = Connection::open(&place).await.map_err(told)?;
        // A linearizable read: afterwards this member has all that was written before.
        revision = revision.max(connection.revision().await.map_err(told)?);
        connections.insert(place.pod, connection);
    }
    let mut hashes = BTreeMap::new();
    for (pod, connection) in &connections {
        let hash = connection.hash(revision).await.map_err(told)?;
        hashes.insert(pod.clone(), hash);
    }
    compare(&hashes, revision)
}

/// Hashes are comparable where both members have compacted as far.
fn compare(hashes: &BTreeMap<String, Hash>, revision: i64) -> Result<Found> {
    let compacted: BTreeSet<i64> = hashes.values().map(|hash| hash.compacted).collect();
    ensure!(
        compacted.len() == 1,
        "the members have compacted up to {compacted:?}"
    );
    let mut different: Vec<&Hash> = hashes.values().collect();
    different.dedup();
    Ok(if different.len() == 1 {
        Found::Same(Agreed {
            members: hashes.len(),
            revision,
        })
    } else {
        Found::Different(format!("the members differ: {hashes:?}"))
    })
}

fn told(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Refused(why) | Failure::Unknown(why) => anyhow!(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_differ_are_found() {
        let hash = |hash, compacted| Hash { hash, compacted };
        let hashes = |list: [Hash; 3]| -> BTreeMap<String, Hash> {
            (0..)
                .zip(list)
                .map(|(i, hash)| (format!("c-{i}"), hash))
                .collect()
        };
        let found = |list| compare(&hashes(list), 7);
        let same = found([hash(1, 5), hash(1, 5), hash(1, 5)]);
        assert!(matches!(
            same,
            Ok(Found::Same(Agreed {
                members: 3,
                revision: 7
            }))
        ));
        let different = found([hash(1, 5), hash(2, 5), hash(1, 5)]);
        assert!(matches!(different, Ok(Found::Different(_))));
        // One that has not compacted yet is asked again.
        assert!(found([hash(1, 5), hash(1, 5), hash(2, 6)]).is_err());
        assert!(compare(&BTreeMap::new(), 7).is_err());
    }
}
