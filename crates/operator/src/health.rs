//! What the operator says of itself: whether it is ready to work, whether its loop still turns, and how its caches are.
//! Liveness never rests on the API server: a restart does not bring that back.

use std::collections::{BTreeMap, BTreeSet};
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
    scopes: Vec<Arc<Scope>>,
    /// What the webhook needs before it can serve for the first time.
    admission: BTreeSet<&'static str>,
}

/// What is watched together: one namespace, or all of them. What cannot be read in one holds up no other.
pub struct Scope {
    namespace: Option<String>,
    caches: Mutex<Vec<Arc<Cache>>>,
    clusters: Mutex<Option<Store<Guarded>>>,
}

/// How far a scope has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Filling {
    /// Everything is known.
    Done,
    /// This kind is awaited.
    Awaits(String),
    /// This kind cannot be read.
    Unreadable(String),
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
    /// How often it failed.
    pub failures: u64,
    /// The same by the clock that is never set, and whether the API server refuses it.
    failed: Option<(Instant, bool)>,
}

impl CacheState {
    /// It is refused, or has failed for as long as the API server may be away.
    fn is_unreadable(&self, now: Instant) -> bool {
        self.failed
            .is_some_and(|(since, refused)| refused || now.saturating_duration_since(since) > AWAY)
    }
}

impl Cache {
    /// The watch brought something; with `filled`, it has brought everything there is.
    pub fn hear(&self, filled: bool) {
        let mut state = lock(&self.state);
        state.filled |= filled;
        state.news = Some(clock::now());
        state.failing = None;
        state.failed = None;
    }

    /// The watch failed; with `refused`, because the API server does not allow it or does not know the kind.
    pub fn fail(&self, refused: bool) {
        let mut state = lock(&self.state);
        state.failing.get_or_insert_with(clock::now);
        state.failures = state.failures.saturating_add(1);
        let (since, _) = state.failed.unwrap_or((Instant::now(), false));
        state.failed = Some((since, refused));
    }
}

impl Scope {
    /// The cache of a kind, to be told what happens to it. Until it is filled, or turns out to be unreadable, this
    /// replica is not ready.
    pub fn cache(&self, kind: impl Into<String>) -> Arc<Cache> {
        let cache = Arc::new(Cache {
            kind: kind.into(),
            state: Mutex::default(),
        });
        lock(&self.caches).push(Arc::clone(&cache));
        cache
    }

    /// From now on this replica works on these clusters.
    pub fn work(&self, clusters: Store<Guarded>) {
        *lock(&self.clusters) = Some(clusters);
    }

    /// The namespace; empty for all of them.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    fn filling(&self, now: Instant) -> Filling {
        let caches = lock(&self.caches);
        let mut missing = caches.iter().filter(|c| !lock(&c.state).filled).peekable();
        let Some(first) = missing.peek().map(|cache| self.describe(cache)) else {
            return Filling::Done;
        };
        match missing.find(|cache| lock(&cache.state).is_unreadable(now)) {
            Some(cache) => Filling::Unreadable(self.describe(cache)),
            None => Filling::Awaits(first),
        }
    }

    fn describe(&self, cache: &Cache) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} in namespace {namespace}", cache.kind),
            None => cache.kind.clone(),
        }
    }

    fn has_clusters(&self) -> bool {
        let clusters = lock(&self.clusters);
        let mut clusters = clusters.iter();
        clusters.any(|store| store.find(|cluster| cluster.0.is_ok()).is_some())
    }
}

impl Health {
    /// A namespace to be watched, or all of them.
    pub fn scope(&self, namespace: Option<&str>) -> Arc<Scope> {
        let scope = Arc::new(Scope {
            namespace: namespace.map(str::to_owned),
            caches: Mutex::default(),
            clusters: Mutex::default(),
        });
        lock(&self.0).scopes.push(Arc::clone(&scope));
        scope
    }

    /// A look has ended, however it did.
    pub fn beat(&self) {
        lock(&self.0).beat = Some(Instant::now());
    }

    /// The API server answered.
    pub fn answered(&self) {
        lock(&self.0).answered = Some(Instant::now());
    }

    /// This replica is not ready until the webhook has this for the first time.
    pub fn await_admission(&self, what: &'static str) {
        lock(&self.0).admission.insert(what);
    }

    /// The webhook has it.
    pub fn has_admission(&self, what: &'static str) {
        lock(&self.0).admission.remove(what);
    }

    /// Asks the API server whether it is there, for as long as the process runs.
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
        for scope in &lock(&self.0).scopes {
            for cache in lock(&scope.caches).iter() {
                let state = *lock(&cache.state);
                let kind = worst.entry(cache.kind.clone()).or_insert(CacheState {
                    failures: 0,
                    ..state
                });
                kind.failures = kind.failures.saturating_add(state.failures);
                kind.filled &= state.filled;
                kind.news = kind.news.min(state.news);
                kind.failing = [kind.failing, state.failing].into_iter().flatten().min();
            }
        }
        worst
    }

    /// Of every namespace that is watched, whether everything in it is known. Where not, its clusters are not looked at.
    pub fn scopes(&self) -> Vec<(String, bool)> {
        let now = Instant::now();
        let facts = lock(&self.0);
        let known = facts.scopes.iter().map(|scope| {
            let filled = scope.filling(now) == Filling::Done;
            (scope.namespace().to_owned(), filled)
        });
        known.collect()
    }
}

