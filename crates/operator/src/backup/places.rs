//! How many Jobs this operator runs at once. A thousand clusters may be due in the same minute.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::runtime::reflector::Store;

use super::job::is_active;

/// A Job that was created is in the cache by then, or was not created.
const HEARD: Duration = Duration::from_mins(1);

/// Jobs by namespace and name, and when they were begun.
type Begun = BTreeMap<(String, String), Instant>;

/// Places for Jobs.
#[derive(Debug)]
pub struct Places {
    at_once: usize,
    /// Jobs that were created and may not be in the cache yet.
    begun: Mutex<Begun>,
}

impl Places {
    /// So many.
    pub fn new(at_once: u16) -> Self {
        Self {
            at_once: usize::from(at_once),
            begun: Mutex::default(),
        }
    }

    /// One is free for a backup.
    pub fn has_one(&self, jobs: &Store<Job>) -> bool {
        self.is_free(jobs, &mut self.lock(), 0)
    }

    /// One is free for a verification, which leaves half of them to backups: a trial may hang for hours.
    pub fn has_one_to_spare(&self, jobs: &Store<Job>) -> bool {
        self.is_free(jobs, &mut self.lock(), self.at_once / 2)
    }

    /// A Job is about to be created, if one is still free.
    pub fn take(&self, jobs: &Store<Job>, namespace: &str, name: &str) -> bool {
        let mut begun = self.lock();
        let free = self.is_free(jobs, &mut begun, 0);
        if free {
            let job = (namespace.to_owned(), name.to_owned());
            begun.insert(job, Instant::now());
        }
        free
    }

    fn is_free(&self, jobs: &Store<Job>, begun: &mut Begun, spared: usize) -> bool {
        let known: Vec<(String, String, bool)> = jobs
            .state()
            .iter()
            .map(|job| {
                let namespace = job.namespace().unwrap_or_default();
                (namespace, job.name_any(), is_active(job))
            })
            .collect();
        let active = known.iter().filter(|(_, _, active)| *active).count();
        begun.retain(|(namespace, name), since| {
            let mut known = known.iter();
            let heard = known.any(|it| it.0 == *namespace && it.1 == *name);
            !heard && since.elapsed() < HEARD
        });
        let taken = active.saturating_add(begun.len()).saturating_add(spared);
        taken < self.at_once
    }

    /// It was not.
    pub fn give_back(&self, namespace: &str, name: &str) {
        let job = (namespace.to_owned(), name.to_owned());
        self.lock().remove(&job);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Begun> {
        // What it holds is whole at every moment.
        self.begun
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
