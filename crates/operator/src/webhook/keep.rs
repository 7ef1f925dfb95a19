//! Keeps the certificate: every replica follows the Secret and serves what it holds; the one that holds the lease issues and
//! renews it, and writes into both webhook configurations what the API server is to trust. A Secret that was deleted and a
//! configuration that was edited are put right as soon as the watch tells.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use rustls::ServerConfig;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::certificate::{Issued, Kept, Step, Trusted, decide};
use super::{Place, Told, server_config};
use crate::clock;

/// Until every API server has heard of a change of its configuration.
const SPREAD: Duration = Duration::from_mins(1);
/// Between two writes: another writer may want it otherwise, again and again.
const PAUSE: Duration = Duration::from_secs(1);
/// After a write that failed.
const RETRY: Duration = Duration::from_secs(5);
/// The clock on the wall may be set, so it is looked at now and then.
const LONGEST: Duration = Duration::from_hours(1);

/// An object as a watch shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seen<K> {
    /// Nothing was heard of it.
    #[default]
    NotYet,
    /// It does not exist.
    Absent,
    /// It is there.
    There(Box<K>),
}

impl<K> Seen<K> {
    fn there(&self) -> Option<&K> {
        match self {
            Self::There(object) => Some(object),
            Self::NotYet | Self::Absent => None,
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self, Self::NotYet)
    }
}

/// A configuration of webhooks: the authorities that each of them trusts.
trait Configuration:
    Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
    + Clone
    + std::fmt::Debug
    + DeserializeOwned
    + Send
    + 'static
{
    /// Name and authorities of each webhook.
    fn trusted(&self) -> Vec<(String, Option<ByteString>)>;
}

impl Configuration for ValidatingWebhookConfiguration {
    fn trusted(&self) -> Vec<(String, Option<ByteString>)> {
        let all = self.webhooks.iter().flatten();
        all.map(|hook| (hook.name.clone(), hook.client_config.ca_bundle.clone()))
            .collect()
    }
}

impl Configuration for MutatingWebhookConfiguration {
    fn trusted(&self) -> Vec<(String, Option<ByteString>)> {
        let all = self.webhooks.iter().flatten();
        all.map(|hook| (hook.name.clone(), hook.client_config.ca_bundle.clone()))
            .collect()
    }
}

/// Follows the Secret for as long as the process runs, and offers what it holds for serving. What was offered stays so while
/// the Secret is gone or holds nothing of use.
pub(super) async fn follow_secret(
    place: Place,
    show: watch::Sender<Seen<Secret>>,
    offer: watch::Sender<Option<Arc<ServerConfig>>>,
    told: Told,
) {
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let mut seen = std::pin::pin!(object(secrets, &place.name));
    while let Some(secret) = seen.next().await {
        let kept = secret.there().and_then(Kept::read);
        let pair = kept.map(|kept| kept.served.pair);
        let usable = pair.and_then(|pair| Some((server_config(&pair)?, pair)));
        if let Some((config, pair)) = usable {
            offer.send_replace(Some(config));
            let end = pki::Facts::of_first(&pair.chain).map(|facts| facts.validity.until);
            told.metrics.admission_expires(end);
            told.health.has_admission("certificate");
        }
        show.send_replace(secret);
    }
}

/// The replica that keeps certificate and configurations.
pub struct Keeper {
    place: Place,
    told: Told,
    secret: watch::Receiver<Seen<Secret>>,
    validating: Seen<ValidatingWebhookConfiguration>,
    mutating: Seen<MutatingWebhookConfiguration>,
    /// Since when both configurations trust what is to be trusted, and what that is.
    trusted: Option<(ByteString, Instant)>,
}

impl Keeper {
    /// Of the Secret that is seen.
    pub fn new(place: Place, told: Told, secret: watch::Receiver<Seen<Secret>>) -> Self {
        told.health.await_admission("configuration");
        Self {
            place,
            told,
            secret,
            validating: Seen::NotYet,
            mutating: Seen::NotYet,
            trusted: None,
        }
    }

