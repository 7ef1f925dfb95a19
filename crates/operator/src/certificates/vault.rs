//! The operator's own identity towards the members of each cluster. It is issued from the authority of the cluster, lives in
//! memory only, and is issued again before it expires or when the authority changed. Losing it costs one request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{EtcdCluster, names};
use etcd::Credentials;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use manifests::tls::CLIENT_AUTHORITIES;

use super::Authorities;
use super::secrets::{record, text};
use super::subjects::Subjects;
use crate::cluster::observe::is_owned;
use crate::cluster::place;
use crate::context::Context;

/// Identities by the UID of their cluster.
#[derive(Default)]
pub struct Vault(Mutex<BTreeMap<String, Held>>);

struct Held {
    /// Version of the Secret that it was made from.
    version: String,
    renew_at: Timestamp,
    credentials: Arc<Credentials>,
}

impl Vault {
    /// What is presented to the members of a cluster.
    pub(crate) fn get(&self, uid: &str) -> Option<Arc<Credentials>> {
        let held = self.lock();
        held.get(uid).map(|held| Arc::clone(&held.credentials))
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn is_fresh(&self, uid: &str, version: &str, now: Timestamp) -> bool {
        let held = self.lock();
        held.get(uid)
            .is_some_and(|held| held.version == version && now < held.renew_at)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to it that there is an identity, made from the authority of now. Should that be gone or altered, the certificate for
/// clients serves, so that the members can be asked all the same; and should nothing be had, what there was is kept.
pub(crate) async fn refresh(cluster: &EtcdCluster, now: Timestamp, ctx: &Context) {
    let (namespace, name) = place(cluster);
    let uid = cluster.uid().unwrap_or_default();
    let usable = |secret: &str| {
        let live = crate::caches::get(&ctx.caches.secrets, &namespace, secret)?;
        // One that was altered, or is not ours, would cost an identity that works.
        let ours = is_owned(live.as_ref(), cluster) && record(&live).is_some();
        live.resource_version().filter(|_| ours)
    };
    let sources = [names::authority_secret(&name), names::client_secret(&name)];
    let source = sources
        .into_iter()
        .find_map(|source| Some((usable(&source)?, source)));
    let Some((version, source)) = source else {
        return;
    };
    let shown = shown_by_others(cluster, ctx);
    let version = format!("{source} {version} {shown:?}");
    if ctx.vault.is_fresh(&uid, &version, now) {
        return;
    }
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), &namespace);
    let secret = match secrets.get(&source).await {
        Ok(secret) => secret,
        Err(error) => {
            tracing::warn!(secret = source, %error, "the operator's own certificate cannot be issued");
            return;
        }
    };
    let trust = match shown {
        Some((shown, key, _)) => match secrets.get(&shown).await {
            Ok(secret) => text(&secret, key),
            Err(error) => {
                tracing::warn!(secret = shown, %error, "the authorities of the members cannot be read");
                return;
            }
        },
        None => None,
    };
    let made = issue(&secret, trust, now).or_else(|| take_over(&secret));
    let Some((credentials, renew_at)) = made else {
        tracing::warn!(
            secret = source,
            "no certificate for the operator can be made of it"
        );
        return;
    };
    let held = Held {
        version,
        renew_at,
        credentials: Arc::new(credentials),
    };
    ctx.vault.lock().insert(uid, held);
}

/// The Secret, its key and its version, with what members are verified by where another source issued their certificates.
fn shown_by_others(cluster: &EtcdCluster, ctx: &Context) -> Option<(String, &'static str, String)> {
    let (namespace, name) = place(cluster);
    let all = [
        (names::member_secret(&name), CLIENT_AUTHORITIES),
        (names::client_secret(&name), "ca.crt"),
    ];
    all.into_iter().find_map(|(secret, key)| {
        let live = crate::caches::get(&ctx.caches.secrets, &namespace, &secret)?;
        let copied = record(&live).is_some_and(|record| record.copied.is_some());
        let ours = is_owned(live.as_ref(), cluster) && copied;
        let version = live.resource_version().filter(|_| ours)?;
        Some((secret, key, version))
    })
}

/// From the authority; `trust` verifies the members where it is not that one alone.
fn issue(
    secret: &Secret,
    trust: Option<String>,
    now: Timestamp,
) -> Option<(Credentials, Timestamp)> {
    let authorities = Authorities::read(secret)?;
    let leaf = Subjects::operator(now);
    let pair = authorities.client.issue(&leaf).ok()?;
    let trust = trust.unwrap_or_else(|| authorities.client.certificate().to_owned());
    let credentials = Credentials::new(&trust, &pair.chain, pair.key.expose()).ok()?;
    Some((credentials, leaf.validity.renewal(now)))
}

/// From the certificate for clients, which lasts as long as its Secret is as it is.
fn take_over(secret: &Secret) -> Option<(Credentials, Timestamp)> {
    let of = |key: &str| text(secret, key);
    let key = pki::PrivateKey::from_pem(of("tls.key")?);
    let credentials = Credentials::new(&of("ca.crt")?, &of("tls.crt")?, key.expose()).ok()?;
    Some((credentials, Timestamp::MAX))
}
