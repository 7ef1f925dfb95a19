//! What was last seen of each cluster that its status does not say: a status that told the size of a database would be
//! written at every look. Two hundred bytes for each, and losing them costs nothing but the numbers until the next look.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::EtcdVersion;
use jiff::Timestamp;
use plan::Observed;
use plan::observed::{MemberList, Pod, Serving};

/// The last look at each cluster, by its UID.
#[derive(Debug, Default)]
pub struct Board(Mutex<BTreeMap<String, Seen>>);

/// What was seen of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Timestamp,
    /// How many members vote, as last listed.
    pub voters: Option<u64>,
    /// The release that is asked for.
    pub wanted: Option<EtcdVersion>,
    /// The largest database.
    pub database: Option<Database>,
    /// How many entries the member that is furthest behind the leader has not applied.
    pub lag: Option<u64>,
}

/// The database of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// Bytes of its file.
    pub size: u64,
    /// Bytes of them that hold data.
    pub in_use: u64,
    /// Bytes that it may have, where that is known.
    pub quota: Option<u64>,
}

impl Board {
    /// Keeps what a look saw.
    pub(crate) fn note(&self, observed: &Observed) {
        let mut seen = see(observed);
        let mut board = self.lock();
        let before = board.get(&observed.cluster.uid);
        seen.voters = seen.voters.or_else(|| before?.voters);
        board.insert(observed.cluster.uid.clone(), seen);
    }

    #[cfg(test)]
    pub(crate) fn put(&self, uid: &str, seen: Seen) {
        self.lock().insert(uid.to_owned(), seen);
    }

    /// What was last seen of the cluster with this UID.
    pub(crate) fn get(&self, uid: &str) -> Option<Seen> {
        self.lock().get(uid).copied()
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn see(observed: &Observed) -> Seen {
    let list = observed.etcd.members.as_ref();
    let voters = list.map(|list| u64::try_from(list.voters().count()).unwrap_or(u64::MAX));
    let serving = || ours(observed, list);
    let largest = serving().max_by_key(|serving| serving.space.size);
    let database = largest.map(|serving| Database {
        size: serving.space.size,
        in_use: serving.space.in_use,
        quota: observed.quota_of(serving),
    });
    let leader = observed.leader().and_then(|id| observed.serving_as(id));
    let lag = leader.and_then(|leader| {
        let behind = |serving: &Serving| leader.raft_index.saturating_sub(serving.applied_index);
        serving().map(behind).max()
    });
    let intent = observed.cluster.intent.as_ref().ok();
    Seen {
        at: observed.now,
        voters,
        wanted: intent.map(|intent| intent.version),
        database,
        lag,
    }
}

/// The members that respond, of this cluster and of no other.
fn ours<'a>(
    observed: &'a Observed,
    list: Option<&'a MemberList>,
) -> impl Iterator<Item = &'a Serving> {
    let id = list.map(|list| list.cluster_id);
    let serving = observed.pods.values().filter_map(Pod::serving);
    serving.filter(move |serving| id.is_none_or(|id| serving.cluster_id == id))
}
