//! A large object on its way from the store. A connection that breaks is no reason to begin again: reading goes on behind the
//! last byte that came, of the same object.

use archive::work::Cause;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt as _};

use crate::fault::{Explain as _, Result};
use crate::store::Store;

/// Bytes that must come over a connection for another one to be opened after it. The client of the store repeats requests by
/// itself, but not for longer than a minute.
const PROGRESS: u64 = 1 << 20;

/// An object that is being read.
pub(crate) struct Reading {
    store: Store,
    name: Path,
    pub(crate) meta: ObjectMeta,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    /// Bytes that came.
    at: u64,
    /// How many had come when the present connection was opened.
    since: u64,
}

impl Reading {
    /// Begins; `None` if there is no such object.
    pub(crate) async fn begin(store: &Store, name: &Path) -> Result<Option<Self>> {
        let object = match store.objects.get(name).await {
            Ok(object) => object,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error).explain(Cause::Store, what(store, name)),
        };
        Ok(Some(Self {
            store: store.clone(),
            name: name.clone(),
            meta: object.meta.clone(),
            stream: object.into_stream(),
            at: 0,
            since: 0,
        }))
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.stream.next().await {
                Some(Ok(piece)) => {
                    let bytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                    self.at = self.at.saturating_add(bytes);
                    return Ok(Some(piece));
                }
                Some(Err(error)) => self.go_on(error).await?,
                None => return Ok(None),
            }
        }
    }

    /// Opens another connection, if this one brought anything and the store can tell that the object is the same.
    async fn go_on(&mut self, error: object_store::Error) -> Result<()> {
        let what = what(&self.store, &self.name);
        let has_moved = self.at.saturating_sub(self.since) >= PROGRESS;
        let Some(tag) = self.meta.e_tag.clone().filter(|_| has_moved) else {
            return Err(error).explain(Cause::Store, what);
        };
        let rest = GetOptions {
            range: Some(GetRange::Bounded(self.at..self.meta.size)),
            if_match: Some(tag),
            ..GetOptions::default()
        };
        let rest = self.store.objects.get_opts(&self.name, rest).await;
        self.stream = rest.explain(Cause::Store, what)?.into_stream();
        self.since = self.at;
        Ok(())
    }
}

fn what(store: &Store, name: &Path) -> String {
    format!("read {}", store.url(name.as_ref()))
}

#[cfg(test)]
mod tests;
