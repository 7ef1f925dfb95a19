//! Reads a segment, in pieces of any size, with no more memory than a piece and a row. What it gives may be used only once it
//! has given the end: the digest there is of all that came before.

use sha2::{Digest as _, Sha256};

use super::row::RowHash;
use super::{Ended, Entry, FORMAT, Header, LONGEST, MAGIC, Mark, PREFIX, Row, kind};

/// What is wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLog {
    /// It does not begin as one.
    #[error("it is not a log of etcd")]
    NotLog,
    /// A later keeper wrote it.
    #[error("its format {0} is newer than this keeper")]
    Newer(u32),
    /// It is not what its name says, or not of this timeline.
    #[error("it is of {0}")]
    Other(String),
    /// It broke off.
    #[error("it ends before its end")]
    Short,
    /// Something comes after the end.
    #[error("something comes after its end")]
    Long,
    /// The digest at its end is that of something else.
    #[error("the digest at its end differs from its content")]
    Digest,
    /// A frame is none that a keeper writes.
    #[error("{0}")]
    Frame(&'static str),
}

/// The reader.
pub struct Reader {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read.
    read: usize,
    hash: Sha256,
    header: Option<Header>,
    begun: bool,
    last: i64,
    rows: u64,
    of_last: Result<RowHash, Option<u32>>,
    is_bare: bool,
    marked: Option<i64>,
    ended: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            read: 0,
            hash: Sha256::new(),
            header: None,
            begun: false,
            last: 0,
            rows: 0,
            of_last: Err(None),
            is_bare: false,
            marked: None,
            ended: false,
        }
    }
}

impl Reader {
    /// Takes bytes of the segment.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// What the segment said of itself; `None` before it was read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The next entry; `None` where more bytes are needed for it, and after the end.
    pub fn entry(&mut self) -> Result<Option<Entry>, BadLog> {
        loop {
            if self.ended {
                let is_all = self.read == self.buffer.len();
                return is_all.then_some(None).ok_or(BadLog::Long);
            }
            if !self.begun {
                let Some(magic) = self.peek(MAGIC.len()) else {
                    return Ok(None);
                };
                if magic != MAGIC {
                    return Err(BadLog::NotLog);
                }
                self.take(MAGIC.len());
                self.begun = true;
            }
            let Some((kind, content)) = self.frame()? else {
                return Ok(None);
            };
            if let Some(entry) = self.understand(kind, &content)? {
                return Ok(Some(entry));
            }
        }
    }

    /// To be asked when there are no more bytes: whether the end was read.
    pub fn finish(&self) -> Result<(), BadLog> {
        self.ended.then_some(()).ok_or(BadLog::Short)
    }

    fn peek(&self, number: usize) -> Option<&[u8]> {
        let end = self.read.checked_add(number)?;
        self.buffer.get(self.read..end)
    }

    fn take(&mut self, number: usize) -> Vec<u8> {
        let taken = self.peek(number).unwrap_or_default().to_vec();
        self.hash.update(&taken);
        self.read = self.read.saturating_add(number);
        taken
    }

    /// The next frame that is whole. That of the end is hashed up to its digest.
    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, BadLog> {
        let Some([kind, length @ ..]) = self.peek(PREFIX) else {
            return Ok(None);
        };
        let (kind, length) = (*kind, length.first_chunk::<4>().copied());
        let length = usize::try_from(u32::from_be_bytes(length.unwrap_or_default()));
        let length = length.ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or(BadLog::Frame("a frame of it is too long"))?;
        if self.peek(PREFIX.saturating_add(length)).is_none() {
            return Ok(None);
        }
        self.take(PREFIX);
        if kind != kind::END {
            return Ok(Some((kind, self.take(length))));
        }
        let facts = length.checked_sub(32);
        let facts = facts.ok_or(BadLog::Frame("its end is too short"))?;
        let facts = self.take(facts);
        let digest = self.peek(32).unwrap_or_default();
        if digest != self.hash.clone().finalize().as_slice() {
            return Err(BadLog::Digest);
        }
        self.read = self.read.saturating_add(32);
        Ok(Some((kind, facts)))
    }