    /// Keeps them for as long as it is polled.
    pub async fn keep(mut self) {
        let (client, name) = (self.place.client.clone(), self.place.name.clone());
        let mut validating = std::pin::pin!(object(Api::all(client.clone()), &name));
        let mut mutating = std::pin::pin!(object(Api::all(client), &name));
        let mut secret = self.secret.clone();
        loop {
            let pause = match self.step(clock::now()).await {
                Ok(Some(pause)) => pause,
                Ok(None) => {
                    tokio::time::sleep(PAUSE).await;
                    RETRY
                }
                Err(error) => {
                    tracing::warn!(error = %format!("{error:#}"), "the certificate of the webhook cannot be kept, trying again");
                    tokio::time::sleep(PAUSE).await;
                    RETRY
                }
            };
            tokio::select! {
                Some(seen) = validating.next() => self.note(|keeper| keeper.validating = seen),
                Some(seen) = mutating.next() => self.note(|keeper| keeper.mutating = seen),
                Ok(()) = secret.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Takes note of a configuration, and tells where one has gone.
    fn note(&mut self, change: impl FnOnce(&mut Self)) {
        let had = self.missing();
        change(self);
        let missing = self.missing();
        self.told.metrics.admission_configured(missing.is_empty());
        if missing != had && !missing.is_empty() {
            tracing::warn!(
                name = self.place.name,
                ?missing,
                "there is no such webhook configuration: new specs are not checked at admission; install the chart again, or switch the webhook off"
            );
        }
    }

    fn missing(&self) -> Vec<&'static str> {
        let validating = (self.validating == Seen::Absent).then_some("validating");
        let mutating = (self.mutating == Seen::Absent).then_some("mutating");
        validating.into_iter().chain(mutating).collect()
    }

    /// One step. `None` where something was written, which the watch brings; else for how long nothing is to be done unless
    /// something changes.
    async fn step(&mut self, now: Timestamp) -> anyhow::Result<Option<Duration>> {
        let secret = self.secret.borrow().clone();
        if !(secret.is_known() && self.validating.is_known() && self.mutating.is_known()) {
            return Ok(Some(LONGEST));
        }
        let kept = secret.there().and_then(Kept::read);
        let trusted = self.trusted(kept.as_ref());
        let host = self.place.host();
        match (decide(kept.as_ref(), trusted, &host, now), kept) {
            (Step::Issue, _) | (_, None) => {
                let issued = Kept::only(Issued::new(&host, now)?);
                self.write(&secret, &issued).await?;
            }
            (Step::Announce, Some(kept)) => {
                let announced = kept.announcing(Issued::new(&host, now)?);
                self.write(&secret, &announced).await?;
            }
            (Step::Switch, Some(kept)) => self.write(&secret, &kept.switched()).await?,
            (Step::Inject, Some(kept)) => self.inject(&kept.trust()).await?,
            (Step::Rest(until), Some(_)) => {
                self.told.health.has_admission("configuration");
                let rest = Duration::try_from(until.duration_since(now)).unwrap_or(RETRY);
                return Ok(Some(rest.min(LONGEST)));
            }
        }
        Ok(None)
    }

    fn trusted(&mut self, kept: Option<&Kept>) -> Trusted {
        let Some(trust) = kept.map(Kept::trust) else {
            return Trusted::Otherwise;
        };
        let validating = self.validating.there().map(Configuration::trusted);
        let mutating = self.mutating.there().map(Configuration::trusted);
        let mut all = validating.into_iter().chain(mutating).flatten();
        if all.any(|(_, trusted)| trusted.as_ref() != Some(&trust)) {
            self.trusted = None;
            return Trusted::Otherwise;
        }
        let now = Instant::now();
        let known = self.trusted.take().filter(|(known, _)| *known == trust);
        let (_, since) = self.trusted.insert(known.unwrap_or((trust, now)));
        if now.saturating_duration_since(*since) >= SPREAD {
            Trusted::Everywhere
        } else {
            Trusted::Recently
        }
    }

    /// Creates the Secret, or replaces the one that was seen.
    async fn write(&self, seen: &Seen<Secret>, kept: &Kept) -> anyhow::Result<()> {
        let secrets: Api<Secret> =
            Api::namespaced(self.place.client.clone(), &self.place.namespace);
        let mut secret = kept.secret();
        secret.metadata.name = Some(self.place.name.clone());
        let params = PostParams {
            field_manager: Some(api::labels::OPERATOR.to_owned()),
            ..PostParams::default()
        };
        let written = match seen.there() {
            None => secrets.create(&params, &secret).await,
            Some(seen) => {
                let mut whole = seen.clone();
                whole.data = secret.data;
                secrets.replace(&self.place.name, &params, &whole).await
            }
        };
        match written {
            Ok(_) => tracing::info!(
                secret = self.place.name,
                "certificate of the webhook written"
            ),
            // Something else wrote first, and the watch tells what.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn inject(&self, trust: &ByteString) -> anyhow::Result<()> {
        if let Some(seen) = self.validating.there() {
            self.tell(seen, trust).await?;
        }
        if let Some(seen) = self.mutating.there() {
            self.tell(seen, trust).await?;
        }
        Ok(())
    }

    /// Nothing but the authorities is written: the rest of a configuration is its installer's.
    async fn tell<K: Configuration>(&self, seen: &K, trust: &ByteString) -> anyhow::Result<()> {
        let others = seen.trusted().into_iter();
        let others = others.filter(|(_, trusted)| trusted.as_ref() != Some(trust));
        let hooks: Vec<_> = others
            .map(|(name, _)| json!({"name": name, "clientConfig": {"caBundle": trust}}))
            .collect();
        if hooks.is_empty() {
            return Ok(());
        }
        let version = seen.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "webhooks": hooks});
        let params = PatchParams {
            field_manager: Some(api::labels::OPERATOR.to_owned()),
            ..PatchParams::default()
        };
        let configurations: Api<K> = Api::all(self.place.client.clone());
        let patched = configurations
            .patch(&self.place.name, &params, &Patch::Strategic(patch))
            .await;
        match patched {
            Ok(_) => {
                tracing::info!(kind = %K::kind(&()), name = self.place.name, "the API server trusts the webhook");
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// An object, each time that it is another one. A watch that fails is told and tried again.
fn object<K>(api: Api<K>, name: &str) -> impl Stream<Item = Seen<K>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let watched = watcher::watch_object(api, name).default_backoff();
    watched.filter_map(|item| {
        let seen = match item {
            Ok(Some(object)) => Some(Seen::There(Box::new(object))),
            Ok(None) => Some(Seen::Absent),
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "watch failed, trying again");
                None
            }
        };
        futures::future::ready(seen)
    })
}
