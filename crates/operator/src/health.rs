//! What the operator says of itself: whether it is ready to work, whether its loop still turns, and how its caches are.
//! Liveness never rests on the API server: a restart does not bring that back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use kube::runtime::reflector::Store;

use crate::caches::Guarded;
use crate::clock;

/// How often the API server is asked whether it is there.
const ASKED: Duration = Duration::from_secs(5);
/// It counts as away when it has not answered for so long.
const AWAY: Duration = Duration::from_secs(30);
/// Every cluster is looked at every ten seconds or so, and a look ends within seconds.
const WEDGED: Duration = Duration::from_mins(3);

/// What is known, as it comes in.
#[derive(Default)]
pub struct Health(Mutex<Facts>);

#[derive(Default)]
struct Facts {
    /// When the API server last answered.
    answered: Option<Instant>,
    /// When a look last ended, or there was nothing to look at.
    beat: Option<Instant>,
    /// This replica works, and others stand by.
    works: bool,
    caches: Vec<Arc<Cache>>,
    clusters: Vec<Store<Guarded>>,
}

/// What is known of the watch of one kind.
pub struct Cache {
    kind: String,
    state: Mutex<CacheState>,
}

/// How a cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    /// It was filled once.
    pub filled: bool,
    /// When the watch last brought something, or began again.
    pub news: Option<Timestamp>,
    /// Since when the watch fails.
    pub failing: Option<Timestamp>,
}

impl Cache {
    /// The watch brought something; with `filled`, it has brought everything there is.
    pub fn hear(&self, filled: bool) {
        let mut state = lock(&self.state);
        state.filled |= filled;
        state.news = Some(clock::now());
        state.failing = None;
    }

    /// The watch failed.
    pub fn fail(&self) {
        lock(&self.state).failing.get_or_insert_with(clock::now);
    }
}

impl Health {
    /// The cache of a kind, to be told what happens to it. Until it is filled, this replica is not ready.
    pub fn cache(&self, kind: impl Into<String>) -> Arc<Cache> {
        let cache = Arc::new(Cache {
            kind: kind.into(),
            state: Mutex::default(),
        });
        lock(&self.0).caches.push(Arc::clone(&cache));
        cache
    }

    /// From now on this replica works, on these clusters.
    pub fn work(&self, clusters: Store<Guarded>) {
        let mut facts = lock(&self.0);
        facts.works = true;
        facts.clusters.push(clusters);
    }

    /// A look has ended, however it did.
    pub fn beat(&self) {
        lock(&self.0).beat = Some(Instant::now());
    }

    /// The API server answered.
    pub fn answered(&self) {
        lock(&self.0).answered = Some(Instant::now());
    }

    /// Asks the API server for as long as the process lives whether it is there.
    pub async fn ask(self: Arc<Self>, client: Client) {
        loop {
            match client.apiserver_version().await {
                Ok(_) => self.answered(),
                Err(error) => tracing::warn!(%error, "the API server does not answer"),
            }
            tokio::time::sleep(ASKED).await;
        }
    }

    /// Why this replica is not ready.
    pub fn ready(&self) -> Result<(), String> {
        lock(&self.0).ready(Instant::now())
    }

    /// Why this process should be restarted.
    pub fn live(&self) -> Result<(), String> {
        lock(&self.0).live(Instant::now())
    }

    /// How the caches of every kind are; where there is one per namespace, the worst of them.
    pub fn caches(&self) -> BTreeMap<String, CacheState> {
        let mut worst: BTreeMap<String, CacheState> = BTreeMap::new();
        for cache in &lock(&self.0).caches {
            let state = *lock(&cache.state);
            let kind = worst.entry(cache.kind.clone()).or_insert(state);
            kind.filled &= state.filled;
            kind.news = kind.news.min(state.news);
            kind.failing = [kind.failing, state.failing].into_iter().flatten().min();
        }
        worst
    }
}

impl Facts {
    fn is_filled(&self) -> bool {
        self.caches.iter().all(|cache| lock(&cache.state).filled)
    }

    fn ready(&self, now: Instant) -> Result<(), String> {
        let answered = self.answered.ok_or("the API server has not answered yet")?;
        let away = now.saturating_duration_since(answered);
        if away > AWAY {
            return Err(format!(
                "the API server has not answered for {} s",
                away.as_secs()
            ));
        }
        let mut empty = self.caches.iter().filter(|c| !lock(&c.state).filled);
        match empty.next() {
            Some(cache) => Err(format!("the cache of {} is not filled yet", cache.kind)),
            None => Ok(()),
        }
    }

    /// Only a replica that works on clusters can be wedged.
    fn live(&mut self, now: Instant) -> Result<(), String> {
        let readable = |store: &Store<Guarded>| store.find(|cluster| cluster.0.is_ok()).is_some();
        let busy = self.works && self.is_filled() && self.clusters.iter().any(readable);
        if !busy {
            self.beat = Some(now);
            return Ok(());
        }
        let since = now.saturating_duration_since(*self.beat.get_or_insert(now));
        if since <= WEDGED {
            return Ok(());
        }
        Err(format!("no look has ended for {} s", since.as_secs()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing can be half done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    fn one_cluster() -> Store<Guarded> {
        let cluster = json!({"metadata": {"namespace": "prod", "name": "db"}, "spec": {}});
        let cluster = serde_json::from_value(cluster).unwrap();
        let mut writer = Writer::<Guarded>::default();
        writer.apply_watcher_event(&Event::Apply(DeserializeGuard(Ok(cluster))));
        writer.as_reader()
    }

    #[test]
    fn ready_is_who_hears_the_api_server_and_knows_what_there_is() {
        let health = Health::default();
        let start = Instant::now();
        let ready = |seconds| lock(&health.0).ready(start + Duration::from_secs(seconds));
        assert!(ready(0).is_err(), "it was never heard");
        lock(&health.0).answered = Some(start);
        assert_eq!(ready(0), Ok(()), "it stands by");
        assert!(ready(31).is_err(), "the API server is away");
        let pods = health.cache("Pod");
        assert!(ready(0).unwrap_err().contains("Pod"));
        pods.hear(false);
        assert!(ready(0).is_err());
        pods.hear(true);
        pods.fail();
        assert_eq!(ready(0), Ok(()), "what is known is known");
        assert!(health.caches()["Pod"].failing.is_some());
    }

    #[test]
    fn only_a_loop_that_has_work_and_stands_still_is_restarted() {
        let health = Health::default();
        let start = Instant::now();
        let live = |seconds| lock(&health.0).live(start + Duration::from_secs(seconds));
        assert_eq!(live(1000), Ok(()), "it stands by");
        health.work(one_cluster());
        let pods = health.cache("Pod");
        assert_eq!(
            live(2000),
            Ok(()),
            "its caches are empty: the API server is away"
        );
        pods.hear(true);
        assert_eq!(live(2180), Ok(()));
        assert!(live(2181).is_err());
        // The API server's absence is no reason.
        lock(&health.0).beat = Some(start + Duration::from_secs(2150));
        assert_eq!(live(2300), Ok(()));
        assert!(health.ready().is_err());
    }

    #[test]
    fn the_first_cluster_after_a_long_time_finds_it_alive() {
        let health = Health::default();
        let start = Instant::now();
        health.work(Writer::<Guarded>::default().as_reader());
        assert_eq!(
            lock(&health.0).live(start + Duration::from_secs(5000)),
            Ok(())
        );
        health.work(one_cluster());
        assert_eq!(
            lock(&health.0).live(start + Duration::from_secs(5010)),
            Ok(())
        );
    }
}
