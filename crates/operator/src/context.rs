//! What every reconcile needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd::{Connect, Pool, Security, Target};
use kube::Client;
use kube::runtime::events::Recorder;
use manifests::Installation;
use plan::observed::{Hash, Refusals, UpkeepTask, Vitals, Watch, Wish};
use plan::status::Outcome;
use plan::{Decision, Observed};

use crate::backoff::Attempts;
use crate::board::Board;
use crate::caches::Caches;
use crate::certificates::sources::Sources;
use crate::certificates::vault::Vault;
use crate::clock::Moment;
use crate::cluster::observe::accounts::Versions;
use crate::cluster::observe::auth::Noted;
use crate::health::Health;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::tasks::Tasks;
use crate::waits::Waits;

/// What every reconcile needs.
pub struct Context {
    /// The Kubernetes API.
    pub client: Client,
    /// What it said.
    pub caches: Caches,
    /// Opens streams to pods.
    pub connect: Arc<dyn Connect>,
    /// Connections to members.
    pub pool: Pool,
    /// Writes events.
    pub recorder: Recorder,
    /// The namespaces that are watched; empty: all.
    pub namespaces: Vec<String>,
    /// What objects need to know of this operator.
    pub install: Installation,
    /// Domain of the Kubernetes cluster.
    pub domain: String,
    /// What the operator presents to members.
    pub vault: Vault,
    /// What other sources of certificates were last seen to have.
    pub sources: Sources,
    /// What the objects of a cluster looked like when they were last found to be right.
    pub found_right: FoundRight,
    /// When the data of members was last compared.
    pub compared: Compared,
    /// What etcd was found to know of users and roles.
    pub accounts: Noted,
    /// Versions of the Secrets with passwords.
    pub versions: Versions,
    /// What looks saw that no status says.
    pub board: Arc<Board>,
    /// What was done.
    pub metrics: Arc<Metrics>,
    /// What was watched of members that do not keep up.
    pub watched: Watched,
    /// Objects that were written in vain, and steps that failed.
    pub refused: Refused,
    /// What is reported about the operator itself.
    pub health: Arc<Health>,
    /// How many clusters are looked at at once.
    pub lanes: Arc<Lanes>,
    /// Steps that were repeated, and what came of them.
    pub attempts: Attempts<Outcome>,
    /// For how long clusters have been waiting for the same thing.
    pub waits: Waits,
    /// Defragmentations and compactions under way, and the error of those that failed.
    pub upkeep: Tasks<UpkeepTask, Result<(), String>>,
    /// Comparisons of data under way, and the checksums that they found.
    pub hashing: Tasks<(), Vec<Hashed>>,
}

/// How a pod is reached, and how it is known that it is the one.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Where.
    pub target: Target,
    /// What we present, and the name that it must have a certificate for.
    pub security: Security,
}

/// The checksum of a member: its ordinal, its ID and the checksum.
pub type Hashed = (u32, u64, Hash);

/// Upkeep at once, of all clusters: it loads disks that clusters may share.
const UPKEEP: usize = 16;
/// It ends by then, whatever a member says of its size.
pub(crate) const LONGEST: Duration = Duration::from_mins(15);
/// Comparisons at once, of all clusters.
const HASHING: usize = 16;

/// Upkeep within its bounds.
pub fn upkeep() -> Tasks<UpkeepTask, Result<(), String>> {
    Tasks::new(UPKEEP, LONGEST)
}

/// Comparisons within their bounds.
pub fn hashing() -> Tasks<(), Vec<Hashed>> {
    Tasks::new(HASHING, Duration::from_mins(1))
}

/// Stamps of objects that were compared and found right, by the UID of their cluster: a cache, so that a look at a
/// settled cluster compares nothing twice. Losing it costs one comparison.
#[derive(Default)]
pub struct FoundRight(Mutex<BTreeMap<String, String>>);

impl FoundRight {
    /// These very objects were found right before.
    pub fn knows(&self, uid: &str, stamp: &str) -> bool {
        self.lock().get(uid).is_some_and(|known| known == stamp)
    }

    /// They were found right, or, with `None`, they were not.
    pub fn remember(&self, uid: &str, stamp: Option<String>) {
        match stamp {
            Some(stamp) => self.lock().insert(uid.to_owned(), stamp),
            None => self.lock().remove(uid),
        };
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In which hour the members of a cluster were last found alike, by its UID. Losing it puts a comparison off to the next
/// full hour, which is another one for each cluster.
#[derive(Default)]
pub struct Compared(Mutex<BTreeMap<String, u64>>);

impl Compared {
    /// It is time. A cluster that is seen for the first time waits for its next hour.
    pub(crate) fn is_due(&self, uid: &str, hour: u64) -> bool {
        *self.lock().entry(uid.to_owned()).or_insert(hour) != hour
    }

    /// They were found alike.
    pub(crate) fn remember(&self, uid: &str, hour: u64) {
        self.lock().insert(uid.to_owned(), hour);
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was watched of the members of each cluster, by its UID. Losing it makes everything that rests on it happen later.
#[derive(Default)]
pub struct Watched(Mutex<BTreeMap<String, Watch>>);

impl Watched {
    /// Takes note of a look.
    pub(crate) fn note(&self, observed: &mut Observed, vitals: &BTreeMap<u32, Vitals>) {
        let uid = observed.cluster.uid.clone();
        let mut watched = self.lock();
        watched.entry(uid).or_default().note(observed, vitals);
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watch>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How writes of objects were answered, by the UID of their cluster, where they are still not as they should be, and which
/// steps failed. Losing it costs one more try of each.
#[derive(Default)]
pub struct Refused(Mutex<BTreeMap<String, Answered>>);

/// The pauses are kept by the clock on the wall, as everything that is decided on; so it is noticed when that was set.
struct Answered {
    refusals: Refusals,
    at: Moment,
}

impl Refused {
    /// Puts what differs into the picture.
    pub(crate) fn sort(&self, observed: &mut Observed, wishes: Vec<Wish>, now: Moment) {
        let uid = observed.cluster.uid.clone();
        let mut all = self.lock();
        let mut known = match all.remove(&uid) {
            Some(Answered { mut refusals, at }) => {
                refusals.shift(now.set_since(&at));
                refusals
            }
            None => Refusals::default(),
        };
        known.sort(observed, wishes);
        if known != Refusals::default() {
            let known = Answered {
                refusals: known,
                at: now,
            };
            all.insert(uid, known);
        }
    }

    /// Takes note of how a step went.
    pub(crate) fn note(&self, observed: &Observed, decision: &Decision, outcome: &Outcome) {
        let mut all = self.lock();
        let known = all.entry(observed.cluster.uid.clone());
        let known = known.or_insert_with(|| Answered {
            refusals: Refusals::default(),
            at: Moment::now(),
        });
        known.refusals.note_step(observed, decision, outcome);
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Answered>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// A member, through the pool.
    pub fn member(&self, dial: &Dial) -> etcd::Member {
        self.pool.member(&dial.target, &dial.security)
    }
}