    fn understand(&mut self, kind: u8, content: &[u8]) -> Result<Option<Entry>, BadLog> {
        if self.header.is_none() {
            return self.begin(kind, content).map(|()| None);
        }
        let entry = match kind {
            kind::REVISION => self.revision(content)?,
            kind::PUT => self.row(Row::Put(content.to_vec()))?,
            kind::DELETE => self.row(Row::Delete(content.to_vec()))?,
            kind::MARK => {
                let [sent, revision, answered] = numbers(content)?;
                self.marked = self.marked.max(Some(revision));
                if answered < sent {
                    return Err(BadLog::Frame("a mark was answered before it was sent"));
                }
                Entry::Mark(Mark {
                    revision,
                    sent,
                    answered,
                })
            }
            kind::LEASE => {
                let [id, ttl] = numbers(content)?;
                Entry::Lease { id, ttl }
            }
            kind::END => self.end(content)?,
            _unknown => return Err(BadLog::Frame("a frame of it is of an unknown kind")),
        };
        Ok(Some(entry))
    }

    fn begin(&mut self, kind: u8, content: &[u8]) -> Result<(), BadLog> {
        #[derive(serde::Deserialize)]
        struct Format {
            format: u32,
        }
        let bad = BadLog::Frame("it has no header");
        if kind != kind::HEADER {
            return Err(bad);
        }
        // The format comes first: a newer header may say other things.
        let Ok(Format { format }) = serde_json::from_slice(content) else {
            return Err(bad);
        };
        if format > FORMAT {
            return Err(BadLog::Newer(format));
        }
        let header = serde_json::from_slice::<Header>(content).ok();
        let header = header.filter(|header| header.first > 0).ok_or(bad)?;
        self.last = header.first - 1;
        self.of_last = Err(header.before);
        self.header = Some(header);
        Ok(())
    }

    fn revision(&mut self, content: &[u8]) -> Result<Entry, BadLog> {
        let [revision] = numbers(content)?;
        if self.is_bare {
            return Err(BadLog::Frame("a revision of it has no row"));
        }
        if self.last.checked_add(1) != Some(revision) {
            return Err(BadLog::Frame(
                "a revision of it does not follow the one before",
            ));
        }
        self.last = revision;
        self.of_last = Ok(RowHash::default());
        self.is_bare = true;
        Ok(Entry::Revision(revision))
    }

    fn row(&mut self, row: Row) -> Result<Entry, BadLog> {
        let stray = BadLog::Frame("a row of it is of another revision");
        let Ok(hash) = &mut self.of_last else {
            return Err(stray);
        };
        if !row.is_of(self.last) {
            return Err(stray);
        }
        hash.add(&row);
        self.is_bare = false;
        self.rows = self.rows.saturating_add(1);
        Ok(Entry::Row(row))
    }

    fn end(&mut self, content: &[u8]) -> Result<Entry, BadLog> {
        let bad = BadLog::Frame("its end is not that of its content");
        let (numbers_of, hash) = content.split_at_checked(16).ok_or(bad.clone())?;
        let [last, rows] = numbers(numbers_of)?;
        let hash = hash.try_into().map(u32::from_be_bytes);
        let seen = match self.of_last.clone() {
            Ok(rows) => Some(rows.finish()),
            Err(before) => before,
        };
        let is_marked = self
            .marked
            .map_or(self.rows > 0, |marked| marked <= self.last);
        let is_so = !self.is_bare
            && is_marked
            && last == self.last
            && u64::try_from(rows) == Ok(self.rows)
            && hash.ok() == seen;
        let hash = seen.filter(|_| is_so).ok_or(bad)?;
        self.ended = true;
        let rows = self.rows;
        Ok(Entry::End(Ended { last, rows, hash }))
    }
}

/// Numbers of eight bytes each, and nothing else.
fn numbers<const N: usize>(content: &[u8]) -> Result<[i64; N], BadLog> {
    let (chunks, rest) = content.as_chunks::<8>();
    let numbers = chunks.iter().map(|chunk| i64::from_be_bytes(*chunk));
    let numbers: Vec<i64> = numbers.filter(|_| rest.is_empty()).collect();
    let wrong = |_: Vec<i64>| BadLog::Frame("a frame of it has the wrong length");
    numbers.try_into().map_err(wrong)
}
