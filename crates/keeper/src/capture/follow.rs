//! From a watch to whole revisions. A revision that does not follow the one before ends it: something was lost, and only a new
//! start can tell what.

use archive::log::{KeyValue, Row, row_hash};
use archive::work::Cause;
use etcd::{Change, Watch, Watched};

use crate::fault::{Explain as _, Fault, Result};

/// A revision that is complete.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) revision: i64,
    pub(super) rows: Vec<Row>,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Revisions that follow the last one.
    Revisions(Vec<Whole>),
    /// The next revision is gone: history was compacted up to this one.
    Compacted(i64),
    /// The rows of the revision at which the store ends are others.
    Forked,
}

/// Makes revisions of changes.
pub(super) struct Follow {
    last: i64,
    /// Hash that the rows of `last` must have, until they came.
    expected: Option<u32>,
    /// The revision that is coming.
    coming: Option<Whole>,
}

impl Follow {
    /// After a revision, whose rows have this hash where it is known.
    pub(super) fn new(after: i64, hash: Option<u32>) -> Self {
        Self {
            last: after,
            expected: hash,
            coming: None,
        }
    }

    /// The revision to watch from. Where the last one is to be compared, that is one earlier: etcd may have compacted *at* the
    /// last one, brings what is left of it then, and does not say so.
    pub(super) fn from(&self) -> i64 {
        match self.expected {
            Some(_) => (self.last - 1).max(1),
            None => self.last + 1,
        }
    }

    /// What a watch brings next.
    pub(super) async fn next(&mut self, watch: &mut Watch) -> Result<News> {
        let watched = watch.next().await.explain(Cause::Member, "watch")?;
        self.take(watched)
    }

    pub(super) fn take(&mut self, watched: Watched) -> Result<News> {
        match watched {
            Watched::Compacted(revision) => Ok(News::Compacted(revision)),
            Watched::Progress(revision) => {
                if self.coming.is_some() || revision > self.last {
                    let last = self.last;
                    let message = format!(
                        "the member says that everything up to revision {revision} was sent, and revision {last} was the last that came"
                    );
                    return Err(Fault::new(Cause::Member, message));
                }
                Ok(News::Revisions(Vec::new()))
            }
            Watched::Changes { changes, is_whole } => self.changes(changes, is_whole),
        }
    }

    fn changes(&mut self, changes: Vec<Change>, is_whole: bool) -> Result<News> {
        let mut found = Vec::new();
        for change in changes {
            let unreadable = || Fault::new(Cause::Member, "the member sent a change without a key");
            let read = KeyValue::parse(&change.key_value).ok_or_else(unreadable)?;
            let revision = read.mod_revision;
            let row = if change.is_delete {
                Row::Delete(read.key.to_vec())
            } else {
                Row::Put(change.key_value)
            };
            match &mut self.coming {
                Some(coming) if coming.revision == revision => coming.rows.push(row),
                _other => {
                    if !self.complete(&mut found)? {
                        return Ok(News::Forked);
                    }
                    let rows = vec![row];
                    self.coming = Some(Whole { revision, rows });
                }
            }
        }
        if is_whole && !self.complete(&mut found)? {
            return Ok(News::Forked);
        }
        Ok(News::Revisions(found))
    }

    /// The revision that was coming is complete. Whether it is of the history that is in the store.
    fn complete(&mut self, found: &mut Vec<Whole>) -> Result<bool> {
        let Some(whole) = self.coming.take() else {
            return Ok(true);
        };
        if whole.revision < self.last {
            return Ok(true);
        }
        if whole.revision == self.last {
            let expected = self.expected.take();
            return Ok(expected.is_none_or(|hash| hash == row_hash(&whole.rows)));
        }
        if self.expected.is_some() {
            return Ok(false);
        }
        if whole.revision != self.last + 1 {
            let (last, revision) = (self.last, whole.revision);
            let message = format!("the member sent revision {revision} after revision {last}");
            return Err(Fault::new(Cause::Member, message));
        }
        self.last = whole.revision;
        found.push(whole);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
