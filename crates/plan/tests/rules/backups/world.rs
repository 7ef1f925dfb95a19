//! The world: its store, its Job, and what becomes of it.

use api::v1alpha1::backup::{BackupPhase, EtcdBackupSpec, EtcdBackupStatus, S3};
use archive::work::{Answer, Base, Cause, Done, Listed, Made, Request, Task};
use jiff::{SignedDuration, Timestamp};
use plan::backup::Voter;
use plan::backup::{Cluster, Job, JobState, Seen, Step, decide};

/// What became of a Job that ended.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Done,
    Fails,
    /// The base is in the store, and no answer is to be had.
    Loses,
}

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) spec: EtcdBackupSpec,
    pub(super) status: EtcdBackupStatus,
    pub(super) asked: Option<String>,
    pub(super) cluster: Option<Cluster>,
    pub(super) job: Option<(Job, Request)>,
    /// IDs of the bases in the store, and how many Jobs wrote each.
    pub(super) store: std::collections::BTreeMap<String, u32>,
    pub(super) fate: Fate,
    pub(super) jobs: u32,
    pub(super) events: Vec<String>,
    /// The operator is killed at this write, once.
    pub(super) kill_at: Option<u32>,
    pub(super) writes: u32,
}

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn created() -> Timestamp {
    at("2026-11-18T12:00:00Z")
}

pub(super) fn cluster() -> Cluster {
    let voter = |n: u32| Voter {
        name: format!("db-{n}"),
        id: format!("{n}"),
        leads: n == 0,
    };
    Cluster {
        uid: "cluster-uid".to_owned(),
        id: Some("abc".to_owned()),
        incarnation: 1,
        available: true,
        voters: (0..3).map(voter).collect(),
        ..Cluster::default()
    }
}

pub(super) fn spec(schedule: Option<&str>) -> EtcdBackupSpec {
    EtcdBackupSpec {
        cluster_name: "db".to_owned(),
        schedule: schedule.map(str::to_owned),
        s3: Some(S3 {
            bucket: "b".to_owned(),
            ..S3::default()
        }),
        ..EtcdBackupSpec::default()
    }
}

impl World {
    pub(super) fn new(schedule: Option<&str>) -> Self {
        Self {
            now: created(),
            spec: spec(schedule),
            status: EtcdBackupStatus::default(),
            asked: None,
            cluster: Some(cluster()),
            job: None,
            store: std::collections::BTreeMap::new(),
            fate: Fate::Done,
            jobs: 0,
            events: Vec::new(),
            kill_at: None,
            writes: 0,
        }
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            now: self.now,
            namespace: "ns".to_owned(),
            name: "nightly".to_owned(),
            uid: "uid".to_owned(),
            generation: 1,
            created: created(),
            asked: self.asked.clone(),
            spec: self.spec.clone(),
            status: self.status.clone(),
            job: self.job.as_ref().map(|(job, _)| job.clone()),
            cluster: self.cluster.clone(),
            has_place: true,
        }
    }

    /// Whether the operator lives on after one more write.
    pub(super) fn lives(&mut self) -> bool {
        self.writes += 1;
        self.kill_at != Some(self.writes)
    }

    pub(super) fn turn(&mut self) -> std::time::Duration {
        let next = decide(&self.seen());
        if next.status != self.status {
            self.status = next.status;
            self.events
                .extend(next.event.map(|(reason, _)| reason.to_string()));
            if !self.lives() {
                return std::time::Duration::ZERO;
            }
        }
        match next.step {
            Step::Nothing => {}
            Step::Begin(begin) => {
                assert!(self.job.is_none(), "a second Job");
                let recorded = self.status.memory.as_ref().and_then(|it| it.run.as_ref());
                assert_eq!(recorded, Some(&begin.run), "recorded before it is done");
                self.jobs += 1;
                let job = Job {
                    name: format!("job-{}", self.jobs),
                    uid: format!("job-{}", self.jobs),
                    run: begin.run,
                    state: JobState::Active(None),
                };
                self.job = Some((job, begin.request));
                self.lives();
            }
            Step::Forget { uid, .. } => {
                let (job, _) = self.job.take().unwrap();
                assert_eq!(job.uid, uid);
                assert!(!matches!(job.state, JobState::Active(_)), "it runs");
                self.lives();
            }
        }
        next.requeue
    }

    /// The keeper of the Job does its work.
    pub(super) fn work(&mut self) {
        let Some((job, request)) = &mut self.job else {
            return;
        };
        if job.state != JobState::Active(None) {
            return;
        }
        let Task::Snapshot(snapshot) = &request.task else {
            panic!("no backup");
        };
        if self.fate == Fate::Fails {
            job.state = JobState::Answered(Answer::Failed {
                cause: Cause::Store,
                message: "no such bucket".to_owned(),
            });
            return;
        }
        let id = snapshot.id.clone();
        // What is there is answered from there.
        self.store.entry(id.clone()).or_insert(0);
        *self.store.get_mut(&id).unwrap() += 1;
        let base = Base {
            id: id.clone(),
            url: format!("s3://b/{id}"),
            time: self.now,
            revision: 7,
            compact_revision: 1,
            stored_bytes: 10,
            raw_bytes: 20,
            etcd_version: "3.6.16".to_owned(),
        };
        let newest = vec![Listed {
            id,
            time: self.now,
            revision: 7,
            bytes: 10,
            verified: None,
        }];
        job.state = match self.fate {
            Fate::Loses => JobState::Lost("the pod is gone".to_owned()),
            Fate::Done | Fate::Fails => JobState::Answered(Answer::Done(Done::Snapshot(Made {
                base,
                pruned: 0,
                unpruned: None,
                newest,
            }))),
        };
    }

    /// Looks and works until so much time has passed.
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

    pub(super) fn phase(&self) -> Option<BackupPhase> {
        self.status.phase
    }

    pub(super) fn ready(&self) -> (&str, &str) {
        let condition = &self.status.conditions[0];
        (&condition.status, &condition.reason)
    }
}
