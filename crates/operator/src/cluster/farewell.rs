//! What is left to do when an object is gone: say so, and let go of its connections. Kubernetes deletes what
//! it owned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::v1alpha1::cluster::Retention;
use api::{ClusterIntent, EtcdCluster, Reason, names};
use kube::{Resource, ResourceExt};
use plan::events::Event;

use crate::caches::{self, Guarded};
use crate::cluster::{place, report};
use crate::context::Context;

/// Between two comparisons of what is kept with what there is.
const SWEEP: Duration = Duration::from_mins(1);

/// Called once for every object that is gone.
pub async fn farewell(gone: &Guarded, ctx: &Context) {
    let Ok(cluster) = &gone.0 else { return };
    let (namespace, name) = place(cluster);
    ctx.pool.retain(|target| {
        target.namespace != namespace || names::ordinal(&name, &target.pod).is_none()
    });
    let uid = cluster.uid().unwrap_or_default();
    forget(ctx, |known| known != uid);
    tracing::info!(namespace, name, "the object is gone");
    let event = Event {
        reason: Reason::ClusterDeleted,
        message: told(cluster),
        warning: false,
    };
    report::publish(cluster, &event, ctx).await;
}

/// Deletions that happen while a watch is interrupted are never reported. So every minute whatever is kept is compared
/// with what there is; connections to pods that are gone, after scaling in for one, go as well.
pub async fn sweep_for_ever(ctx: Arc<Context>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if ctx.caches.filled.initialized() {
            sweep(&ctx);
        }
    }
}

/// Forgets everything that belongs to no cluster and no pod in the caches.
pub fn sweep(ctx: &Context) {
    let clusters = ctx.caches.clusters.state();
    let uids = clusters
        .iter()
        .filter_map(|cluster| cluster.meta().uid.clone());
    let uids: BTreeSet<String> = uids.collect();
    forget(ctx, |known| uids.contains(known));
    ctx.pool.retain(|target| {
        let pod = caches::get(&ctx.caches.pods, &target.namespace, &target.pod);
        let address = pod.and_then(|pod| pod.status.as_ref()?.pod_ip.clone());
        address.as_ref() == Some(&target.address)
    });
}

fn forget(ctx: &Context, keep: impl Fn(&str) -> bool) {
    ctx.board.retain(&keep);
    ctx.found_right.retain(&keep);
    ctx.compared.retain(&keep);
    ctx.accounts.retain(&keep);
    ctx.watched.retain(&keep);
    ctx.refused.retain(&keep);
    ctx.attempts.retain(&keep);
    ctx.waits.retain(&keep);
    ctx.upkeep.retain(&keep);
    ctx.hashing.retain(&keep);
    ctx.vault.retain(&keep);
    ctx.sources.retain(&keep);
}

fn told(cluster: &EtcdCluster) -> String {
    let name = cluster.name_any();
    let claims = format!("{}-{name}-*", names::CLAIM_TEMPLATE);
    let policy = ClusterIntent::parse(&cluster.spec).map(|intent| intent.storage.when_deleted);
    match policy {
        Ok(Retention::Delete) => format!("deleted together with its claims {claims}"),
        Ok(Retention::Retain) | Err(_) => {
            format!(
                "deleted; its claims {claims} are kept, and an EtcdCluster named {name} resumes them"
            )
        }
    }
}
