//! The world: an API server, a cache that hears of its clusters a turn later, and what becomes of a cluster.

use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::{EtcdRestoreSpec, EtcdRestoreStatus, RestorePhase, Restored};
use api::{EtcdCluster, EtcdClusterSpec, Reason, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use plan::backup::elsewhere::{judge, namespace_of};
use plan::restore::{
    Named, Next, Original, Rejected, Seen, State, Step, Target, copied_from, created, decide, from,
    rejected,
};

pub(super) const UID: &str = "restore-uid";

/// What a cluster that was made comes to.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    /// It forms with the data of the backup.
    Restores,
    /// The backup cannot be had.
    Blocked,
    /// Its claims held data.
    Resumes,
    /// It forms, and there is no word of a backup.
    Without,
}

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) spec: EtcdRestoreSpec,
    pub(super) generation: i64,
    pub(super) status: EtcdRestoreStatus,
    pub(super) backup: Named<String>,
    pub(super) original: Option<(String, Named<Original>)>,
    /// The EtcdBackup of another namespace.
    pub(super) elsewhere: Option<EtcdBackup>,
    pub(super) cluster: Option<Target>,
    /// The cluster as the cache has it.
    cached: Option<Target>,
    pub(super) fate: Fate,
    /// Every cluster that was ever made.
    pub(super) made: Vec<EtcdCluster>,
    /// The API server rejects clusters, in these words and the number of the attempt.
    pub(super) rejects: Option<&'static str>,
    held: Option<(i64, Timestamp, String)>,
    pub(super) creates: u32,
    pub(super) events: Vec<String>,
    /// The operator is killed at this write, once.
    pub(super) kill_at: Option<u32>,
    writes: u32,
}

pub(super) fn spec() -> EtcdRestoreSpec {
    EtcdRestoreSpec {
        backup_name: Some("nightly".to_owned()),
        backup: Some("20261118-020000-abcd".to_owned()),
        cluster_name: "db-2".to_owned(),
        ..EtcdRestoreSpec::default()
    }
}

pub(super) fn original(size: i32) -> Original {
    Original {
        id: Some("abc".to_owned()),
        spec: EtcdClusterSpec {
            size: Some(size),
            version: Some("v3.6.16".to_owned()),
            ..EtcdClusterSpec::default()
        },
    }
}

