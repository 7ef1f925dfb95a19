//! Watch caches: what the API server says, kept current, trimmed to what is read.

use std::sync::Arc;

use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::EtcdRestore;
use api::v1alpha1::role::EtcdRole;
use api::v1alpha1::user::EtcdUser;
use api::{EtcdCluster, labels, names};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaim, Pod, PodSpec, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::store::{Writer, WriterDropped};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tokio::sync::mpsc::UnboundedSender;

use crate::health::Scope;

/// An `EtcdCluster`, or why it cannot be read: one malformed object must not stop the watch of the others.
pub type Guarded = DeserializeGuard<EtcdCluster>;

/// One cache per kind.
pub struct Caches {
    /// The clusters.
    pub clusters: Store<Guarded>,
    /// Users that are declared.
    pub users: Store<DeserializeGuard<EtcdUser>>,
    /// Roles that are declared.
    pub roles: Store<DeserializeGuard<EtcdRole>>,
    /// Backups that are declared.
    pub backups: Store<DeserializeGuard<EtcdBackup>>,
    /// Restores that are declared.
    pub restores: Store<DeserializeGuard<EtcdRestore>>,
    /// Jobs of keepers.
    pub jobs: Store<Job>,
    /// StatefulSets.
    pub statefulsets: Store<StatefulSet>,
    /// Services.
    pub services: Store<Service>,
    /// Service accounts.
    pub service_accounts: Store<ServiceAccount>,
    /// Disruption budgets.
    pub budgets: Store<PodDisruptionBudget>,
    /// Network policies.
    pub network_policies: Store<NetworkPolicy>,
    /// Claims.
    pub claims: Store<PersistentVolumeClaim>,
    /// Pods, of whose specs only the node is kept, and the command that says whose they are.
    pub pods: Store<Pod>,
    /// Secrets of certificates, of which only what they say of themselves is kept.
    pub secrets: Store<Secret>,
    /// What the name servers know of the members, without anything but addresses.
    pub slices: Store<EndpointSlice>,
    /// Set once all of them have been filled.
    pub filled: OnceCell<()>,
}

impl Caches {
    /// Waits until every cache has been filled once. A store wakes only the last one that waits for it,
    /// and every reconcile is a task of its own: so one waits for the stores and the others for that one.
    pub async fn ready(&self) -> Result<(), WriterDropped> {
        let fill = || async {
            self.clusters.wait_until_ready().await?;
            self.jobs.wait_until_ready().await?;
            self.statefulsets.wait_until_ready().await?;
            self.services.wait_until_ready().await?;
            self.service_accounts.wait_until_ready().await?;
            self.budgets.wait_until_ready().await?;
            self.network_policies.wait_until_ready().await?;
            self.claims.wait_until_ready().await?;
            self.secrets.wait_until_ready().await?;
            self.slices.wait_until_ready().await?;
            self.pods.wait_until_ready().await
        };
        self.filled.get_or_try_init(fill).await.copied()
    }
}

/// A stream of the clusters that something happened to.
pub type Triggers<K> = BoxStream<'static, Result<K, watcher::Error>>;

/// Watches every object of one kind that the operator made.
pub fn watch_owned<K>(api: Api<K>, trim: fn(&mut K), scope: &Scope) -> (Store<K>, Triggers<K>)
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let selector = format!("{}={}", labels::MANAGED_BY, labels::OPERATOR);
    watch(
        api,
        watcher::Config::default().labels(&selector),
        (trim, |_| {}),
        scope,
    )
}

/// Watches every object of one kind, by any author.
pub fn watch_all<K>(api: Api<K>, scope: &Scope) -> (Store<K>, Triggers<K>)
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    watch(api, watcher::Config::default(), (|_| {}, |_| {}), scope)
}

