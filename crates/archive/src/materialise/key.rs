//! Rows of etcd: a revision as the key, and a `KeyValue` or a `Lease` of its protocol as the value.

use super::LEASE_SECONDS;

/// Fields of `KeyValue`.
const KEY: u64 = 1;
const LEASE: u64 = 6;
/// Fields of `Lease`.
const ID: u8 = 1 << 3;
const TTL: u8 = 2 << 3;
/// Kinds of fields: a number, eight bytes, bytes with their length before them, four bytes.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// The revision of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) main: u64,
    /// The row says that the key was deleted.
    pub(super) deletes: bool,
}

impl Revision {
    pub(super) fn parse(key: &[u8]) -> Option<Self> {
        let (main, rest) = key.split_first_chunk()?;
        let (mark, rest) = rest.split_first()?;
        let (_sub, rest) = rest.split_first_chunk::<8>()?;
        let deletes = match rest {
            [] => false,
            b"t" => true,
            _other => return None,
        };
        let main = u64::from_be_bytes(*main);
        // etcd counts with a sign.
        (*mark == b'_' && i64::try_from(main).is_ok()).then_some(Self { main, deletes })
    }
}

/// Key and lease of a `KeyValue`.
pub(super) fn parse_value(mut value: &[u8]) -> Option<(&[u8], u64)> {
    let (mut key, mut lease): (&[u8], u64) = (&[], 0);
    while !value.is_empty() {
        let tag = varint(&mut value)?;
        match (tag >> 3, tag & 7) {
            (LEASE, VARINT) => lease = varint(&mut value)?,
            (_other, VARINT) => {
                varint(&mut value)?;
            }
            (_other, FIXED64) => {
                take(&mut value, 8)?;
            }
            (_other, FIXED32) => {
                take(&mut value, 4)?;
            }
            (field, BYTES) => {
                let length = usize::try_from(varint(&mut value)?).ok()?;
                let bytes = take(&mut value, length)?;
                key = if field == KEY { bytes } else { key };
            }
            _group => return None,
        }
    }
    Some((key, lease))
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(taken)
}

fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for place in 0..10 {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The row of a lease that is made once more.
pub(super) fn lease_row(id: u64) -> ([u8; 8], Vec<u8>) {
    let mut value = vec![ID];
    put_varint(&mut value, id);
    value.push(TTL);
    put_varint(&mut value, LEASE_SECONDS);
    (id.to_be_bytes(), value)
}

fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.extend((number & 0x7f).to_le_bytes().first().map(|low| low | 0x80));
        number >>= 7;
    }
    to.extend(number.to_le_bytes().first());
}
