//! Reads and writes the Secrets of certificates. Each is created, or replaced exactly as it was seen a moment ago; one of
//! another owner is never touched.

use api::certificates::Record;
use api::{EtcdCluster, names};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use plan::Observed;
use plan::status::Outcome;

use super::{changed_since, outcome_of};
use crate::certificates::keyring::Keyring;
use crate::certificates::secrets;
use crate::certificates::subjects::Subjects;
use crate::cluster::observe::owner;
use crate::cluster::place;
use crate::context::Context;

pub(super) const OPAQUE: &str = "Opaque";
pub(super) const PAIR: &str = "kubernetes.io/tls";

/// What was seen may be old: nothing is issued once the object has changed. An authority of ours that can be read is never
/// replaced: it lost its label, or what was recorded on it, and gets that back.
pub(super) async fn find_authority(
    cluster: &EtcdCluster,
    name: &str,
    ctx: &Context,
) -> Result<Option<Keyring>, Outcome> {
    if let Some(changed) = changed_since(cluster, ctx).await {
        return Err(changed);
    }
    let (namespace, _) = place(cluster);
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), &namespace);
    match secrets.get_opt(name).await {
        Ok(live) => Ok(live.as_ref().and_then(Keyring::read)),
        Err(error) => Err(outcome_of(&format!("Secret {name}"), Err::<(), _>(error))),
    }
}

/// The same, if the newest of them is the one that was seen.
pub(super) async fn read_seen(
    namespace: &str,
    name: &str,
    observed: &Observed,
    ctx: &Context,
) -> Result<Keyring, Outcome> {
    let keyring = read(namespace, name, ctx).await?;
    let seen = observed.certificates.authority.record();
    if seen.is_some_and(|seen| seen.authorities == keyring.newest.identity()) {
        Ok(keyring)
    } else {
        Err(Outcome::NotNow(format!("Secret {name} changed in between")))
    }
}

/// The authorities that a Secret holds.
async fn read(namespace: &str, name: &str, ctx: &Context) -> Result<Keyring, Outcome> {
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let what = format!("Secret {name}");
    let secret = match secrets.get(name).await {
        Ok(secret) => secret,
        Err(error) => return Err(outcome_of(&what, Err::<(), _>(error))),
    };
    let keyring = Keyring::read(&secret);
    keyring.ok_or_else(|| Outcome::Failed(format!("{what} holds no authorities of ours")))
}

/// The Secret of the members, if it still is what was seen.
pub(super) async fn read_members(
    subjects: &Subjects<'_>,
    seen: &Record,
    ctx: &Context,
) -> Result<Secret, Outcome> {
    let name = names::member_secret(subjects.name);
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), subjects.namespace);
    let live = match secrets.get(&name).await {
        Ok(live) => live,
        Err(error) => return Err(outcome_of(&format!("Secret {name}"), Err::<(), _>(error))),
    };
    if secrets::digest(live.data.as_ref()) == seen.data {
        Ok(live)
    } else {
        Err(Outcome::NotNow(format!("Secret {name} changes")))
    }
}

/// Writes the Secret that is there, if it is ours; with a version, only if it is still that one.
pub(super) async fn write(
    cluster: &EtcdCluster,
    (name, kind, version): (&str, &str, Option<&String>),
    entries: &[(String, String)],
    record: &Record,
    ctx: &Context,
) -> Result<(), Outcome> {
    let (namespace, _) = place(cluster);
    let mut secret = secrets::build(&owner(cluster), (name, kind), entries, record);
    secret.metadata.resource_version = version.cloned();
    let uid = cluster.uid().unwrap_or_default();
    put(&namespace, secret, &uid, ctx).await
}

/// Creates a Secret, or replaces the one that has this owner.
pub(super) async fn put(
    namespace: &str,
    mut secret: Secret,
    owner: &str,
    ctx: &Context,
) -> Result<(), Outcome> {
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let name = secret.name_any();
    let what = format!("Secret {name}");
    let params = PostParams {
        field_manager: Some(api::labels::OPERATOR.to_owned()),
        ..PostParams::default()
    };
    let written = match api.get_opt(&name).await {
        Err(error) => Err(error),
        Ok(None) if secret.metadata.resource_version.is_some() => {
            return Err(Outcome::NotNow(format!("{what} changed in between")));
        }
        Ok(None) => api.create(&params, &secret).await,
        Ok(Some(live)) => {
            let mut owners = live.owner_references().iter();
            if !owners.any(|of| of.uid == owner) {
                return Err(Outcome::Failed(format!(
                    "{what} has another owner and is left alone: delete or rename it"
                )));
            }
            secret.metadata.uid = live.uid();
            let seen = secret.metadata.resource_version.take();
            secret.metadata.resource_version = seen.or_else(|| live.resource_version());
            api.replace(&name, &params, &secret).await
        }
    };
    match outcome_of(&what, written) {
        Outcome::Done => Ok(()),
        other => Err(other),
    }
}
