//! The log of a timeline: every revision after a base, row by row as etcd stores it, in objects that are written once. Pure:
//! what is in an object and in its name, what a listing covers, where capture goes on. Nothing here knows a key: an object is
//! compressed and encrypted as a base is, and what has to be known without decrypting it is in its name.
//!
//! An object (a segment) holds whole revisions without a gap: `first` to `last`. Two keepers that capture the same revisions
//! write the same rows; their objects may overlap, and that does no harm.

mod cover;
mod decode;
mod encode;
mod moment;
mod name;
mod request;
mod resume;
mod retain;
mod row;
mod seal;

use serde::{Deserialize, Serialize};

use crate::work::Timeline;

pub use cover::{Cover, Held, NotCovered, Range, chain, cover};
pub use decode::{BadLog, Reader};
pub use encode::{Ended, Misuse, Writer};
pub use moment::{NoMoment, as_of};
pub use name::{DIRECTORY, SEALS, Segment, parse_seal, seal_name};
pub use request::{Request, SPOOL};
pub use resume::{Begin, MOST_BEHIND, begin};
pub use retain::unneeded;
pub use row::{KeyValue, Row, row_hash};
pub use seal::SealRecord;

/// Version of what is in a segment. A reader accepts this one and older ones.
pub const FORMAT: u32 = 1;
/// No frame is longer: etcd's requests, and so its rows, are far shorter.
const LONGEST: usize = 64 << 20;
/// What a segment begins with.
const MAGIC: &[u8; 8] = b"etcd-log";
/// Bytes of a frame before its content: what it is, and how long it is.
const PREFIX: usize = 5;

/// Kinds of frames.
mod kind {
    pub(super) const HEADER: u8 = 1;
    pub(super) const REVISION: u8 = 2;
    pub(super) const PUT: u8 = 3;
    pub(super) const DELETE: u8 = 4;
    pub(super) const MARK: u8 = 5;
    pub(super) const LEASE: u8 = 6;
    pub(super) const END: u8 = 7;
}

/// What a segment says of itself before its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Version of the format.
    pub format: u32,
    /// ID of the etcd cluster, in hexadecimal digits.
    pub cluster_id: String,
    /// Its object, and how often its data had started over.
    pub timeline: Timeline,
    /// The first revision of the segment.
    pub first: i64,
    /// Hash of the rows of the revision before, where the keeper saw them ([`Ended::hash`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
}

/// A moment, by the keeper's clock: a linearizable read that was sent at `sent` was answered at `answered` with `revision`. So
/// the revision holds everything that was acknowledged before `sent`, and nothing that was committed after `answered`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The revision.
    pub revision: i64,
    /// Milliseconds since 1970, rounded down.
    pub sent: i64,
    /// Milliseconds since 1970, rounded up.
    pub answered: i64,
}

/// What is in a segment, in the order in which it was captured. Rows belong to the revision that was named last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A revision begins.
    Revision(i64),
    /// A row of it.
    Row(Row),
    /// A moment. Its revision may come later in the same segment, never after it.
    Mark(Mark),
    /// A lease was granted for so many seconds.
    Lease {
        /// Its ID.
        id: i64,
        /// Seconds.
        ttl: i64,
    },
    /// The end: everything before it is as it was captured. Nothing of a segment may be used before this was read.
    End(Ended),
}

#[cfg(test)]
mod tests;