/// Watches what the name servers know of the members: slices bear the labels of their Service.
pub fn watch_slices(
    api: Api<EndpointSlice>,
    scope: &Scope,
) -> (Store<EndpointSlice>, Triggers<EndpointSlice>) {
    let owned = format!("{}={}", labels::MANAGED_BY, labels::OPERATOR);
    let selector = format!("{owned},{}=peer", labels::COMPONENT);
    let config = watcher::Config::default().labels(&selector);
    watch(api, config, (trim_slice, |_| {}), scope)
}

/// Of what a pod is made of only its node is read, and what its gate was told.
pub fn trim_pod(pod: &mut Pod) {
    let Some(spec) = pod.spec.take() else {
        return;
    };
    let mut containers = spec.containers;
    containers.retain(|container| container.name == names::ETCD_CONTAINER);
    let gates = containers.into_iter().map(|container| Container {
        name: container.name,
        command: container.command,
        ..Container::default()
    });
    pod.spec = Some(PodSpec {
        node_name: spec.node_name,
        containers: gates.collect(),
        ..PodSpec::default()
    });
}

fn trim_slice(slice: &mut EndpointSlice) {
    slice.ports = None;
    for endpoint in &mut slice.endpoints {
        *endpoint = Endpoint {
            addresses: std::mem::take(&mut endpoint.addresses),
            ..Endpoint::default()
        };
    }
}

/// Watches the clusters, and reports each that is gone.
pub fn watch_clusters(
    api: Api<Guarded>,
    gone: UnboundedSender<Guarded>,
    scope: &Scope,
) -> (Store<Guarded>, Triggers<Guarded>) {
    let tell = move |cluster: &Guarded| {
        // The receiver is gone when the operator stops.
        drop(gone.send(cluster.clone()));
    };
    watch(api, watcher::Config::default(), (|_| {}, tell), scope)
}

fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    (trim, gone): (fn(&mut K), impl Fn(&K) + Send + 'static),
    scope: &Scope,
) -> (Store<K>, Triggers<K>)
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let writer = Writer::<K>::default();
    let store = writer.as_reader();
    let cache = scope.cache(K::kind(&()));
    let stream = watcher(api, config)
        .default_backoff()
        .modify(move |object| {
            object.meta_mut().managed_fields = None;
            trim(object);
        })
        .inspect(move |event| match event {
            Ok(event) => {
                cache.hear(matches!(event, watcher::Event::InitDone));
                if let watcher::Event::Delete(object) = event {
                    gone(object);
                }
            }
            Err(error) => cache.fail(is_refused(error)),
        })
        .reflect(writer)
        .touched_objects();
    let namespace = scope.namespace().to_owned();
    (store, log_failures(stream, namespace).boxed())
}

/// The API server does not allow a watch, or does not know its kind: it will not fill by itself.
fn is_refused(error: &watcher::Error) -> bool {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code,
        _broken => return false,
    };
    matches!(code, 401 | 403 | 404)
}

/// A watch that fails is tried again, in its own time; that it fails must be seen. The controller never hears of it: it
/// would hold back every other watch as well, for longer each time, and with them the caches that they fill.
fn log_failures<K: Resource<DynamicType = ()>>(
    stream: impl Stream<Item = Result<K, watcher::Error>>,
    namespace: String,
) -> impl Stream<Item = Result<K, watcher::Error>> {
    stream.filter_map(move |item| {
        if let Err(error) = &item {
            tracing::warn!(kind = %K::kind(&()), namespace, %error, "watch failed, trying again");
        }
        futures::future::ready(item.ok().map(Ok))
    })
}

/// An API over one namespace, or all.
pub fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The cluster that an object of ours belongs to.
pub fn owner_of<K: Resource<DynamicType = ()>>(object: &K) -> Option<ObjectRef<Guarded>> {
    let cluster = object.meta().labels.as_ref()?.get(labels::CLUSTER)?;
    Some(ObjectRef::new(cluster).within(object.meta().namespace.as_deref()?))
}

