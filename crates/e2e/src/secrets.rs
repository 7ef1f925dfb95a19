//! What a client of a cluster with TLS has: the Secret that is published for it, and nothing else.

use std::sync::Arc;

use anyhow::{Context, Result};
use api::{Plane, Transport, labels, names};
use etcd::{Credentials, Security};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, Client};

/// What the published Secret of a cluster holds.
pub async fn credentials(client: &Client, namespace: &str, cluster: &str) -> Result<Credentials> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets.get(&names::client_secret(cluster)).await?;
    let text = |key: &str| entry(&secret, key);
    Ok(Credentials::new(
        &text("ca.crt")?,
        &text("tls.crt")?,
        &text("tls.key")?,
    )?)
}

/// One entry of a Secret, as text.
pub fn entry(secret: &Secret, key: &str) -> Result<String> {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    let data = data.with_context(|| format!("the Secret has no {key}"))?;
    Ok(String::from_utf8(data.0.clone())?)
}

/// Which planes of a pod speak TLS.
pub fn transport(pod: &Pod) -> Transport {
    let annotations = pod.metadata.annotations.as_ref();
    let written = annotations.and_then(|all| all.get(labels::TRANSPORT_ANNOTATION));
    written
        .and_then(|written| Transport::parse(written))
        .unwrap_or_default()
}

/// How a member of a cluster is asked.
pub(crate) fn security(
    credentials: Option<&Arc<Credentials>>,
    (cluster, namespace): (&str, &str),
    member: &str,
) -> Security {
    let ordinal = names::ordinal(cluster, member).unwrap_or(u32::MAX);
    match credentials {
        None => Security::Plain,
        Some(credentials) => Security::Tls {
            credentials: Arc::clone(credentials),
            name: names::member_host(cluster, namespace, ordinal),
        },
    }
}

/// A pod of the cluster expects clients with certificates.
pub(crate) fn is_locked<'a>(mut pods: impl Iterator<Item = &'a Pod>) -> bool {
    pods.any(|pod| transport(pod).client == Plane::Tls)
}
