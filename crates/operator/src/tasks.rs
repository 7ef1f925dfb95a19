//! Long calls to members, beside the reconcile: one per cluster, so many at once, each with an end. What came of one is
//! there to be seen at a later look, so that none of them holds up a look.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// The long calls of all clusters, by UID.
pub struct Tasks<K, T> {
    calls: Arc<Mutex<BTreeMap<String, Task<K, T>>>>,
    places: Arc<Semaphore>,
    limit: Duration,
}

struct Task<K, T> {
    what: K,
    since: Timestamp,
    result: Option<T>,
    handle: AbortHandle,
}

/// What there is to be seen of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<K, T> {
    /// The call.
    pub what: K,
    /// When it was begun.
    pub since: Timestamp,
    /// What came of it; `None` while it goes on.
    pub result: Option<T>,
}

impl<K: Clone + Send + 'static, T: Send + 'static> Tasks<K, T> {
    /// So many calls at once, each for so long at most.
    pub fn new(places: usize, limit: Duration) -> Self {
        Self {
            calls: Arc::default(),
            places: Arc::new(Semaphore::new(places)),
            limit,
        }
    }

    /// Begins a call, unless this cluster has one already, under way or not looked at yet. `late` is what comes of it if
    /// it does not end in time. Says no where all places are taken: a call that waited for one would begin on a picture
    /// that is no longer true.
    pub fn start(
        &self,
        uid: &str,
        (what, since): (K, Timestamp),
        work: impl Future<Output = T> + Send + 'static,
        late: T,
    ) -> bool {
        let mut tasks = self.lock();
        if tasks.contains_key(uid) {
            return true;
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return false;
        };
        let limit = self.limit;
        let (all, key) = (Arc::clone(&self.calls), uid.to_owned());
        let run = async move {
            let result = tokio::time::timeout(limit, work).await.unwrap_or(late);
            drop(place);
            if let Some(task) = lock(&all).get_mut(&key) {
                task.result = Some(result);
            }
        };
        let handle = tokio::spawn(run).abort_handle();
        let task = Task {
            what,
            since,
            result: None,
            handle,
        };
        tasks.insert(uid.to_owned(), task);
        true
    }

    /// The call of a cluster. One that has ended is seen once.
    pub fn look(&self, uid: &str) -> Option<Seen<K, T>> {
        let mut tasks = self.lock();
        let task = tasks.get_mut(uid)?;
        let seen = Seen {
            what: task.what.clone(),
            since: task.since,
            result: task.result.take(),
        };
        if seen.result.is_some() {
            tasks.remove(uid);
        }
        Some(seen)
    }

    /// Ends and forgets the calls of every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, task| {
            let kept = keep(uid);
            if !kept {
                task.handle.abort();
            }
            kept
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Task<K, T>>> {
        lock(&self.calls)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing can be half done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    async fn result(tasks: &Tasks<&'static str, &'static str>, uid: &str) -> &'static str {
        loop {
            if let Some(result) = tasks.look(uid).unwrap().result {
                return result;
            }
            tokio::time::sleep(MILLI).await;
        }
    }

    #[tokio::test]
    async fn a_call_is_seen_while_it_goes_on_and_once_when_it_has_ended() {
        let tasks = Tasks::new(1, MILLI * 50);
        let since = Timestamp::UNIX_EPOCH;
        tasks.start("a", ("defragment", since), std::future::pending(), "late");
        // A second one of the same cluster is not begun, nor is one of another cluster for which there is no place.
        assert!(tasks.start("a", ("compact", since), async { "done" }, "late"));
        assert!(!tasks.start("b", ("compact", since), async { "done" }, "late"));
        tokio::time::sleep(MILLI * 5).await;
        let seen = tasks.look("a").unwrap();
        assert_eq!((seen.what, seen.result), ("defragment", None));
        assert_eq!(tasks.look("b"), None);
        assert_eq!(result(&tasks, "a").await, "late");
        assert_eq!(tasks.look("a"), None);
        assert!(tasks.start("b", ("compact", since), async { "done" }, "late"));
        assert_eq!(result(&tasks, "b").await, "done");
    }

    #[tokio::test]
    async fn the_call_of_a_cluster_that_is_gone_ends_with_it() {
        let tasks: Tasks<&str, ()> = Tasks::new(1, MILLI * 10_000);
        let (alive, gone) = tokio::sync::oneshot::channel::<()>();
        let work = async move {
            std::future::pending::<()>().await;
            drop(alive);
        };
        tasks.start("a", ("defragment", Timestamp::UNIX_EPOCH), work, ());
        tokio::time::sleep(MILLI).await;
        tasks.retain(|_| false);
        assert!(tasks.look("a").is_none());
        assert!(gone.await.is_err());
    }
}