/// The cluster that a user is declared for.
pub fn cluster_of_user(user: &DeserializeGuard<EtcdUser>) -> Option<ObjectRef<Guarded>> {
    let user = user.0.as_ref().ok()?;
    let namespace = user.metadata.namespace.as_deref()?;
    Some(ObjectRef::new(&user.spec.cluster_name).within(namespace))
}

/// The cluster that a role is declared for.
pub fn cluster_of_role(role: &DeserializeGuard<EtcdRole>) -> Option<ObjectRef<Guarded>> {
    let role = role.0.as_ref().ok()?;
    let namespace = role.metadata.namespace.as_deref()?;
    Some(ObjectRef::new(&role.spec.cluster_name).within(namespace))
}

/// Clusters that are looked at because something of theirs has changed.
#[derive(Default)]
pub struct Woken(Vec<BoxStream<'static, ObjectRef<Guarded>>>);

impl Woken {
    /// By all objects of a kind that the operator made, of which everything is kept.
    pub fn owned<K>(&mut self, client: &Client, namespace: Option<&str>, scope: &Scope) -> Store<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        self.by(watch_owned(scoped(client, namespace), |_| {}, scope))
    }

    /// By what a watch reports.
    pub fn by<K>(&mut self, (store, events): (Store<K>, Triggers<K>)) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        self.as_named((store, events), owner_of)
    }

    /// By what a watch reports of objects that name their cluster.
    pub fn as_named<K>(
        &mut self,
        (store, events): (Store<K>, Triggers<K>),
        cluster_of: fn(&K) -> Option<ObjectRef<Guarded>>,
    ) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        // A watch that fails was told of, and is tried again.
        let owners = events.filter_map(move |event| {
            let owner = event.ok().and_then(|object| cluster_of(&object));
            futures::future::ready(owner)
        });
        self.0.push(owners.boxed());
        store
    }

    /// All of them.
    pub fn clusters(self) -> impl Stream<Item = ObjectRef<Guarded>> + Send + 'static {
        futures::stream::select_all(self.0)
    }
}

/// One object from a cache.
pub fn get<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_pod_is_kept_where_it_runs_and_whose_it_is() {
        let mut pod: Pod = serde_json::from_value(serde_json::json!({"spec": {
            "nodeName": "n1", "serviceAccountName": "db",
            "containers": [
                {"name": "other", "command": ["sleep"]},
                {"name": names::ETCD_CONTAINER, "image": "etcd", "args": ["--name=db-0"],
                 "command": ["/agent/etcd-agent", "gate", "--cluster-uid", "u", "--"]},
            ],
        }}))
        .unwrap();
        trim_pod(&mut pod);
        let spec = pod.spec.unwrap();
        assert_eq!(manifests::named_object(&spec), Some("u"));
        assert_eq!(spec.node_name.as_deref(), Some("n1"));
        assert_eq!(spec.service_account_name, None);
        let kept = serde_json::to_value(&spec.containers).unwrap();
        let kept: Vec<&String> = kept[0].as_object().unwrap().keys().collect();
        assert_eq!(
            (spec.containers.len(), kept),
            (1, vec![&"command".into(), &"name".into()])
        );
    }

    #[test]
    fn only_what_the_api_server_says_is_a_refusal() {
        let said = |code| {
            let status = kube::core::Status::failure("no", "no").with_code(code);
            watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
        };
        for (code, refused) in [(403, true), (404, true), (429, false), (500, false)] {
            assert_eq!(is_refused(&said(code)), refused, "{code}");
        }
        assert!(!is_refused(&watcher::Error::NoResourceVersion));
    }

    #[tokio::test]
    async fn a_watch_that_fails_is_no_news_to_the_controller() {
        let items = [
            Err(watcher::Error::NoResourceVersion),
            Ok(Pod::default()),
            Err(watcher::Error::NoResourceVersion),
        ];
        let heard: Vec<_> = log_failures(futures::stream::iter(items), String::new())
            .collect()
            .await;
        assert!(matches!(heard.as_slice(), [Ok(_)]), "{heard:?}");
    }
}
