//! A row of etcd's bucket `key`, as a watch brings it and as the bucket stores it.

use sha2::{Digest as _, Sha256};

use super::kind;

/// What happened to a key in a revision. The sub-revision is its place among the rows of the revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// It was written: the `KeyValue` in protobuf, as etcd sent it, which is as etcd stores it.
    Put(Vec<u8>),
    /// It was deleted: the key.
    Delete(Vec<u8>),
}

impl Row {
    /// The key of the row in the bucket: revision, sub-revision, and whether the key was deleted.
    pub fn bucket_key(&self, revision: i64, sub: i64) -> Vec<u8> {
        let mut key = revision.to_be_bytes().to_vec();
        key.push(b'_');
        key.extend(sub.to_be_bytes());
        if matches!(self, Self::Delete(_)) {
            key.push(b't');
        }
        key
    }

    /// The value of the row in the bucket. That of a deletion is a `KeyValue` with nothing but the key.
    pub fn bucket_value(&self) -> Vec<u8> {
        match self {
            Self::Put(value) => value.clone(),
            Self::Delete(key) => {
                // Field 1, with a length.
                let mut value = vec![0x0a];
                let mut length = key.len();
                while length > 0x7f {
                    value.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
                    length >>= 7;
                }
                value.push(u8::try_from(length).unwrap_or(0));
                value.extend_from_slice(key);
                value
            }
        }
    }

    pub(super) fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Put(value) => (kind::PUT, value),
            Self::Delete(key) => (kind::DELETE, key),
        }
    }

    /// Whether it can be a row of this revision.
    pub(super) fn is_of(&self, revision: i64) -> bool {
        match self {
            Self::Put(value) => {
                KeyValue::parse(value).is_some_and(|read| read.mod_revision == revision)
            }
            Self::Delete(_) => true,
        }
    }
}

/// Hash of the rows of one revision: it tells, without their content, whether two histories have the same revision.
#[derive(Clone, Default)]
pub(super) struct RowHash(Sha256);

impl RowHash {
    pub(super) fn add(&mut self, row: &Row) {
        let (kind, content) = row.parts();
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        self.0.update([kind]);
        self.0.update(length.to_be_bytes());
        self.0.update(content);
    }

    pub(super) fn finish(self) -> u32 {
        let hash = self.0.finalize();
        let first = hash.first_chunk::<4>().copied().unwrap_or_default();
        u32::from_be_bytes(first)
    }
}

/// Hash of the rows of a revision, as a segment that ends with it says ([`super::Ended::hash`]).
pub fn row_hash(rows: &[Row]) -> u32 {
    let mut hash = RowHash::default();
    for row in rows {
        hash.add(row);
    }
    hash.finish()
}

/// What is in a `KeyValue`, without its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyValue<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Revision in which the key was created.
    pub create_revision: i64,
    /// Revision in which it was written.
    pub mod_revision: i64,
    /// How often it was written since it was created.
    pub version: i64,
    /// ID of its lease; 0: none.
    pub lease: i64,
}

impl<'a> KeyValue<'a> {
    /// Of bytes of protobuf; `None` where they are none. A field that etcd does not have is passed over, as protobuf wants.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut read = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let tag = varint(&mut rest)?;
            match tag & 7 {
                0 => {
                    let number = varint(&mut rest)?.cast_signed();
                    match tag >> 3 {
                        2 => read.create_revision = number,
                        3 => read.mod_revision = number,
                        4 => read.version = number,
                        6 => read.lease = number,
                        _other => {}
                    }
                }
                2 => {
                    let length = usize::try_from(varint(&mut rest)?).ok()?;
                    let (content, after) = rest.split_at_checked(length)?;
                    rest = after;
                    if tag >> 3 == 1 {
                        read.key = content;
                    }
                }
                1 => rest = rest.get(8..)?,
                5 => rest = rest.get(4..)?,
                _unknown => return None,
            }
        }
        Some(read)
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
