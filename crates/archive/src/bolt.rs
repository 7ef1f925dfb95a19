//! Files of bbolt, in which etcd keeps its data: read at any place, and written from the first page to the last. Pure over
//! bytes: what lies below is a [`Source`], or whatever can be written and sought in.
//!
//! [`crate::stream`] reads a snapshot as it passes and keeps eight bytes of a page; here each row is read, so all of the file
//! must be there. Neither is told what the other found.

mod read;
mod write;

pub use read::{Broken, Bucket, Database, Row, Rows, Source};
pub use write::{Filling, Unwritten, Writer};

#[cfg(test)]
pub(crate) mod tests;
