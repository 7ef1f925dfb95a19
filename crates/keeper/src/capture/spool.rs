//! Segments that are complete and not in the store yet: files, each under the name that it will have, in a directory of their
//! timeline. What a keeper left behind when it was killed is brought to the store by the next one.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use archive::layout::is_cluster_id;
use archive::log::Segment;
use archive::work::Cause;
use tokio::sync::Notify;

use crate::fault::{Explain as _, Fault, Result};

/// A segment that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// ID of its etcd cluster.
    pub(super) cluster_id: String,
    pub(super) segment: Segment,
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// All of them, oldest first.
pub(super) struct Spool {
    directory: PathBuf,
    cluster_id: String,
    limit: u64,
    waiting: Mutex<VecDeque<Waiting>>,
    added: Notify,
    taken: Notify,
}

impl Spool {
    /// What is there. A file that was being written is nothing.
    pub(super) fn open(root: &Path, cluster_id: &str, limit: u64) -> Result<Self> {
        let what = || format!("use the spool {}", root.display());
        let directory = root.join(cluster_id);
        std::fs::create_dir_all(&directory).explain(Cause::Request, what())?;
        let mut waiting = Vec::new();
        for timeline in std::fs::read_dir(root).explain(Cause::Request, what())? {
            let timeline = timeline.explain(Cause::Request, what())?;
            let id = timeline.file_name().to_string_lossy().into_owned();
            if !is_cluster_id(&id) {
                continue;
            }
            for file in std::fs::read_dir(timeline.path()).explain(Cause::Request, what())? {
                let file = file.explain(Cause::Request, what())?;
                let name = file.file_name().to_string_lossy().into_owned();
                let Some(segment) = Segment::parse(&name) else {
                    std::fs::remove_file(file.path()).explain(Cause::Request, what())?;
                    continue;
                };
                let bytes = file.metadata().explain(Cause::Request, what())?.len();
                waiting.push(Waiting {
                    cluster_id: id.clone(),
                    segment,
                    name,
                    path: file.path(),
                    bytes,
                });
            }
        }
        waiting.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self {
            directory,
            cluster_id: cluster_id.to_owned(),
            limit,
            waiting: Mutex::new(waiting.into()),
            added: Notify::new(),
            taken: Notify::new(),
        })
    }

    /// Where the next segment is written.
    pub(super) fn draft(&self) -> PathBuf {
        self.directory.join("open")
    }

    /// A segment is complete.
    pub(super) fn add(&self, segment: Segment) -> Result<()> {
        let unnamed = || Fault::new(Cause::Request, "the clock has a time without a name");
        let name = segment.name().ok_or_else(unnamed)?;
        let path = self.directory.join(&name);
        let what = || format!("write {}", path.display());
        std::fs::rename(self.draft(), &path).explain(Cause::Request, what())?;
        let bytes = std::fs::metadata(&path)
            .explain(Cause::Request, what())?
            .len();
        self.lock().push_back(Waiting {
            cluster_id: self.cluster_id.clone(),
            segment,
            name,
            path,
            bytes,
        });
        self.added.notify_one();
        Ok(())
    }

    /// The oldest one, once there is one.
    pub(super) async fn first(&self) -> Waiting {
        loop {
            let first = self.lock().front().cloned();
            match first {
                Some(first) => return first,
                None => self.added.notified().await,
            }
        }
    }

    /// The oldest one is in the store.
    pub(super) fn stored(&self, one: &Waiting) -> Result<()> {
        let removed = std::fs::remove_file(&one.path);
        self.lock().retain(|other| other.path != one.path);
        self.taken.notify_one();
        removed.explain(Cause::Request, format!("delete {}", one.path.display()))
    }

    /// Those of this timeline.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let waiting = self.lock();
        let own = waiting.iter().filter(|it| it.cluster_id == self.cluster_id);
        own.map(|it| it.segment.clone()).collect()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().iter().map(|it| it.bytes).sum()
    }

    /// Whether no more may be added.
    pub(super) fn is_full(&self) -> bool {
        self.bytes() >= self.limit
    }

    /// Waits until it is worth going on after it was full.
    pub(super) async fn half_empty(&self) {
        self.until(|spool| spool.bytes() <= spool.limit / 2).await;
    }

    /// Waits until nothing is left.
    pub(super) async fn emptied(&self) {
        self.until(|spool| spool.lock().is_empty()).await;
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            // Before the look, so that nothing that happens after it is missed.
            let taken = self.taken.notified();
            if is_so(self) {
                return;
            }
            taken.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