impl Facts {
    fn ready(&self, now: Instant) -> Result<(), String> {
        let answered = self.answered.ok_or("the API server has not answered yet")?;
        let away = now.saturating_duration_since(answered);
        if away > AWAY {
            return Err(format!(
                "the API server has not answered for {} s",
                away.as_secs()
            ));
        }
        if let Some(what) = self.admission.first() {
            return Err(format!("the {what} of the webhook is not there yet"));
        }
        let mut unreadable = None;
        let mut readable = self.scopes.is_empty();
        for scope in &self.scopes {
            match scope.filling(now) {
                Filling::Done => readable = true,
                Filling::Awaits(what) => {
                    return Err(format!("the cache of {what} is not filled yet"));
                }
                Filling::Unreadable(what) => unreadable = Some(what),
            }
        }
        match unreadable {
            // The others are worked on; logs and metrics report this one.
            Some(what) if !readable => Err(format!("{what} cannot be read")),
            _some_can_be_read => Ok(()),
        }
    }

    /// Only a replica that works on clusters can be wedged.
    fn live(&mut self, now: Instant) -> Result<(), String> {
        let busy = |scope: &Arc<Scope>| scope.has_clusters() && scope.filling(now) == Filling::Done;
        if !self.scopes.iter().any(busy) {
            self.beat = Some(now);
            return Ok(());
        }
        let since = now.saturating_duration_since(*self.beat.get_or_insert(now));
        if since <= WEDGED {
            return Ok(());
        }
        Err(format!(
            "no reconcile has finished for {} s",
            since.as_secs()
        ))
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
        let pods = health.scope(None).cache("Pod");
        assert!(ready(0).unwrap_err().contains("Pod"));
        pods.hear(false);
        assert!(ready(0).is_err());
        pods.hear(true);
        pods.fail(false);
        assert_eq!(ready(0), Ok(()), "what is known is known");
        assert!(health.caches()["Pod"].failing.is_some());
    }

    #[test]
    fn only_a_loop_that_has_work_and_stands_still_is_restarted() {
        let health = Health::default();
        let start = Instant::now();
        let live = |seconds| lock(&health.0).live(start + Duration::from_secs(seconds));
        assert_eq!(live(1000), Ok(()), "it stands by");
        let scope = health.scope(None);
        scope.work(one_cluster());
        let pods = scope.cache("Pod");
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
    fn a_namespace_that_cannot_be_read_holds_up_no_other() {
        let health = Health::default();
        health.answered();
        let start = Instant::now();
        let (ours, closed) = (health.scope(Some("ours")), health.scope(Some("closed")));
        let (pods, refused) = (ours.cache("Pod"), closed.cache("Pod"));
        let ready = || lock(&health.0).ready(start);
        let awaited = "the cache of Pod in namespace ours is not filled yet";
        assert_eq!(ready(), Err(awaited.to_owned()));
        pods.hear(true);
        assert!(ready().is_err(), "the other one may come");
        refused.fail(false);
        assert!(ready().is_err(), "the API server may only be busy");
        refused.fail(true);
        assert_eq!(ready(), Ok(()));
        let told = [("ours".to_owned(), true), ("closed".to_owned(), false)];
        assert_eq!(health.scopes(), told);
        // The loop is watched over as well.
        ours.work(one_cluster());
        let live = |seconds| lock(&health.0).live(start + Duration::from_secs(seconds));
        assert_eq!(live(1000), Ok(()));
        assert!(live(2000).is_err());
        // It was allowed at last.
        refused.hear(true);
        assert!(health.scopes().iter().all(|(_, filled)| *filled));
    }

    #[test]
    fn a_replica_that_can_read_nothing_is_not_ready() {
        let health = Health::default();
        health.answered();
        for namespace in ["a", "b"] {
            health.scope(Some(namespace)).cache("Pod").fail(true);
        }
        let told = health.ready().unwrap_err();
        assert_eq!(told, "Pod in namespace b cannot be read");
    }

    #[test]
    fn a_watch_that_fails_for_long_holds_up_no_other_namespace() {
        let health = Health::default();
        health.answered();
        health.scope(Some("a")).cache("Pod").hear(true);
        health.scope(Some("b")).cache("Pod").fail(false);
        let start = Instant::now();
        let ready = |seconds| {
            let mut facts = lock(&health.0);
            let now = start + Duration::from_secs(seconds);
            facts.answered = Some(now);
            facts.ready(now)
        };
        assert!(ready(20).is_err());
        assert_eq!(ready(40), Ok(()));
    }

    #[test]
    fn the_first_cluster_after_a_long_time_finds_it_alive() {
        let health = Health::default();
        let start = Instant::now();
        let scope = health.scope(None);
        scope.work(Writer::<Guarded>::default().as_reader());
        assert_eq!(
            lock(&health.0).live(start + Duration::from_secs(5000)),
            Ok(())
        );
        scope.work(one_cluster());
        assert_eq!(
            lock(&health.0).live(start + Duration::from_secs(5010)),
            Ok(())
        );
    }
}
