//! An EtcdBackup of another namespace. Where the operator watches all namespaces it is in the cache; where it watches some, each
//! has caches of its own, and the API server is asked with the right to list that the watches need anyway.

use api::v1alpha1::backup::EtcdBackup;
use kube::Api;
use kube::api::ListParams;
use plan::backup::elsewhere::unwatched;

use super::Guarded;
use crate::caches::get;
use crate::context::Context;

/// The one of that name, if there is one that can be read; the error is a sentence for people.
pub(crate) async fn find(
    name: &str,
    namespace: &str,
    ctx: &Context,
) -> Result<Option<EtcdBackup>, String> {
    let named = &ctx.namespaces;
    if named.is_empty() {
        let backup = get(&ctx.caches.backups, namespace, name);
        return Ok(backup.and_then(|backup| backup.0.clone().ok()));
    }
    if !named.iter().any(|it| it == namespace) {
        return Err(unwatched(namespace));
    }
    let api: Api<Guarded> = Api::namespaced(ctx.client.clone(), namespace);
    let this = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = api.list(&this).await;
    let listed = listed
        .map_err(|error| format!("EtcdBackups of namespace {namespace} cannot be read: {error}"))?;
    Ok(listed.items.into_iter().find_map(|backup| backup.0.ok()))
}
