//! Leader election with a Lease. It saves work and keeps the logs calm; it is not what keeps clusters
//! safe: every write carries a UID or resourceVersion, so that a stale writer does no harm.
//!
//! As in client-go, no clock of another machine is believed: a lease runs out when it has not changed for its duration by
//! our own clock, and its holder stops working well before that.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::clock;

const NAME: &str = "etcd-operator";
/// Conflicts in one attempt after which the next one is waited for.
const CONFLICTS: u8 = 2;

/// The times of an election.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long a holder may be silent until another replica takes its lease.
    pub duration: Duration,
    /// How long a holder works on after its last renewal; shorter than the duration.
    pub renew_within: Duration,
    /// How often a holder renews its lease.
    pub renewal: Duration,
    /// How often the others look, and how soon a renewal that failed is tried again.
    pub retry: Duration,
    /// How long a single attempt may take.
    pub attempt: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            renewal: Duration::from_secs(4),
            retry: Duration::from_secs(2),
            attempt: Duration::from_secs(5),
        }
    }
}

/// A seat that one of several replicas holds.
pub struct Election {
    leases: Api<Lease>,
    identity: String,
    times: Times,
    seen: Mutex<Option<Seen>>,
}

/// What another replica wrote last, and when we first saw it.
#[derive(Clone, Debug)]
struct Seen {
    spec: LeaseSpec,
    at: Instant,
}

impl Election {
    /// A seat in a namespace.
    pub fn new(client: &Client, namespace: &str, identity: &str) -> Self {
        Self {
            leases: Api::namespaced(client.clone(), namespace),
            identity: identity.to_owned(),
            times: Times::default(),
            seen: Mutex::default(),
        }
    }

    /// The same with other times.
    #[must_use]
    pub fn with_times(self, times: Times) -> Self {
        Self { times, ..self }
    }

    /// Waits until the lease is ours; since when it is.
    pub async fn acquire(&self) -> Instant {
        loop {
            // What is written arrives after this, so no other replica sees it run out before we do.
            let asked = Instant::now();
            match tokio::time::timeout(self.times.attempt, self.try_hold()).await {
                Ok(Ok(true)) => return asked,
                Ok(Ok(false)) => tracing::debug!("another replica holds the lease"),
                Ok(Err(error)) => tracing::warn!(%error, "the lease cannot be taken, trying again"),
                Err(_elapsed) => {
                    tracing::warn!("the API server does not answer for the lease, trying again");
                }
            }
            tokio::time::sleep(self.times.retry).await;
        }
    }

