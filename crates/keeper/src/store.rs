//! Stores of objects, whichever kind they are. Names are made by `archive::layout`; here they become addresses.

mod open;
mod patience;
#[cfg(test)]
pub(crate) mod stand_in;

use std::sync::Arc;

use archive::work::Cause;
use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};

use crate::fault::{Explain as _, Fault, Result};
pub(crate) use open::open;

/// Bytes of a record at most. What is larger was not written by a keeper.
const RECORD: u64 = 1 << 20;

/// An open store.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// What stands before a name in an address, such as `s3://bucket/`.
    address: String,
    /// Prefix of every name.
    pub(crate) path: String,
    /// It is reached over a network, on which answers are lost.
    pub(crate) is_remote: bool,
}

impl Store {
    /// The address of an object, for people.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}{name}", self.address)
    }

    /// Writes a small object.
    pub(crate) async fn put(&self, name: &str, content: impl Into<Bytes>) -> Result<()> {
        let put = self
            .objects
            .put(&Path::from(name), content.into().into())
            .await;
        put.explain(Cause::Store, format!("write {}", self.url(name)))?;
        Ok(())
    }

    /// Reads a record; `None` if there is none.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let read = || format!("read {}", self.url(name));
        match self.objects.get(&Path::from(name)).await {
            Ok(object) if object.meta.size > RECORD => {
                let (url, bytes) = (self.url(name), object.meta.size);
                let message = format!("{url} is damaged: it has {bytes} bytes, as no record has");
                Err(Fault::new(Cause::Damaged, message))
            }
            Ok(object) => {
                let bytes = object.bytes().await;
                bytes.map(Some).explain(Cause::Store, read())
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error).explain(Cause::Store, read()),
        }
    }

    /// What the store says of an object; `None` if there is none.
    pub(crate) async fn head(&self, name: &Path) -> Result<Option<ObjectMeta>> {
        match self.objects.head(name).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => {
                Err(error).explain(Cause::Store, format!("read {}", self.url(name.as_ref())))
            }
        }
    }

    /// The last parts of the names of all objects below a directory, in order.
    pub(crate) async fn list(&self, directory: &str) -> Result<Vec<String>> {
        let listed = self.objects.list(Some(&Path::from(directory)));
        let listed: std::result::Result<Vec<_>, _> = listed.try_collect().await;
        let listed = listed.explain(Cause::Store, format!("list {}", self.url(directory)))?;
        let names = listed
            .iter()
            .filter_map(|object| object.location.filename());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The names of the directories within one.
    pub(crate) async fn directories(&self, directory: &str) -> Result<Vec<String>> {
        let listed = self
            .objects
            .list_with_delimiter(Some(&Path::from(directory)))
            .await;
        let listed = listed.explain(Cause::Store, format!("list {}", self.url(directory)))?;
        let names = listed
            .common_prefixes
            .iter()
            .filter_map(|path| path.filename());
        Ok(names.map(str::to_owned).collect())
    }

    /// Deletes an object. One that is gone already is no error.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        match self.objects.delete(&Path::from(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error).explain(Cause::Store, format!("delete {}", self.url(name))),
        }
    }
}
