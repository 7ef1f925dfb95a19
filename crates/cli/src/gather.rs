//! What is asked of the API server, with the user's rights and a deadline each. What may not be seen is said, not guessed.

use std::fmt::Debug;
use std::time::Duration;

use api::EtcdCluster;
use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::EtcdRestore;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Namespace, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::nearest::nearest;
use crate::report::{Subject, subjects};
use crate::trouble::{Asked, Trouble};

/// Resources, as rights name them.
pub const CLUSTERS: &str = "etcdclusters.etcd.etcd.io";
/// Resources of backups.
pub const BACKUPS: &str = "etcdbackups.etcd.etcd.io";
/// Resources of restores.
pub const RESTORES: &str = "etcdrestores.etcd.etcd.io";
const CRD: &str = "etcdclusters.etcd.etcd.io";

/// The API server answers within this time, or is said not to.
const PATIENCE: Duration = Duration::from_secs(15);
/// Objects in one answer.
const PAGE: u32 = 500;

/// An answer in time.
pub async fn within<T>(
    asked: &Asked,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Trouble> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|error| asked.failed(error)),
        Err(_late) => Err(Trouble::Unreachable {
            tried: format!("{} {}", asked.verb, asked.resource),
            why: format!(
                "the API server did not respond within {} s",
                PATIENCE.as_secs()
            ),
        }),
    }
}

/// Every object of a list, page by page.
async fn all<K>(api: &Api<K>, asked: &Asked, selector: &str) -> Result<Vec<K>, Trouble>
where
    K: Clone + DeserializeOwned + Debug,
{
    let (mut items, mut more) = (Vec::new(), None);
    loop {
        let mut page = ListParams::default().labels(selector).limit(PAGE);
        page.continue_token = more;
        let answer = within(asked, api.list(&page)).await?;
        items.extend(answer.items);
        more = answer.metadata.continue_.filter(|token| !token.is_empty());
        if more.is_none() {
            return Ok(items);
        }
    }
}

fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

async fn list<K>(
    client: &Client,
    resource: &'static str,
    namespace: Option<&str>,
) -> Result<Vec<K>, Trouble>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let asked = Asked::list(resource, namespace);
    all(&scoped(client, namespace), &asked, "").await
}

/// The clusters of a namespace, or all; and those that cannot be read.
pub async fn clusters(
    client: &Client,
    namespace: Option<&str>,
) -> Result<(Vec<EtcdCluster>, Vec<Trouble>), Trouble> {
    let guarded: Vec<DeserializeGuard<EtcdCluster>> = list(client, CLUSTERS, namespace).await?;
    let (mut clusters, mut troubles) = (Vec::new(), Vec::new());
    for guarded in guarded {
        match guarded.0 {
            Ok(cluster) => clusters.push(cluster),
            Err(invalid) => {
                let meta = &invalid.metadata;
                let place = (meta.namespace.as_deref(), meta.name.as_deref());
                let (namespace, name) = (place.0.unwrap_or("?"), place.1.unwrap_or("?"));
                let why = invalid.error.clone();
                troubles.push(Box::pin(unreadable(client, namespace, name, why)).await);
            }
        }
    }
    clusters.sort_by_key(|cluster| (cluster.namespace(), cluster.name_any()));
    Ok((clusters, troubles))
}

/// One cluster; where there is none of that name, those that look like it.
pub async fn cluster(client: &Client, namespace: &str, name: &str) -> Result<EtcdCluster, Trouble> {
    let api: Api<DeserializeGuard<EtcdCluster>> = scoped(client, Some(namespace));
    let asked = Asked::one("get", CLUSTERS, namespace, name);
    let found = timeout(PATIENCE, api.get(name)).await;
    if let Ok(Err(kube::Error::Api(status))) = &found
        && status.code == 404
    {
        // Rare: not on the stack of every look.
        return Err(Box::pin(absent(client, namespace, name)).await);
    }
    let found = match found {
        Ok(found) => found.map_err(|error| asked.failed(error))?,
        Err(_late) => within(&asked, api.get(name)).await?,
    };
    match found.0 {
        Ok(cluster) => Ok(cluster),
        Err(invalid) => {
            let why = invalid.error.clone();
            Err(Box::pin(unreadable(client, namespace, name, why)).await)
        }
    }
}

