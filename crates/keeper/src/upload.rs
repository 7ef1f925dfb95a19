//! One large object on its way to the store, in parts, two at once. The caller waits when the store is slow, so that
//! memory stays bounded; and is told when it is too slow to go on.

use std::time::Duration;

use archive::work::Cause;
use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt as _};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::fault::{Explain as _, Fault, Result};
use crate::pace::{Pace, joining};
use crate::store::Store;

/// Bytes of a part. Stores take ten thousand of them, which is more than a database may have. Three of them are held.
const PART: usize = 7 << 20;
const AT_ONCE: usize = 2;
/// How long giving up may take.
const ABORT: Duration = Duration::from_secs(10);

/// An upload. It must be finished or aborted: parts that are left behind cost money and are in no listing.
pub(crate) struct Upload {
    store: Store,
    name: Path,
    parts: Box<dyn MultipartUpload>,
    under_way: JoinSet<(object_store::Result<()>, Bytes)>,
    buffer: BytesMut,
    /// What parts lay in that are through, to be used again: whatever is given back to the allocator it may keep.
    free: Vec<BytesMut>,
    /// Bytes that were given to the store.
    sent: u64,
    pace: Pace,
    what: String,
}

impl Upload {
    pub(crate) async fn begin(store: &Store, name: &str) -> Result<Self> {
        let what = format!("write {}", store.url(name));
        let name = Path::from(name);
        let parts = store.objects.put_multipart(&name).await;
        Ok(Self {
            store: store.clone(),
            name,
            parts: parts.explain(Cause::Store, &what)?,
            under_way: JoinSet::new(),
            buffer: BytesMut::with_capacity(PART),
            free: Vec::new(),
            sent: 0,
            pace: Pace::default(),
            what,
        })
    }

    /// Takes bytes, which so many bytes of the snapshot have become; waits while two parts are under way.
    pub(crate) async fn write(&mut self, bytes: &[u8], raw: usize) -> Result<()> {
        self.pace.moved(u64::try_from(raw).unwrap_or(u64::MAX));
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = PART.saturating_sub(self.buffer.len()).min(rest.len());
            let (now, later) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            self.buffer.extend_from_slice(now);
            rest = later;
            if self.buffer.len() >= PART {
                self.wait(AT_ONCE - 1).await?;
                self.send();
            }
        }
        Ok(())
    }

    /// Sends what there is as a part.
    fn send(&mut self) {
        let next = self.free.pop();
        let next = next.unwrap_or_else(|| BytesMut::with_capacity(PART));
        let part = std::mem::replace(&mut self.buffer, next).freeze();
        let bytes = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.sent = self.sent.saturating_add(bytes);
        let put = self.parts.put_part(part.clone().into());
        self.under_way.spawn(async move { (put.await, part) });
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
                Ok(Some(Ok((put, part)))) => {
                    put.explain(Cause::Store, &self.what)?;
                    self.free.extend(part.try_into_mut().map(cleared));
                }
                Ok(Some(Err(error))) => return Err(error).explain(Cause::Store, &self.what),
                Ok(None) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Sends the rest. The object is there afterwards, or not at all.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        // An object has one part at least, which may be empty.
        if !self.buffer.is_empty() || self.sent == 0 {
            self.wait(AT_ONCE - 1).await?;
            self.send();
        }
        self.wait(0).await?;
        self.join().await
    }

    /// Has the parts joined. The member is no longer read, so nothing but this Job waits.
    async fn join(&mut self) -> Result<()> {
        let limit = joining(self.sent);
        let failed = match timeout(limit, self.parts.complete()).await {
            Ok(Ok(_joined)) => return Ok(()),
            Ok(Err(error)) => Fault::of(Cause::Store, &self.what, &error),
            Err(_elapsed) => {
                let (bytes, seconds) = (self.sent, limit.as_secs());
                let what = &self.what;
                let message = format!(
                    "{what}: the store took all {bytes} bytes, and did not make one object of them within {seconds} s"
                );
                Fault::new(Cause::Store, message)
            }
        };
        // Answers are lost, and a request that is repeated after that fails, because the upload is no more. Nothing else writes
        // an object of this name.
        if self.store.is_remote {
            let found = self.store.head(&self.name).await;
            if found.is_ok_and(|meta| meta.is_some_and(|meta| meta.size == self.sent)) {
                return Ok(());
            }
        }
        Err(failed)
    }

    /// Gives it up, for a reason that is told on. That the store could not be told changes nothing about it.
    pub(crate) async fn abort(mut self, reason: Fault) -> Fault {
        self.under_way.shutdown().await;
        drop(timeout(ABORT, self.parts.abort()).await);
        reason
    }
}

fn cleared(mut buffer: BytesMut) -> BytesMut {
    buffer.clear();
    buffer
}

#[cfg(test)]
mod tests;
