//! Whether the class of a claim that is to grow can expand volumes. Asked for only then, and rarely: no cache.

use api::EtcdCluster;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use plan::Observed;

use super::kubernetes::classes;
use crate::context::Context;

pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let target = observed.cluster.target.as_ref();
    let Some(wanted) = target.and_then(|target| target.intent.storage.size.value()) else {
        return;
    };
    let api: Api<StorageClass> = Api::all(ctx.client.clone());
    for (ordinal, class) in classes(cluster, wanted, ctx) {
        let expandable = match class.filter(|class| !class.is_empty()) {
            Some(class) => api.get_opt(&class).await.ok().flatten(),
            None => None,
        };
        if let Some(claim) = observed.claims.get_mut(&ordinal) {
            claim.expandable = expandable.map(|class| class.allow_volume_expansion == Some(true));
        }
    }
}
