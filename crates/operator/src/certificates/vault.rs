//! The operator's own identity towards the members of each cluster. It is issued from the authority of the cluster, lives in
//! memory only, and is issued again before it expires or when the authority changed. Losing it costs one request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{EtcdCluster, names};
use etcd::Credentials;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use manifests::tls::{CLIENT_AUTHORITIES, SERVER, entry};

use super::keyring::Keyring;
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
    /// When it expires, if it is the operator's own; a certificate that was borrowed identifies another.
    own_until: Option<Timestamp>,
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

    fn has_its_own(&self, uid: &str, now: Timestamp) -> bool {
        let held = self.lock();
        let own = held.get(uid).and_then(|held| held.own_until);
        own.is_some_and(|until| now < until)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to it that there is an identity, made from the authority that issued what the members show. Should that be gone, the
/// certificate for clients serves, or one of a member, so that the members can be asked all the same; and should nothing be
/// had, what there was is kept.
pub(crate) async fn refresh(cluster: &EtcdCluster, now: Timestamp, ctx: &Context) {
    let (namespace, _) = place(cluster);
    let uid = cluster.uid().unwrap_or_default();
    let Some((source, version)) = source(cluster, now, ctx) else {
        return;
    };
    // etcd may know its users by their certificates: what is borrowed is used only where nothing else is left.
    if matches!(source, Source::Pair { .. }) && ctx.vault.has_its_own(&uid, now) {
        return;
    }
    let shown = shown_by_others(cluster, ctx);
    let version = format!("{source:?} {version} {shown:?}");
    if ctx.vault.is_fresh(&uid, &version, now) {
        return;
    }
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), &namespace);
    let secret = match secrets.get(source.secret()).await {
        Ok(secret) => secret,
        Err(error) => {
            let secret = source.secret();
            tracing::warn!(secret, %error, "the operator's own certificate cannot be issued");
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
    let made = match &source {
        Source::Authority { issuer, .. } => issue(&secret, issuer, trust, now),
        Source::Pair { keys, .. } => take_over(&secret, keys),
    };
    let Some((credentials, renew_at)) = made else {
        tracing::warn!(
            secret = source.secret(),
            "no certificate for the operator can be made of it"
        );
        return;
    };
    let own = matches!(source, Source::Authority { .. });
    let held = Held {
        version,
        renew_at,
        own_until: own.then(|| Subjects::operator(now).validity.until),
        credentials: Arc::new(credentials),
    };
    ctx.vault.lock().insert(uid, held);
}

/// What an identity is made from.
#[derive(Debug)]
enum Source {
    /// The authority with this identity, in a Secret.
    Authority { secret: String, issuer: String },
    /// A certificate that is there: the authorities, the certificate and the key.
    Pair { secret: String, keys: [String; 3] },
}

impl Source {
    fn secret(&self) -> &str {
        match self {
            Self::Authority { secret, .. } | Self::Pair { secret, .. } => secret,
        }
    }
}

/// The best that the caches know of, and its version. One that was altered, or is not ours, would cost an identity that works.
fn source(cluster: &EtcdCluster, now: Timestamp, ctx: &Context) -> Option<(Source, String)> {
    let (namespace, name) = place(cluster);
    let usable = |secret: &str| {
        let live = crate::caches::get(&ctx.caches.secrets, &namespace, secret)?;
        let record = record(&live).filter(|_| is_owned(live.as_ref(), cluster))?;
        Some((record, live.resource_version()?))
    };
    let members = usable(&names::member_secret(&name));
    let secret = names::authority_secret(&name);
    if let Some((ours, version)) = usable(&secret) {
        let rotation = ours.rotation.as_ref();
        let previous = rotation.and_then(|it| it.previous.clone());
        let shown = members.as_ref().map(|(record, _)| &record.authorities);
        let issuer = match shown {
            Some(shown) if *shown == ours.authorities => Some(ours.authorities),
            Some(shown) => previous.filter(|previous| previous == shown),
            // While the way to the newest is not at its end, the one before is trusted by all.
            None => previous.or(Some(ours.authorities)),
        };
        if let Some(issuer) = issuer {
            return Some((Source::Authority { secret, issuer }, version));
        }
    }
    let secret = names::client_secret(&name);
    if let Some((_, version)) = usable(&secret).filter(|(record, _)| record.not_after.0 > now) {
        let keys = ["ca.crt", "tls.crt", "tls.key"].map(str::to_owned);
        return Some((Source::Pair { secret, keys }, version));
    }
    let (_, version) = members?;
    let member = names::member(&name, 0);
    let keys = [
        CLIENT_AUTHORITIES.to_owned(),
        entry(&member, SERVER, false),
        entry(&member, SERVER, true),
    ];
    let secret = names::member_secret(&name);
    Some((Source::Pair { secret, keys }, version))
}

/// The Secret, its key and its version, with what members are verified by where that is more than our own authority.
fn shown_by_others(cluster: &EtcdCluster, ctx: &Context) -> Option<(String, &'static str, String)> {
    let (namespace, name) = place(cluster);
    let all = [
        (names::member_secret(&name), CLIENT_AUTHORITIES),
        (names::client_secret(&name), "ca.crt"),
    ];
    all.into_iter().find_map(|(secret, key)| {
        let live = crate::caches::get(&ctx.caches.secrets, &namespace, &secret)?;
        let more = record(&live).is_some_and(|it| it.copied.is_some() || it.trust.is_some());
        let ours = is_owned(live.as_ref(), cluster) && more;
        let version = live.resource_version().filter(|_| ours)?;
        Some((secret, key, version))
    })
}

/// From an authority; `trust` verifies the members where it is not that one alone.
fn issue(
    secret: &Secret,
    issuer: &str,
    trust: Option<String>,
    now: Timestamp,
) -> Option<(Credentials, Timestamp)> {
    let keyring = Keyring::read(secret)?;
    let authorities = keyring.find(issuer)?;
    let leaf = Subjects::operator(now);
    let pair = authorities.client.issue(&leaf).ok()?;
    let trust = trust.unwrap_or_else(|| authorities.client.certificate().to_owned());
    let credentials = Credentials::new(&trust, &pair.chain, pair.key.expose()).ok()?;
    Some((credentials, leaf.validity.renewal(now)))
}

/// From a certificate that is there, which lasts as long as its Secret is as it is.
fn take_over(secret: &Secret, keys: &[String; 3]) -> Option<(Credentials, Timestamp)> {
    let [trust, certificate, key] = keys.each_ref().map(|key| text(secret, key));
    let key = pki::PrivateKey::from_pem(key?);
    let credentials = Credentials::new(&trust?, &certificate?, key.expose()).ok()?;
    Some((credentials, Timestamp::MAX))
}
