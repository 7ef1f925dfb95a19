//! What is left to do when an object is gone: say so, and let go of its connections. Kubernetes deletes what
//! it owned.

use api::v1alpha1::cluster::Retention;
use api::{ClusterIntent, EtcdCluster, Reason, names};
use kube::ResourceExt;
use plan::events::Event;

use crate::caches::Guarded;
use crate::cluster::{place, report};
use crate::context::Context;

/// Called once for every object that is gone.
pub async fn farewell(gone: &Guarded, ctx: &Context) {
    let Ok(cluster) = &gone.0 else { return };
    let (namespace, name) = place(cluster);
    ctx.pool.retain(|target| {
        target.namespace != namespace || names::ordinal(&name, &target.pod).is_none()
    });
    let uid = cluster.uid().unwrap_or_default();
    ctx.found_right.remember(&uid, None);
    ctx.compared.forget(&uid);
    ctx.watched.forget(&uid);
    ctx.refused.forget(&uid);
    tracing::info!(namespace, name, "the object is gone");
    let event = Event {
        reason: Reason::ClusterDeleted,
        message: told(cluster),
        warning: false,
    };
    report::publish(cluster, &event, ctx).await;
}

fn told(cluster: &EtcdCluster) -> String {
    let name = cluster.name_any();
    let claims = format!("{}-{name}-*", names::CLAIM_TEMPLATE);
    let policy = ClusterIntent::parse(&cluster.spec).map(|intent| intent.storage.when_deleted);
    match policy {
        Ok(Retention::Delete) => format!("deleted, and its claims {claims} with it"),
        Ok(Retention::Retain) | Err(_) => {
            format!(
                "deleted; its claims {claims} are kept, and an EtcdCluster named {name} resumes them"
            )
        }
    }
}
