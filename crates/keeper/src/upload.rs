//! One large object on its way to the store, in parts, two at once. The caller waits when the store is slow, so that
//! memory stays bounded; and is told when it is too slow to go on.

use std::time::Duration;

use archive::work::Cause;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt as _};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::fault::{Explain as _, Fault, Result};
use crate::pace::Pace;
use crate::store::Store;

/// Bytes of a part. Stores take ten thousand of them.
const PART: usize = 8 << 20;
const AT_ONCE: usize = 2;
/// How long giving up may take.
const ABORT: Duration = Duration::from_secs(10);

/// An upload. It must be finished or aborted: parts that are left behind cost money and are in no listing.
pub(crate) struct Upload {
    parts: Box<dyn MultipartUpload>,
    under_way: JoinSet<object_store::Result<()>>,
    buffer: Vec<u8>,
    pace: Pace,
    what: String,
}

impl Upload {
    pub(crate) async fn begin(store: &Store, name: &str) -> Result<Self> {
        let what = format!("write {}", store.url(name));
        let parts = store.objects.put_multipart(&Path::from(name)).await;
        Ok(Self {
            parts: parts.explain(Cause::Store, &what)?,
            under_way: JoinSet::new(),
            buffer: Vec::new(),
            pace: Pace::default(),
            what,
        })
    }

    /// Takes bytes, which so many bytes of the snapshot have become; waits while two parts are under way.
    pub(crate) async fn write(&mut self, bytes: &[u8], raw: usize) -> Result<()> {
        self.pace.moved(u64::try_from(raw).unwrap_or(u64::MAX));
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= PART {
            self.wait(AT_ONCE - 1).await?;
            let rest = self.buffer.split_off(PART);
            let part = std::mem::replace(&mut self.buffer, rest);
            self.send(part);
        }
        Ok(())
    }

    fn send(&mut self, part: Vec<u8>) {
        let part = self.parts.put_part(Bytes::from(part).into());
        self.under_way.spawn(part);
    }

    /// Waits until no more than so many parts are under way.
    async fn wait(&mut self, at_most: usize) -> Result<()> {
        while self.under_way.len() > at_most {
            let begun = Instant::now();
            let ended = timeout(self.pace.patience(), self.under_way.join_next()).await;
            self.pace
                .waited(begun.elapsed())
                .explain(Cause::Store, &self.what)?;
            match ended {
                Ok(Some(Ok(part))) => part.explain(Cause::Store, &self.what)?,
                Ok(Some(Err(error))) => return Err(error).explain(Cause::Store, &self.what),
                Ok(None) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Sends the rest. The object is there afterwards, or not at all.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        let rest = std::mem::take(&mut self.buffer);
        self.wait(AT_ONCE - 1).await?;
        self.send(rest);
        self.wait(0).await?;
        let complete = self.parts.complete().await;
        complete.map(drop).explain(Cause::Store, &self.what)
    }

    /// Gives it up, for a reason that is told on. That the store could not be told changes nothing about it.
    pub(crate) async fn abort(mut self, reason: Fault) -> Fault {
        self.under_way.shutdown().await;
        drop(timeout(ABORT, self.parts.abort()).await);
        reason
    }
}