pub(super) fn condition(kind: &str, status: &str, reason: Reason, message: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_string(),
        message: message.to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

fn available(ready: &str) -> Vec<Condition> {
    vec![
        condition("Available", "True", Reason::QuorumHealthy, "1 of 1"),
        condition("Ready", ready, Reason::AsExpected, ""),
    ]
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: "2026-11-18T12:00:00Z".parse().unwrap(),
            spec: spec(),
            generation: 1,
            status: EtcdRestoreStatus::default(),
            backup: Named::There("db".to_owned()),
            original: Some(("db".to_owned(), Named::There(original(5)))),
            elsewhere: None,
            cluster: None,
            cached: None,
            fate: Fate::Restores,
            made: Vec::new(),
            rejects: None,
            held: None,
            creates: 0,
            events: Vec::new(),
            kill_at: None,
            writes: 0,
        }
    }

    fn seen(&self) -> Seen {
        let recorded = self.status.cluster_uid.as_ref();
        let known = self.cached.as_ref();
        // What is recorded and not in the cache is asked for.
        let asked = recorded.is_some_and(|uid| known.is_none_or(|it| it.uid != *uid));
        let original = copied_from(&self.spec, "ns", &self.backup);
        let original = original.and_then(|name| {
            let (known, original) = self.original.clone()?;
            (known == name).then_some(original)
        });
        let named = self.spec.backup_name.is_some();
        let there = namespace_of(self.spec.backup_namespace.as_deref(), "ns");
        let withheld = (named && there != "ns")
            .then(|| judge(&from(&self.spec), "ns", self.elsewhere.as_ref()).err());
        let held = self.held.clone();
        let held = held
            .filter(|(generation, until, _)| *generation == self.generation && *until > self.now);
        Seen {
            now: self.now,
            namespace: "ns".to_owned(),
            name: "back".to_owned(),
            uid: UID.to_owned(),
            generation: self.generation,
            spec: self.spec.clone(),
            status: self.status.clone(),
            target: if asked { &self.cluster } else { &self.cached }.clone(),
            backup: self.backup.clone(),
            withheld: withheld.flatten(),
            original: original.unwrap_or(Named::Absent),
            rejected: held.map(|(_, until, why)| Rejected {
                why,
                left: until.duration_since(self.now).unsigned_abs(),
            }),
        }
    }

    /// Whether the operator lives on after one more write.
    fn lives(&mut self) -> bool {
        self.writes += 1;
        self.kill_at != Some(self.writes)
    }

    /// Whether it lives on after the status was written.
    fn write(&mut self, next: &Next) -> bool {
        self.status = next.status.clone();
        self.events
            .extend(next.event.iter().map(|(reason, _)| reason.to_string()));
        self.lives()
    }

    pub(super) fn turn(&mut self) -> std::time::Duration {
        let now = std::time::Duration::ZERO;
        let seen = self.seen();
        let next = decide(&seen);
        let news = next.status != self.status;
        let Step::Create(cluster) = &next.step else {
            // A status that was written wakes the next look.
            let lives = !news || self.write(&next);
            return if news || !lives { now } else { next.requeue };
        };
        if !self.write(&next) {
            return now;
        }
        assert!(
            self.status.start_time.is_some(),
            "recorded before it is done"
        );
        assert_eq!(self.status.cluster_uid, None, "one was made before");
        let seen = Seen {
            status: next.status.clone(),
            ..seen
        };
        let told = match self.create(cluster) {
            None => return std::time::Duration::from_secs(1),
            Some(Err(why)) => {
                let pause = SignedDuration::from_mins(1);
                self.held = Some((self.generation, self.now + pause, why.clone()));
                rejected(&seen, &why, pause.unsigned_abs())
            }
            Some(Ok(uid)) => {
                if !self.lives() {
                    return now;
                }
                created(&seen, &uid)
            }
        };
        let news = told.status != self.status;
        if news {
            self.write(&told);
        }
        if news { now } else { told.requeue }
    }

    /// The answer to a create; `None` where one of that name exists.
    fn create(&mut self, cluster: &EtcdCluster) -> Option<Result<String, String>> {
        self.creates += 1;
        if self.cluster.is_some() {
            return None;
        }
        if let Some(why) = self.rejects {
            return Some(Err(format!("{why} ({})", self.creates)));
        }
        let mut made = cluster.clone();
        let uid = format!("cluster-{}", self.made.len() + 1);
        made.metadata.uid = Some(uid.clone());
        made.metadata.creation_timestamp = Some(Time(self.now));
        self.cluster = Some(Target::of(&made.metadata, Some(&made)));
        self.made.push(made);
        Some(Ok(uid))
    }

    /// The cache hears of what was, and the cluster takes its next step.
    pub(super) fn work(&mut self) {
        self.cached.clone_from(&self.cluster);
        let now = self.now;
        let ours = |cluster: &&mut Target| cluster.made_by.as_deref() == Some(UID);
        let Some(cluster) = self.cluster.as_mut().filter(ours) else {
            return;
        };
        let state = cluster.state.get_or_insert_default();
        if state.conditions.is_empty() {
            state.conditions = vec![
                condition("Available", "False", Reason::NotFormed, "not bootstrapped"),
                condition("Progressing", "True", Reason::Restoring, "Job brings it"),
            ];
            return;
        }
        match self.fate {
            Fate::Restores => {
                state.conditions = available("True");
                state.restored = Some(Restored {
                    backup: "20261118-020000-abcd".to_owned(),
                    revision: 7,
                    time: Time(now),
                    bytes: 20,
                    url: "s3://b/x".to_owned(),
                    leases: None,
                });
            }
            Fate::Blocked => state.conditions.push(condition(
                "Degraded",
                "True",
                Reason::RestoreBlocked,
                "no such bucket",
            )),
            Fate::Resumes => {
                state.conditions = available("False");
                state.resumed = true;
            }
            Fate::Without => state.conditions = available("True"),
        }
    }

    /// Turns of both until so much time has passed.
    pub(super) fn run(&mut self, span: SignedDuration) {
        let end = self.now + span;
        let mut turns = 0;
        while self.now < end {
            let wait = self.turn();
            self.work();
            let wait = SignedDuration::try_from(wait).unwrap();
            self.now += wait.max(SignedDuration::from_millis(10));
            turns += 1;
            assert!(turns < 20_000, "it spins");
        }
    }

    /// A cluster of that name that something else made.
    pub(super) fn stranger(&mut self, made_by: Option<&str>) {
        self.cluster = Some(Target {
            uid: "stranger".to_owned(),
            made_by: made_by.map(str::to_owned),
            state: Some(State {
                conditions: available("True"),
                ..State::default()
            }),
            ..Target::default()
        });
    }

    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut EtcdRestoreSpec)) {
        edit(&mut self.spec);
        self.generation += 1;
    }

    pub(super) fn phase(&self) -> Option<RestorePhase> {
        self.status.phase
    }

    pub(super) fn ready(&self) -> (&str, &str) {
        let condition = &self.status.conditions[0];
        (&condition.status, &condition.reason)
    }

    pub(super) fn says(&self) -> &str {
        &self.status.conditions[0].message
    }

    /// Who made the last cluster, as it is written there.
    pub(super) fn maker(&self) -> Option<&String> {
        let annotations = self.made.last()?.metadata.annotations.as_ref()?;
        annotations.get(labels::RESTORE_ANNOTATION)
    }
}