    /// Keeps the lease that was last renewed at this time; returns when it is lost, or when it could not be renewed for
    /// so long that another replica may take it soon.
    pub async fn hold(&self, mut renewed: Instant) {
        let mut pause = self.times.renewal;
        loop {
            tokio::time::sleep(pause).await;
            let asked = Instant::now();
            let end = renewed + self.times.renew_within;
            let left = end.saturating_duration_since(asked);
            if left.is_zero() {
                return;
            }
            pause = self.times.retry;
            let patience = left.min(self.times.attempt);
            match tokio::time::timeout(patience, self.try_hold()).await {
                Ok(Ok(true)) => {
                    renewed = asked;
                    pause = self.times.renewal;
                }
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the lease cannot be renewed, trying again");
                }
                Err(_elapsed) => {
                    tracing::warn!("the lease could not be renewed in time, trying again");
                }
            }
            let end = renewed + self.times.renew_within;
            pause = pause.min(end.saturating_duration_since(Instant::now()));
        }
    }

    /// Gives the lease back, so that the next replica need not wait for it to run out.
    pub async fn release(&self) -> anyhow::Result<()> {
        tokio::time::timeout(self.times.attempt, self.try_release()).await??;
        Ok(())
    }

    async fn try_release(&self) -> kube::Result<()> {
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

    /// A write that conflicts says only that something else wrote: who holds the lease is read again.
    async fn try_hold(&self) -> kube::Result<bool> {
        let mut conflicts = 0;
        loop {
            let written = match self.leases.get_opt(NAME).await? {
                None => self.create().await,
                Some(lease) if self.may_take(lease.spec.as_ref(), Instant::now()) => {
                    self.replace(lease).await
                }
                Some(_held) => return Ok(false),
            };
            match written {
                Ok(_) => return Ok(true),
                Err(kube::Error::Api(status)) if status.code == 409 && conflicts < CONFLICTS => {
                    conflicts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn create(&self) -> kube::Result<Lease> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec(None, clock::now())),
        };
        self.leases.create(&PostParams::default(), &lease).await
    }

    async fn replace(&self, mut lease: Lease) -> kube::Result<Lease> {
        lease.spec = Some(self.spec(lease.spec.as_ref(), clock::now()));
        let params = PostParams::default();
        self.leases.replace(NAME, &params, &lease).await
    }

    fn spec(&self, old: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
        let ours = old.is_some_and(|old| old.holder_identity.as_ref() == Some(&self.identity));
        let transitions = old.and_then(|old| old.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.times.duration.as_secs()).ok(),
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

    /// No replica holds it, we hold it, or we have seen its holder write nothing for as long as the lease lasts.
    fn may_take(&self, spec: Option<&LeaseSpec>, now: Instant) -> bool {
        let Some(spec) = spec else { return true };
        match spec.holder_identity.as_deref() {
            None | Some("") => return true,
            Some(holder) if holder == self.identity => return true,
            Some(_other) => {}
        }
        let mut seen = self.lock();
        let known = seen.take().filter(|seen| seen.spec == *spec);
        let known = known.unwrap_or_else(|| Seen {
            spec: spec.clone(),
            at: now,
        });
        let told = spec.lease_duration_seconds.unwrap_or_default();
        let told = Duration::from_secs(u64::try_from(told).unwrap_or_default());
        let silent = now.saturating_duration_since(known.at);
        *seen = Some(known);
        silent > told.max(self.times.duration)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Seen>> {
        // Nothing can be half done under this lock.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// An API server that never answers.
    fn silent() -> Client {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        Client::new(service, "default")
    }

    fn held(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[tokio::test]
    async fn a_lease_is_taken_only_from_no_one_oneself_or_a_holder_seen_silent() {
        let election = Election::new(&silent(), "default", "a");
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(election.may_take(None, start));
        assert!(election.may_take(Some(&held("", 0)), start));
        assert!(election.may_take(Some(&held("a", 0)), start));
        // What its clock says does not count: this one is years behind, and was only just seen.
        assert!(!election.may_take(Some(&held("b", 0)), start));
        assert!(!election.may_take(Some(&held("b", 0)), after(15)));
        assert!(
            !election.may_take(Some(&held("b", 4)), after(16)),
            "it was renewed"
        );
        assert!(!election.may_take(Some(&held("b", 4)), after(31)));
        assert!(election.may_take(Some(&held("b", 4)), after(32)));
        assert!(
            !election.may_take(Some(&held("c", 4)), after(33)),
            "another one holds it"
        );
    }

    #[tokio::test]
    async fn an_api_server_that_never_answers_ends_neither_the_wait_nor_the_hold_late() {
        let millis = Duration::from_millis;
        let times = Times {
            // Far from the other, so that a busy machine does not decide.
            duration: millis(10_000),
            renew_within: millis(200),
            renewal: millis(20),
            retry: millis(10),
            attempt: millis(50),
        };
        let election = Election::new(&silent(), "default", "a").with_times(times);
        let start = Instant::now();
        election.hold(start).await;
        assert!(start.elapsed() < times.duration, "{:?}", start.elapsed());
        assert!(election.release().await.is_err());
        // It goes on trying, which an attempt without an end would not.
        let tries = tokio::time::timeout(millis(200), election.acquire()).await;
        assert!(tries.is_err());
    }

    #[test]
    fn a_holder_stops_before_its_lease_can_be_taken() {
        let times = Times::default();
        assert!(times.renew_within + times.attempt <= times.duration);
        assert!(times.renewal + times.attempt < times.renew_within);
    }
}