/// Either the name is wrong, or there is no such kind: a list tells.
async fn absent(client: &Client, namespace: &str, name: &str) -> Trouble {
    let here = match clusters(client, Some(namespace)).await {
        Ok((here, _)) => here,
        Err(trouble @ Trouble::NoKind(_)) => return trouble,
        Err(_not_told) => Vec::new(),
    };
    let here = here.iter().map(ResourceExt::name_any);
    let mut near = nearest(name, here);
    if near.is_empty()
        && let Ok((everywhere, _)) = clusters(client, None).await
    {
        let named = everywhere.iter().map(|cluster| {
            format!(
                "{}/{}",
                cluster.namespace().unwrap_or_default(),
                cluster.name_any()
            )
        });
        near = nearest(name, named);
    }
    Trouble::Absent {
        kind: "EtcdCluster",
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        near,
    }
}

async fn unreadable(client: &Client, namespace: &str, name: &str, why: String) -> Trouble {
    let crd = match crd(client).await {
        Ok(crd) => {
            crate::report::crd_version(&crd).unwrap_or_else(|| "without a version".to_owned())
        }
        Err(_not_seen) => "of a release that you may not see".to_owned(),
    };
    Trouble::Unreadable {
        object: format!("EtcdCluster {namespace}/{name}"),
        why,
        ours: env!("CARGO_PKG_VERSION"),
        crd,
    }
}

/// The pods of a cluster.
pub async fn pods(client: &Client, namespace: &str, cluster: &str) -> Result<Vec<Pod>, Trouble> {
    let selector = api::labels::selector_text(cluster);
    let asked = Asked::list("pods", Some(namespace));
    all(&scoped(client, Some(namespace)), &asked, &selector).await
}

/// The events of a namespace, the objects that tell of a cluster, and what could not be seen.
pub async fn events(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> Result<(Vec<Event>, Vec<Subject>, Vec<Trouble>), Trouble> {
    let events: Vec<Event> = list(client, "events", Some(namespace)).await?;
    let mut unseen = Vec::new();
    let backups: Vec<EtcdBackup> =
        or_none(list(client, BACKUPS, Some(namespace)).await, &mut unseen);
    let restores: Vec<EtcdRestore> =
        or_none(list(client, RESTORES, Some(namespace)).await, &mut unseen);
    let subjects = subjects(cluster, &backups, &restores);
    Ok((events, subjects.into_iter().collect(), unseen))
}

fn or_none<T>(answer: Result<Vec<T>, Trouble>, unseen: &mut Vec<Trouble>) -> Vec<T> {
    answer.unwrap_or_else(|trouble| {
        unseen.push(trouble);
        Vec::new()
    })
}

/// The EtcdBackups of a namespace.
pub async fn backups(client: &Client, namespace: &str) -> Result<Vec<EtcdBackup>, Trouble> {
    list(client, BACKUPS, Some(namespace)).await
}

/// The claims of a namespace.
pub async fn claims(
    client: &Client,
    namespace: &str,
) -> Result<Vec<PersistentVolumeClaim>, Trouble> {
    list(client, "persistentvolumeclaims", Some(namespace)).await
}

/// The budgets of a namespace.
pub async fn budgets(
    client: &Client,
    namespace: &str,
) -> Result<Vec<PodDisruptionBudget>, Trouble> {
    list(client, "poddisruptionbudgets.policy", Some(namespace)).await
}

/// The Services of a namespace.
pub async fn services(client: &Client, namespace: &str) -> Result<Vec<Service>, Trouble> {
    list(client, "services", Some(namespace)).await
}

/// Names of all namespaces.
pub async fn namespaces(client: &Client) -> Result<Vec<String>, Trouble> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = all(&api, &Asked::global("list", "namespaces", None), "").await?;
    Ok(found.iter().map(ResourceExt::name_any).collect())
}

/// The CRD of EtcdCluster.
pub async fn crd(client: &Client) -> Result<CustomResourceDefinition, Trouble> {
    let resource = "customresourcedefinitions.apiextensions.k8s.io";
    let asked = Asked::global("get", resource, Some(CRD));
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    within(&asked, get_global(&api, CRD)).await
}

async fn get_global<K>(api: &Api<K>, name: &str) -> Result<K, kube::Error>
where
    K: Resource<Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    api.get(name).await
}

/// The Deployments of operators, wherever they are.
pub async fn operators(client: &Client) -> Result<Vec<Deployment>, Trouble> {
    let asked = Asked::list("deployments.apps", None);
    let api: Api<Deployment> = Api::all(client.clone());
    let selector = format!("{}={}", api::labels::NAME, api::labels::OPERATOR);
    all(&api, &asked, &selector).await
}

/// Version of Kubernetes.
pub async fn kubernetes(client: &Client) -> Result<String, Trouble> {
    let asked = Asked::global("get", "/version", None);
    let version = within(&asked, client.apiserver_version()).await?;
    Ok(version.git_version)
}
