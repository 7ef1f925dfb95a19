//! What clusters publish for their clients, kept current: certificates are renewed, and their authorities replaced, while
//! clients use them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::{Plane, Transport, labels, names};
use etcd::{Credentials, Security};
use k8s_openapi::ByteString;
use serde_json::Value;

use super::{Watch, text};
use crate::cluster::Target;

/// The Secrets of one namespace.
pub(super) struct Published {
    secrets: RefCell<Watch>,
    /// By cluster, with the version of their Secret.
    known: RefCell<BTreeMap<String, (String, Arc<Credentials>)>>,
}

impl Published {
    pub(super) fn start(target: &Target, namespace: &str) -> Result<Self> {
        Ok(Self {
            secrets: RefCell::new(Watch::start(target, namespace, "secrets")?),
            known: RefCell::default(),
        })
    }

    /// How the member in a pod is asked; `None` while it wants a certificate and none is published.
    pub(super) fn security(&self, pod: &Value) -> Option<Security> {
        let annotations = pod.pointer("/metadata/annotations");
        let written = annotations.and_then(|all| all.get(labels::TRANSPORT_ANNOTATION));
        let written = written.and_then(Value::as_str);
        let transport = written.and_then(Transport::parse).unwrap_or_default();
        if transport.client == Plane::Plain {
            return Some(Security::Plain);
        }
        let (namespace, pod) = (
            text(pod, "/metadata/namespace")?,
            text(pod, "/metadata/name")?,
        );
        let (cluster, _) = pod.rsplit_once('-')?;
        let ordinal = names::ordinal(cluster, pod)?;
        Some(Security::Tls {
            credentials: self.credentials(cluster)?,
            name: names::member_host(cluster, namespace, ordinal),
        })
    }

    fn credentials(&self, cluster: &str) -> Option<Arc<Credentials>> {
        let mut secrets = self.secrets.borrow_mut();
        secrets.wait(Duration::ZERO);
        let secret = secrets.objects.get(&names::client_secret(cluster))?;
        let version = text(secret, "/metadata/resourceVersion")?.to_owned();
        let mut known = self.known.borrow_mut();
        if let Some((of, credentials)) = known.get(cluster)
            && *of == version
        {
            return Some(Arc::clone(credentials));
        }
        let entry = |key: &str| {
            let data = secret.pointer("/data")?.get(key)?.clone();
            let data: ByteString = serde_json::from_value(data).ok()?;
            String::from_utf8(data.0).ok()
        };
        let made = Credentials::new(&entry("ca.crt")?, &entry("tls.crt")?, &entry("tls.key")?);
        let made = Arc::new(made.ok()?);
        known.insert(cluster.to_owned(), (version, Arc::clone(&made)));
        Some(made)
    }
}
