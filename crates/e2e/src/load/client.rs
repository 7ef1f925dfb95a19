//! Where the members are, and which of them a client asks next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::{ClusterIntent, EtcdCluster, Plane};
use etcd::{Credentials, DirectTcp, Member, Pool, Target};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::Notify;

use crate::secrets;

/// How long one attempt may take. Below the limit of a gap: one attempt that is lost on the way is not yet an outage.
const DEADLINE: Duration = Duration::from_millis(700);
/// How often the addresses are looked up when nothing fails.
const REFRESH: Duration = Duration::from_millis(500);
/// How soon a member may be asked again that just failed.
const PAUSE: Duration = Duration::from_millis(20);

/// The addresses of all members, whether ready or not, as the headless Service has them.
pub(super) struct Addresses {
    slices: Api<EndpointSlice>,
    namespace: String,
    cluster: String,
    service: String,
    client: kube::Client,
    credentials: Mutex<Option<Arc<Credentials>>>,
    known: Mutex<Vec<Target>>,
    doubted: Notify,
}

impl Addresses {
    pub(super) fn new(
        client: kube::Client,
        (namespace, cluster): (&str, &str),
        credentials: Option<Arc<Credentials>>,
    ) -> Self {
        Self {
            slices: Api::namespaced(client.clone(), namespace),
            client,
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
            credentials: Mutex::new(credentials),
            service: format!("kubernetes.io/service-name={cluster}-peer"),
            known: Mutex::default(),
            doubted: Notify::new(),
        }
    }

    /// Looks again and again, and at once when a request failed.
    pub(super) async fn keep_current(&self) {
        let ours = ListParams::default().labels(&self.service);
        loop {
            // What cannot be read stays as it was.
            if let Ok(slices) = self.slices.list(&ours).await {
                let found = slices.iter().flat_map(|slice| self.targets(slice));
                *self.lock() = found.collect();
            }
            self.renew().await;
            tokio::time::sleep(PAUSE).await;
            // Either will do.
            drop(tokio::time::timeout(REFRESH, self.doubted.notified()).await);
        }
    }

    /// A client that lives longer than its certificate reads the Secret again. It goes from plaintext to TLS, and back, when
    /// the status offers both, and the spec says where the members are going.
    async fn renew(&self) {
        let uses_tls = match self.offered().await {
            Some(offered) => offered,
            None => self.credentials().is_some(),
        };
        if !uses_tls {
            self.set_credentials(None);
            return;
        }
        let (namespace, cluster) = (&self.namespace, &self.cluster);
        if let Ok(published) = secrets::credentials(&self.client, namespace, cluster).await {
            self.set_credentials(Some(Arc::new(published)));
        }
    }

    /// Whether a client is to use TLS; `None` where that cannot be read.
    async fn offered(&self) -> Option<bool> {
        let objects: Api<EtcdCluster> = Api::namespaced(self.client.clone(), &self.namespace);
        let object = objects.get(&self.cluster).await.ok()?;
        let asked = ClusterIntent::parse(&object.spec).ok()?;
        let endpoints = object.status?.client_endpoints;
        let offers = |scheme: &str| endpoints.iter().any(|it| it.starts_with(scheme));
        match (offers("http:"), offers("https:")) {
            (true, true) => Some(asked.tls.transport.client != Plane::Plain),
            (false, true) => Some(true),
            (true, false) => Some(false),
            (false, false) => None,
        }
    }

    fn set_credentials(&self, credentials: Option<Arc<Credentials>>) {
        let mut known = self
            .credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *known = credentials;
    }

    fn credentials(&self) -> Option<Arc<Credentials>> {
        let known = self
            .credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn targets<'a>(&'a self, slice: &'a EndpointSlice) -> impl Iterator<Item = Target> + 'a {
        slice.endpoints.iter().filter_map(|endpoint| {
            Some(Target {
                namespace: self.namespace.clone(),
                pod: endpoint.target_ref.as_ref()?.name.clone()?,
                address: endpoint.addresses.first()?.clone(),
            })
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Target>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client with connections of its own. It stays with a member that answers.
pub(super) struct Client {
    addresses: Arc<Addresses>,
    pool: Pool,
    failures: BTreeMap<Target, Instant>,
    current: Option<Target>,
}

impl Client {
    pub(super) fn new(addresses: &Arc<Addresses>) -> Self {
        Self {
            addresses: Arc::clone(addresses),
            pool: Pool::new(Arc::new(DirectTcp)),
            failures: BTreeMap::new(),
            current: None,
        }
    }

    /// The member to ask: the one that answered last, else the one whose last failure is the longest ago.
    pub(super) async fn member(&mut self) -> Option<Member> {
        let known = self.addresses.lock().clone();
        self.failures.retain(|target, _| known.contains(target));
        let stays = self.current.take().filter(|target| known.contains(target));
        let next = || {
            let longest_ago = |target: &&Target| self.failures.get(*target).copied();
            known.iter().min_by_key(longest_ago).cloned()
        };
        let chosen = stays.or_else(next);
        let just_failed = chosen
            .as_ref()
            .and_then(|target| self.failures.get(target))
            .is_some_and(|failure| failure.elapsed() < PAUSE);
        if just_failed || chosen.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
        self.current.clone_from(&chosen);
        let (chosen, addresses) = (chosen?, &self.addresses);
        let place = (addresses.cluster.as_str(), addresses.namespace.as_str());
        let security = secrets::security(addresses.credentials().as_ref(), place, &chosen.pod);
        let member = self.pool.member(&chosen, &security);
        Some(member.with_deadline(DEADLINE))
    }

    /// The member did not answer, or refused.
    pub(super) fn failed(&mut self) {
        if let Some(target) = self.current.take() {
            self.failures.insert(target, Instant::now());
        }
        self.addresses.doubted.notify_one();
    }
}
