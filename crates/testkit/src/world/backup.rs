//! A backup that the cluster is to begin with: the wish, the Job that brings it, and the agent that uses it. There is one store,
//! which has a backup of every ID that is asked for.

use std::collections::{BTreeSet, VecDeque};

use api::v1alpha1::backup::S3;
use api::v1alpha1::restore::{BackupLocation, RestoreFrom, RestoreTarget};
use archive::work::{Answer, Base, Cause, Done, Fetched, Rewound};
use gate::{Action, Failed, Grant, State};
use jiff::Timestamp;
use plan::Step;
use plan::backup::JobState;
use plan::decision::Fetch;
use plan::observed::{FetchJob, Restore, RestoreWish};

use super::replace::Asks;
use crate::world::{Container, NAME, NAMESPACE, World};

/// What is asked for, and what comes of it.
#[derive(Clone, Debug, Default)]
pub struct Backup {
    /// ID of the backup that the spec asks for, or why it cannot be had.
    pub asked: Option<Result<String, String>>,
    /// As of which revision all that ask want it; the newest is [`NEWEST`].
    pub moment: Option<i64>,
    /// How the next Jobs end, the first one first; well where nothing is said.
    pub ends: VecDeque<JobEnds>,
    /// How often the agent finds that it cannot use what was brought.
    pub spoiled: u32,
    /// The release that it is from.
    pub version: Option<String>,
    /// Authentication was on in it.
    pub auth: Option<bool>,
    /// The Job.
    pub job: Option<FetchJob>,
    /// How many Jobs there were.
    pub jobs: u32,
    /// EtcdRestores that ask for a backup in the place of the data, the oldest first.
    pub requests: Vec<Asks>,
    /// Whether the one that is carried out is still there cannot be read.
    pub unheard: bool,
    /// Clusters that any of them ever named.
    pub named: BTreeSet<u64>,
    /// The backup that the Job is for, where an EtcdRestore asks for it.
    pub job_id: Option<String>,
    /// The newest backup that an EtcdBackup lists, and the cluster that it is of.
    pub newest: Option<(String, u64)>,
}

/// The newest revision of every backup.
pub const NEWEST: i64 = 7;

/// How a Job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnds {
    /// The keeper says why not.
    Failed,
    /// What it said is lost, though it did its work.
    Lost,
    /// Its pod never starts.
    Stuck,
}

/// What lies on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// Name of its directory.
    pub directory: String,
    /// ID of the backup.
    pub id: String,
    /// The hash at the end of the file.
    pub trailer: String,
}

/// The hash at the end of the snapshot of a backup.
fn trailer(id: &str) -> String {
    format!("{:064x}", id.len())
}

/// The hash at the end of what was written as of a revision.
fn trailer_at(id: &str, moment: Option<i64>) -> String {
    let Some(moment) = moment.filter(|moment| *moment != NEWEST) else {
        return trailer(id);
    };
    format!("{moment:032x}{:032x}", id.len())
}

/// The wish for the backup of this ID, as of a revision.
pub(super) fn wish(id: &str, moment: Option<i64>) -> Result<RestoreWish, String> {
    let from = RestoreFrom {
        source: Some(BackupLocation {
            s3: Some(S3 {
                bucket: "bucket".to_owned(),
                ..S3::default()
            }),
            cluster_name: Some(NAME.to_owned()),
            ..BackupLocation::default()
        }),
        backup: Some(id.to_owned()),
        target: moment.map(|moment| RestoreTarget {
            revision: Some(moment),
        }),
        ..RestoreFrom::default()
    };
    RestoreWish::resolve(&from, NAMESPACE, None)
}

impl World {
    pub(super) fn observe_restore(&self) -> Restore {
        let (asked, moment) = (self.backup.asked.clone(), self.backup.moment);
        Restore {
            wish: asked.map(|asked| asked.and_then(|id| wish(&id, moment)).map(Box::new)),
            job: self.backup.job.clone().map(Box::new),
            requests: self.observe_requests(),
            unheard: self.backup.unheard,
            offer: self.observe_offer().map(Box::new),
        }
    }

