//! Leader election with a Lease. It saves work and keeps the logs calm; it is not what keeps clusters
//! safe: every write carries a UID or resourceVersion, so that a stale writer does no harm.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::clock;

const NAME: &str = "etcd-operator";
/// How long a holder may be silent.
const DURATION: Duration = Duration::from_secs(15);
/// How often a holder speaks.
const RENEWAL: Duration = Duration::from_secs(5);
/// How often others look.
const RETRY: Duration = Duration::from_secs(2);

/// A seat that one of several replicas holds.
pub struct Election {
    leases: Api<Lease>,
    identity: String,
}

impl Election {
    /// A seat in a namespace.
    pub fn new(client: &Client, namespace: &str, identity: &str) -> Self {
        Self {
            leases: Api::namespaced(client.clone(), namespace),
            identity: identity.to_owned(),
        }
    }

    /// Waits until the lease is ours.
    pub async fn acquire(&self) {
        loop {
            match self.try_hold().await {
                Ok(true) => return,
                Ok(false) => tracing::debug!("another replica holds the lease"),
                Err(error) => tracing::warn!(%error, "the lease cannot be taken, trying again"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Keeps the lease; returns when it is lost.
    pub async fn hold(&self) {
        let mut renewed = clock::now();
        loop {
            tokio::time::sleep(RENEWAL).await;
            match tokio::time::timeout(RENEWAL, self.try_hold()).await {
                Ok(Ok(true)) => renewed = clock::now(),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the lease cannot be renewed, trying again");
                }
                Err(_elapsed) => {
                    tracing::warn!("the lease could not be renewed in time, trying again");
                }
            }
            if is_expired(renewed, clock::now()) {
                return;
            }
        }
    }

    /// Gives the lease back, so that the next replica need not wait for it to run out.
    pub async fn release(&self) -> kube::Result<()> {
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if spec.holder_identity.as_deref() == Some(self.identity.as_str()) {
            spec.holder_identity = None;
            self.leases
                .replace(NAME, &PostParams::default(), &lease)
                .await?;
        }
        Ok(())
    }

    async fn try_hold(&self) -> kube::Result<bool> {
        let now = clock::now();
        let written = match self.leases.get_opt(NAME).await? {
            None => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(NAME.to_owned()),
                        ..ObjectMeta::default()
                    },
                    spec: Some(self.spec(None, now)),
                };
                self.leases.create(&PostParams::default(), &lease).await
            }
            Some(mut lease) => {
                if !may_take(lease.spec.as_ref(), &self.identity, now) {
                    return Ok(false);
                }
                lease.spec = Some(self.spec(lease.spec.as_ref(), now));
                self.leases
                    .replace(NAME, &PostParams::default(), &lease)
                    .await
            }
        };
        match written {
            Ok(_) => Ok(true),
            // Somebody else was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn spec(&self, old: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
        let ours = old.is_some_and(|old| old.holder_identity.as_ref() == Some(&self.identity));
        let transitions = old.and_then(|old| old.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: if ours {
                old.and_then(|old| old.acquire_time.clone())
            } else {
                Some(MicroTime(now))
            },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(if ours {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }
}

/// Nobody holds it, we hold it, or its holder fell silent.
fn may_take(spec: Option<&LeaseSpec>, identity: &str, now: Timestamp) -> bool {
    let Some(spec) = spec else { return true };
    match spec.holder_identity.as_deref() {
        None | Some("") => true,
        Some(holder) if holder == identity => true,
        Some(_) => spec
            .renew_time
            .as_ref()
            .is_none_or(|renewed| is_expired(renewed.0, now)),
    }
}

fn is_expired(renewed: Timestamp, now: Timestamp) -> bool {
    now.duration_since(renewed) > SignedDuration::try_from(DURATION).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_only_from_nobody_oneself_or_the_silent() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let held = |holder: &str, renewed| LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            renew_time: Some(MicroTime(at(renewed))),
            ..LeaseSpec::default()
        };
        assert!(may_take(None, "a", at(0)));
        assert!(may_take(Some(&held("", 0)), "a", at(1)));
        assert!(may_take(Some(&held("a", 0)), "a", at(1)));
        assert!(!may_take(Some(&held("b", 0)), "a", at(15)));
        assert!(may_take(Some(&held("b", 0)), "a", at(16)));
    }
}
