//! What has to be read of other objects to judge a spec: nothing for most. What cannot be read in time is left out and told.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{ClusterIntent, EtcdCluster, Quantity, labels};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use plan::admit::{Claim, Facts};

/// All reads together; less than the API server waits for the answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reads what a spec needs.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    (old, new): (Option<&EtcdCluster>, &EtcdCluster),
) -> Facts {
    match tokio::time::timeout(PATIENCE, look(client, namespace, (old, new))).await {
        Ok(facts) => facts,
        Err(_elapsed) => unread("the API server did not answer in time"),
    }
}

async fn look(
    client: &Client,
    namespace: &str,
    (old, new): (Option<&EtcdCluster>, &EtcdCluster),
) -> Facts {
    let intent = |cluster: &EtcdCluster| ClusterIntent::parse(&cluster.spec).ok();
    let Some(new_storage) = intent(new).map(|intent| intent.storage) else {
        return Facts::default();
    };
    let old_storage = old.and_then(intent).map(|intent| intent.storage);
    let classes = Api::all(client.clone());
    let named = new_storage.class.filter(|class| !class.is_empty());
    let was = old_storage.as_ref().and_then(|it| it.class.as_ref());
    let mut facts = Facts::default();
    if let Some(class) = named.filter(|class| was != Some(class)) {
        match exists(&classes, &class).await {
            Ok(found) => facts.class_exists = Some(found.is_some()),
            Err(error) => return unread(&error.to_string()),
        }
    }
    let grows = old_storage.is_some_and(|old| old.bytes < new_storage.bytes);
    if grows {
        match claims(client, namespace, &new.name_any()).await {
            Ok(claims) => facts.claims = claims,
            Err(error) => return unread(&error.to_string()),
        }
    }
    facts
}

fn unread(why: &str) -> Facts {
    let what = "whether the StorageClass allows this could not be checked";
    Facts {
        unread: vec![format!(
            "{what}: {why}; the condition of the EtcdCluster will tell"
        )],
        ..Facts::default()
    }
}

/// `None` where there is no such class, else whether it can expand volumes.
async fn exists(classes: &Api<StorageClass>, name: &str) -> kube::Result<Option<bool>> {
    let class = classes.get_opt(name).await?;
    Ok(class.map(|class| class.allow_volume_expansion == Some(true)))
}

async fn claims(client: &Client, namespace: &str, cluster: &str) -> kube::Result<Vec<Claim>> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let selector = format!(
        "{}={},{}={cluster}",
        labels::MANAGED_BY,
        labels::OPERATOR,
        labels::CLUSTER
    );
    let list = api.list(&ListParams::default().labels(&selector)).await?;
    let classes = Api::all(client.clone());
    let mut known: BTreeMap<String, Option<bool>> = BTreeMap::new();
    let mut all = Vec::new();
    for claim in list.items {
        let (name, goes) = (
            claim.name_any(),
            claim.metadata.deletion_timestamp.is_some(),
        );
        let spec = claim.spec.unwrap_or_default();
        let requests = spec.resources.and_then(|resources| resources.requests);
        let requested = requests.and_then(|mut requests| requests.remove("storage"));
        let requested = requested.and_then(|size| Quantity(size.0).value());
        let class = spec.storage_class_name.filter(|class| !class.is_empty());
        let (Some(requested), Some(class), false) = (requested, class, goes) else {
            continue;
        };
        let expandable = match known.get(&class) {
            Some(expandable) => *expandable,
            None => exists(&classes, &class).await?,
        };
        known.insert(class.clone(), expandable);
        all.push(Claim {
            name,
            class: Some(class),
            requested,
            expandable,
        });
    }
    Ok(all)
}