    /// Creates or deletes the Job.
    pub(super) fn change_job(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Fetch(fetch) => self.create_job(fetch),
            Step::EndFetch { name, uid } => {
                let this = |job: &FetchJob| job.name == *name && job.uid == *uid;
                if self.backup.job.as_ref().is_some_and(this) {
                    self.backup.job = None;
                }
                Ok(())
            }
            _other => Ok(()),
        }
    }

    /// The name follows from what it is for, so that it is created once.
    fn create_job(&mut self, fetch: &Fetch) -> Result<(), String> {
        if self.backup.job.is_some() {
            return Err("the Job exists".to_owned());
        }
        self.backup.jobs += 1;
        let uid = self.fresh("job");
        let replaces = self.replaces();
        self.backup.job_id = fetch.wish.id().cloned().filter(|_| replaces);
        let member = api::names::member(NAME, fetch.ordinal);
        self.backup.job = Some(FetchJob {
            name: format!("{NAME}-restore-{}", fetch.attempt),
            uid,
            wish: fetch.wish.hash.clone(),
            member: if fetch.check { String::new() } else { member },
            claim_uid: fetch.claim_uid.clone(),
            attempt: fetch.attempt,
            state: JobState::Active(None),
        });
        Ok(())
    }

    /// The Job goes on, or ends. It can mount the volume only while no pod stands on it.
    pub(super) fn run_job(&mut self) {
        let Some(job) = self.backup.job.clone() else {
            return;
        };
        let ordinal = api::names::ordinal(NAME, &job.member).unwrap_or(0);
        let active = matches!(job.state, JobState::Active(_));
        // One that only reads mounts nothing.
        let reads = job.member.is_empty();
        let mounts = reads || !self.pods.contains_key(&ordinal);
        if !active || !mounts || !self.rng.chance(30) {
            return;
        }
        let asked = || self.backup.asked.clone().and_then(Result::ok);
        let id = self.backup.job_id.clone().or_else(asked);
        let (Some(id), Some(claim)) = (id, self.claims.get_mut(&ordinal)) else {
            return;
        };
        let ends = self.backup.ends.pop_front();
        if !reads && !matches!(ends, Some(JobEnds::Failed | JobEnds::Stuck)) {
            claim.volume.brought = Some(Brought {
                directory: gate::restore_directory(&job.wish),
                id: id.clone(),
                trailer: trailer_at(&id, self.backup.moment),
            });
        }
        let state = self.ended(ends, &id, reads);
        if let Some(job) = &mut self.backup.job {
            job.state = state;
        }
    }

    fn ended(&self, ends: Option<JobEnds>, id: &str, reads: bool) -> JobState {
        let moment = self.backup.moment;
        let rewound = moment.filter(|moment| *moment != NEWEST);
        let rewound = rewound.map(|revision| Rewound {
            revision,
            base_trailer: trailer(id),
            bytes: if reads { 0 } else { 50 },
            leases: u64::from(!reads),
            some_leases: Vec::new(),
        });
        match ends {
            Some(JobEnds::Failed) => JobState::Answered(Answer::Failed {
                cause: Cause::Store,
                message: "403 Forbidden".to_owned(),
            }),
            Some(JobEnds::Lost) => JobState::Lost("its pod is gone".to_owned()),
            Some(JobEnds::Stuck) => JobState::Stuck("no such Secret".to_owned()),
            None => JobState::Answered(Answer::Done(Done::Fetch(Fetched {
                base: Base {
                    id: id.to_owned(),
                    url: format!("s3://bucket/{id}"),
                    // When it was made, however often it is brought.
                    time: Timestamp::UNIX_EPOCH,
                    revision: NEWEST,
                    compact_revision: 1,
                    stored_bytes: 10,
                    raw_bytes: 100,
                    etcd_version: self.backup.version.clone().unwrap_or("3.5.35".to_owned()),
                },
                // What is only read is not written.
                trailer: trailer_at(id, moment.filter(|_| !reads)),
                auth: self.backup.auth,
                rewound,
            }))),
        }
    }

    /// What the agent checks before it uses a backup.
    pub(super) fn may_restore(&self, ordinal: u32, state: State) -> bool {
        matches!(state, State::Empty | State::Fenced) && self.claims.contains_key(&ordinal)
    }

    /// It cannot be used: it is not there, is another one, or is damaged. The agent waits once more, and says so.
    pub(super) fn fails_to_restore(&mut self, ordinal: u32, grant: &Grant) -> bool {
        let Action::Restore {
            directory, trailer, ..
        } = &grant.action
        else {
            return false;
        };
        let brought = self.claims.get(&ordinal);
        let brought = brought.and_then(|claim| claim.volume.brought.as_ref());
        let there = brought.is_some_and(|it| it.directory == *directory && it.trailer == *trailer);
        if there && self.backup.spoiled == 0 {
            return false;
        }
        self.backup.spoiled = self.backup.spoiled.saturating_sub(1);
        let volume = self.claims.get(&ordinal).map(|claim| claim.volume.clone());
        let volume = volume.unwrap_or_default();
        let state = volume.data.map_or(State::Empty, |_| State::Fenced);
        self.wait(ordinal, state, &volume);
        let time = self.now.as_second();
        let pod = self.pods.get_mut(&ordinal);
        if let Some(Container::Waiting(report)) = pod.map(|pod| &mut pod.container) {
            report.failed = Some(Failed {
                why: "etcdutl: expected sha256 differs".to_owned(),
                time,
            });
        }
        true
    }

    /// A member bootstraps a cluster that has the data of the backup.
    pub(super) fn start_restored(&mut self, ordinal: u32, token: &str) {
        if self.replaces() {
            return self.start_in_place(ordinal, token);
        }
        let brought = self.claims.get_mut(&ordinal);
        let brought = brought.and_then(|claim| claim.volume.brought.take());
        let known: Vec<u64> = self.clusters.keys().copied().collect();
        self.start_new(ordinal, token);
        let new = self.clusters.iter_mut();
        for (_, cluster) in new.filter(|(id, _)| !known.contains(id)) {
            cluster.restored = brought.as_ref().map(|brought| brought.id.clone());
        }
    }
}
