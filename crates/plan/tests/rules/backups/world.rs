//! The world: its store, its Job, and what becomes of it.

use api::v1alpha1::backup::{BackupPhase, EtcdBackupSpec, EtcdBackupStatus, S3};
use archive::work::{Answer, Base, Cause, Depth, Done, Listed, Made, Request, Task, Verified};
use jiff::{SignedDuration, Timestamp};
use plan::backup::Voter;
use plan::backup::{Cluster, Job, JobState, Seen, Step, Trial, decide};

/// What became of a Job that ended.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Done,
    Fails,
    /// The base is in the store, and no answer is to be had.
    Loses,
}

/// What a keeper finds that tries a base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finds {
    Good(Depth),
    Damaged,
    /// It cannot be tried.
    Fails,
    /// It is as it should be, which is in the store, and no answer is to be had.
    Loses,
}

/// What is recorded of a verification: the time of a good one.
pub(super) type Record = Result<Timestamp, ()>;

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) spec: EtcdBackupSpec,
    pub(super) status: EtcdBackupStatus,
    pub(super) asked: Option<String>,
    pub(super) cluster: Option<Cluster>,
    pub(super) job: Option<(Job, Request)>,
    /// IDs of the bases in the store, and how many Jobs wrote each.
    pub(super) store: std::collections::BTreeMap<String, u32>,
    /// When each was complete.
    pub(super) times: std::collections::BTreeMap<String, Timestamp>,
    pub(super) fate: Fate,
    pub(super) jobs: u32,
    pub(super) trial: Option<(Trial, Request)>,
    /// By base and verification.
    pub(super) records: std::collections::BTreeMap<(String, String), Record>,
    pub(super) finds: Finds,
    /// How often an etcd ran on a base.
    pub(super) tried: u32,
    pub(super) trials: u32,
    pub(super) has_place: bool,
    pub(super) spared: Vec<String>,
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
        image: Some("etcd:v3.6.16".to_owned()),
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
            times: std::collections::BTreeMap::new(),
            fate: Fate::Done,
            jobs: 0,
            trial: None,
            records: std::collections::BTreeMap::new(),
            finds: Finds::Good(Depth::Hash),
            tried: 0,
            trials: 0,
            has_place: true,
            spared: Vec::new(),
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
            trial: self.trial.as_ref().map(|(trial, _)| trial.clone()),
            cluster: self.cluster.clone(),
            has_place: self.has_place,
            has_place_to_spare: self.has_place,
            spared: self.spared.clone(),
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
            Step::Verify(begin) => {
                assert!(self.trial.is_none(), "a second Job");
                let memory = self.status.memory.as_ref();
                let recorded = memory.and_then(|it| it.verify.as_ref());
                assert_eq!(recorded, Some(&begin.run), "recorded before it is done");
                self.trials += 1;
                let trial = Trial {
                    name: format!("trial-{}", self.trials),
                    uid: format!("trial-{}", self.trials),
                    run: begin.run,
                    state: JobState::Active(None),
                };
                self.trial = Some((trial, begin.request));
                self.lives();
            }
            Step::Forget { uid, .. } if uid.starts_with("trial") => {
                let (trial, _) = self.trial.take().unwrap();
                assert_eq!(trial.uid, uid);
                assert!(!matches!(trial.state, JobState::Active(_)), "it runs");
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

    /// The keepers do their work.
    pub(super) fn work(&mut self) {
        self.back_up();
        self.verify();
    }

    /// Those of verifications hang.
    pub(super) fn work_on_backups(&mut self) {
        self.back_up();
    }

    fn verify(&mut self) {
        let Some((trial, request)) = &mut self.trial else {
            return;
        };
        if trial.state != JobState::Active(None) {
            return;
        }
        let Task::Verify(task) = &request.task else {
            panic!("no verification");
        };
        assert_eq!(task.place.cluster_id, "abc");
        let key = (task.id.clone().unwrap(), task.run.clone().unwrap());
        assert!(self.store.contains_key(&key.0), "there is no such base");
        let damaged = || Answer::Failed {
            cause: Cause::Damaged,
            message: "its HashKV differs".to_owned(),
        };
        let depth = match self.finds {
            Finds::Good(depth) => depth,
            _other => Depth::Hash,
        };
        if self.finds == Finds::Fails {
            trial.state = JobState::Answered(Answer::Failed {
                cause: Cause::Request,
                message: "the scratch volume is full".to_owned(),
            });
            return;
        }
        let (known, now, finds) = (self.records.get(&key).copied(), self.now, self.finds);
        let record = known.unwrap_or_else(|| {
            self.tried += 1;
            if finds == Finds::Damaged {
                Err(())
            } else {
                Ok(now)
            }
        });
        self.records.insert(key.clone(), record);
        trial.state = match record {
            _lost if finds == Finds::Loses => JobState::Lost("the pod is gone".to_owned()),
            Err(()) => JobState::Answered(damaged()),
            Ok(time) => JobState::Answered(Answer::Done(Done::Verify(Verified {
                id: key.0,
                revision: 7,
                depth,
                time,
                keys: None,
            }))),
        };
    }

    fn back_up(&mut self) {
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
        let time = *self.times.entry(id.clone()).or_insert(self.now);
        let base = Base {
            id: id.clone(),
            url: format!("s3://b/ns/db/abc/base/{id}-0.db.zst"),
            time,
            revision: 7,
            compact_revision: 1,
            stored_bytes: 10,
            raw_bytes: 20,
            etcd_version: "3.6.16".to_owned(),
        };
        let listed = |(id, time): (&String, &Timestamp)| {
            let records = self.records.iter().filter(|((of, _), _)| of == id);
            let last = records.map(|(_, record)| *record).next_back();
            Listed {
                id: id.clone(),
                time: *time,
                revision: 7,
                bytes: 10,
                verified: last.and_then(Result::ok),
                damaged: last == Some(Err(())),
            }
        };
        let mut newest: Vec<Listed> = self.times.iter().map(listed).collect();
        newest.sort_by_key(|listed| std::cmp::Reverse(listed.time));
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

    pub(super) fn verified(&self) -> (&str, &str, &str) {
        let conditions = &self.status.conditions;
        let condition = conditions.iter().find(|it| it.type_ == "Verified");
        let condition = condition.unwrap();
        (&condition.status, &condition.reason, &condition.message)
    }

    pub(super) fn phase(&self) -> Option<BackupPhase> {
        self.status.phase
    }

    pub(super) fn ready(&self) -> (&str, &str) {
        let condition = &self.status.conditions[0];
        (&condition.status, &condition.reason)
    }
}
