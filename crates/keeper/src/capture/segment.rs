//! A segment that is being written, as a file of the spool.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use archive::log::{Header, Mark, Misuse, Row, Segment, Writer};
use archive::work::Cause;

use super::follow::Whole;
use crate::encode::{Encoder, Recipients};
use crate::fault::{Explain as _, Result};

/// Bytes that are compressed at once.
const PIECE: usize = 64 << 10;

/// How segments are written.
pub(super) struct Form<'a> {
    pub(super) compress: bool,
    pub(super) recipients: &'a Recipients,
    /// The file that is written; it has no name that means anything before it is complete.
    pub(super) path: PathBuf,
}

/// A segment without its end.
pub(super) struct Open {
    writer: Writer,
    encoder: Encoder,
    file: File,
    pub(super) path: PathBuf,
    piece: Vec<u8>,
    /// Bytes in the file.
    pub(super) bytes: u64,
    first: i64,
    answered: Option<i64>,
    compressed: bool,
    encrypted: bool,
}

impl Open {
    /// Begins with the newest mark there is, so that no time is lost between two segments.
    pub(super) fn new(form: Form<'_>, header: &Header, mark: Option<&Mark>) -> Result<Self> {
        let file = File::create(&form.path).explain(Cause::Request, writing(&form.path))?;
        let mut piece = Vec::new();
        let writer = wrote(Writer::new(header, &mut piece))?;
        let mut open = Self {
            writer,
            encoder: Encoder::new(form.compress, form.recipients)?,
            file,
            path: form.path,
            piece,
            bytes: 0,
            first: header.first,
            answered: None,
            compressed: form.compress,
            encrypted: form.recipients.any(),
        };
        if let Some(mark) = mark {
            open.mark(mark)?;
        }
        Ok(open)
    }

    pub(super) fn revision(&mut self, whole: &Whole) -> Result<()> {
        wrote(self.writer.revision(whole.revision, &mut self.piece))?;
        for row in &whole.rows {
            self.row(row)?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        wrote(self.writer.row(row, &mut self.piece))?;
        if self.piece.len() >= PIECE {
            self.encode()?;
        }
        Ok(())
    }

    pub(super) fn mark(&mut self, mark: &Mark) -> Result<()> {
        self.answered = self.answered.max(Some(mark.answered));
        wrote(self.writer.mark(mark, &mut self.piece))
    }

    pub(super) fn lease(&mut self, id: i64, ttl: i64) -> Result<()> {
        wrote(self.writer.lease(id, ttl, &mut self.piece))
    }

    /// Ends it; its name.
    pub(super) fn close(mut self) -> Result<Segment> {
        let mut piece = std::mem::take(&mut self.piece);
        let ended = wrote(self.writer.finish(&mut piece))?;
        let mut stored = self.encoder.push(&piece)?;
        let (rest, sum) = self.encoder.finish()?;
        stored.extend(rest);
        let written = self.file.write_all(&stored);
        written.explain(Cause::Request, writing(&self.path))?;
        let digits = sum.sha256.get(..16).unwrap_or_default();
        Ok(Segment {
            first: self.first,
            last: ended.last,
            answered: self.answered,
            hash: ended.hash,
            sum: u64::from_str_radix(digits, 16).explain(Cause::Request, "name a segment")?,
            compressed: self.compressed,
            encrypted: self.encrypted,
        })
    }

    fn encode(&mut self) -> Result<()> {
        let piece = std::mem::take(&mut self.piece);
        let stored = self.encoder.push(&piece)?;
        let written = self.file.write_all(&stored);
        written.explain(Cause::Request, writing(&self.path))?;
        let length = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        Ok(())
    }
}

fn writing(path: &std::path::Path) -> String {
    format!("write {}", path.display())
}

fn wrote<T>(written: std::result::Result<T, Misuse>) -> Result<T> {
    written.explain(Cause::Member, "write the log")
}
