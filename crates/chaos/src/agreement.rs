//! Whether all members hold the same data at one revision, by etcd's own hash of it.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, ensure};

use crate::members::{Members, Place};
use crate::wire::{Connection, Failure, Hash};

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) members: usize,
    pub(crate) revision: i64,
}

/// Asks every member for its hash at the highest revision any of them has reached.
pub(crate) async fn check(members: &Members) -> Result<Agreed> {
    let mut connections: BTreeMap<String, Connection> = BTreeMap::new();
    let mut revision = 0;
    for Place { pod, address } in members.all() {
        let connection = Connection::open(&address).await.map_err(told)?;
        // A linearizable read: afterwards this member has all that was written before.
        revision = revision.max(connection.revision().await.map_err(told)?);
        connections.insert(pod, connection);
    }
    let mut hashes = BTreeMap::new();
    for (pod, connection) in &connections {
        let hash = connection.hash(revision).await.map_err(told)?;
        hashes.insert(pod.clone(), hash);
    }
    compare(&hashes)?;
    Ok(Agreed {
        members: hashes.len(),
        revision,
    })
}

fn compare(hashes: &BTreeMap<String, Hash>) -> Result<()> {
    let mut different: Vec<&Hash> = hashes.values().collect();
    different.dedup();
    ensure!(different.len() == 1, "the members differ: {hashes:?}");
    Ok(())
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
        assert!(compare(&hashes([hash(1, 5), hash(1, 5), hash(1, 5)])).is_ok());
        assert!(compare(&hashes([hash(1, 5), hash(2, 5), hash(1, 5)])).is_err());
        assert!(compare(&hashes([hash(1, 5), hash(1, 5), hash(1, 6)])).is_err());
        assert!(compare(&BTreeMap::new()).is_err());
    }
}
