//! Writes a segment. The writer gives the bytes as they come; where they go, and what they become on the way there, is the
//! keeper's.

use sha2::{Digest as _, Sha256};

use super::row::RowHash;
use super::{Header, LONGEST, MAGIC, Mark, Row, kind};

/// How a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its last revision; the one before its first where it holds nothing but marks.
    pub last: i64,
    /// How many rows it has.
    pub rows: u64,
    /// Hash of the rows of its last revision.
    pub hash: u32,
}

/// What must not be written: a segment that says it would be no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// Revisions follow each other without a gap.
    #[error("revision {revision} does not follow {last}")]
    Gap {
        /// The last one.
        last: i64,
        /// What came.
        revision: i64,
    },
    /// Every revision has a row.
    #[error("revision {0} has no row")]
    NoRow(i64),
    /// A row says itself to which revision it belongs.
    #[error("a row of revision {0} is of another")]
    Row(i64),
    /// It is too long for any etcd.
    #[error("a row has {0} bytes")]
    Long(usize),
    /// A mark is of a revision that is there, and a segment without rows has one.
    #[error("a mark is missing, is of a later revision, or was answered before it was sent")]
    Mark,
    /// What a segment of marks alone ends with must be known from before.
    #[error("a segment without rows must say what came before it")]
    Unlinked,
    /// Its header is no header.
    #[error("the header cannot be written")]
    Header,
}

/// Writes one segment.
pub struct Writer {
    hash: Sha256,
    last: i64,
    rows: u64,
    /// Rows of the last revision, or what is known of the revision before the first.
    of_last: Result<RowHash, Option<u32>>,
    /// The last revision has no row yet.
    is_bare: bool,
    /// Newest revision of a mark; `None` before the first mark.
    marked: Option<i64>,
}

impl Writer {
    /// A segment begins; its first bytes are appended to `out`.
    pub fn new(header: &Header, out: &mut Vec<u8>) -> Result<Self, Misuse> {
        let text = serde_json::to_vec(header).unwrap_or_default();
        let last = header.first.checked_sub(1).filter(|last| *last >= 0);
        let last = last.filter(|_| !text.is_empty()).ok_or(Misuse::Header)?;
        let mut writer = Self {
            hash: Sha256::new(),
            last,
            rows: 0,
            of_last: Err(header.before),
            is_bare: false,
            marked: None,
        };
        writer.hash.update(MAGIC);
        out.extend_from_slice(MAGIC);
        writer.frame(kind::HEADER, &text, out)?;
        Ok(writer)
    }

    /// The next revision begins.
    pub fn revision(&mut self, revision: i64, out: &mut Vec<u8>) -> Result<(), Misuse> {
        self.whole()?;
        let last = self.last;
        if last.checked_add(1) != Some(revision) {
            return Err(Misuse::Gap { last, revision });
        }
        self.frame(kind::REVISION, &revision.to_be_bytes(), out)?;
        self.last = revision;
        self.of_last = Ok(RowHash::default());
        self.is_bare = true;
        Ok(())
    }

    /// A row of the revision that began last.
    pub fn row(&mut self, row: &Row, out: &mut Vec<u8>) -> Result<(), Misuse> {
        let Ok(hash) = &mut self.of_last else {
            return Err(Misuse::Row(self.last));
        };
        if !row.is_of(self.last) {
            return Err(Misuse::Row(self.last));
        }
        hash.add(row);
        self.is_bare = false;
        self.rows = self.rows.saturating_add(1);
        let (kind, content) = row.parts();
        self.frame(kind, content, out)
    }

    /// A moment. Its revision must have been written by the end of the segment.
    pub fn mark(&mut self, mark: &Mark, out: &mut Vec<u8>) -> Result<(), Misuse> {
        if mark.answered < mark.sent {
            return Err(Misuse::Mark);
        }
        let numbers = [mark.sent, mark.revision, mark.answered];
        let content: Vec<u8> = numbers.iter().flat_map(|it| it.to_be_bytes()).collect();
        self.marked = self.marked.max(Some(mark.revision));
        self.frame(kind::MARK, &content, out)
    }

    /// How long a lease was granted for.
    pub fn lease(&mut self, id: i64, ttl: i64, out: &mut Vec<u8>) -> Result<(), Misuse> {
        let content = [id.to_be_bytes(), ttl.to_be_bytes()].concat();
        self.frame(kind::LEASE, &content, out)
    }

    /// The segment ends.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<Ended, Misuse> {
        self.whole()?;
        let is_marked = self
            .marked
            .map_or(self.rows > 0, |marked| marked <= self.last);
        if !is_marked {
            return Err(Misuse::Mark);
        }
        let hash = match self.of_last.clone() {
            Ok(rows) => rows.finish(),
            Err(before) => before.ok_or(Misuse::Unlinked)?,
        };
        let (last, rows) = (self.last, self.rows);
        let ended = Ended { last, rows, hash };
        let mut content = Vec::new();
        content.extend(last.to_be_bytes());
        content.extend(rows.to_be_bytes());
        content.extend(hash.to_be_bytes());
        // The digest is of everything before it, the beginning of this frame included.
        let length = content.len() + 32;
        let mut prefix = vec![kind::END];
        prefix.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        prefix.extend(content);
        self.hash.update(&prefix);
        out.extend(prefix);
        out.extend(self.hash.finalize());
        Ok(ended)
    }

    fn whole(&self) -> Result<(), Misuse> {
        (!self.is_bare)
            .then_some(())
            .ok_or(Misuse::NoRow(self.last))
    }

    fn frame(&mut self, kind: u8, content: &[u8], out: &mut Vec<u8>) -> Result<(), Misuse> {
        let length = u32::try_from(content.len()).ok();
        let length = length.filter(|_| content.len() <= LONGEST);
        let length = length.ok_or(Misuse::Long(content.len()))?;
        let at = out.len();
        out.push(kind);
        out.extend(length.to_be_bytes());
        out.extend_from_slice(content);
        self.hash.update(out.get(at..).unwrap_or_default());
        Ok(())
    }
}
