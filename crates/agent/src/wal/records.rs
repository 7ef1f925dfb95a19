//! Walks the records of one WAL file and checks each against the rolling CRC-32C, as `decodeRecord`
//! and `isTornEntry` of etcd do. What a record means is not known here.

use std::io::{self, Read};

use crate::protobuf::{self, Malformed, Value};

/// Record types of `walpb`.
pub(super) const METADATA: u64 = 1;
pub(super) const ENTRY: u64 = 2;
pub(super) const STATE: u64 = 3;
pub(super) const CRC: u64 = 4;
pub(super) const SNAPSHOT: u64 = 5;

/// etcd's own unit of a torn write.
const SECTOR: u64 = 512;

/// Why a record could not be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// A write that never finished: the normal end of a log after a crash.
    Torn(u64),
    /// Bytes that etcd itself would refuse.
    Damaged(String),
    /// The medium failed; nothing is known about the data.
    Io(io::Error),
}

/// One record; its CRC was checked.
pub(super) struct Record<'a> {
    pub(super) kind: u64,
    pub(super) data: &'a [u8],
}

/// Walks the records of one file.
pub(super) struct Records<R> {
    reader: R,
    size: u64,
    pub(super) offset: u64,
    longest: u64,
    pub(super) crc: u32,
    buffer: Vec<u8>,
}

impl<R: Read> Records<R> {
    pub(super) fn new(reader: R, size: u64, longest: u64) -> Self {
        Self {
            reader,
            size,
            offset: 0,
            longest,
            crc: 0,
            buffer: Vec::new(),
        }
    }

    /// The next record; `None` at the end of the file or where its preallocated zeros begin.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Unreadable> {
        let remaining = self.size.saturating_sub(self.offset);
        if remaining == 0 {
            return Ok(None);
        }
        if remaining < 8 {
            return Err(Unreadable::Torn(self.offset));
        }
        let mut field = [0; 8];
        self.reader
            .read_exact(&mut field)
            .map_err(|error| self.cut_short(error))?;
        let field = u64::from_le_bytes(field);
        if field == 0 {
            return Ok(None);
        }
        let length = field & ((1 << 56) - 1);
        let padding = if field >> 63 == 1 { field >> 56 & 7 } else { 0 };
        if length + padding > remaining - 8 {
            return Err(Unreadable::Torn(self.offset));
        }
        if length > self.longest {
            let offset = self.offset;
            return Err(Unreadable::Damaged(format!(
                "a record of {length} bytes at {offset}"
            )));
        }
        let wanted = length + padding;
        self.fill(wanted)?;
        self.check(length)?;
        self.offset += 8 + wanted;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match parse_record(self.buffer.get(..length).unwrap_or_default()) {
            Ok((kind, _, data)) => Ok(Some(Record { kind, data })),
            Err(Malformed) => Err(Unreadable::Damaged("malformed record".into())),
        }
    }

    /// Reads so many bytes, which the file has, into the buffer.
    ///
    /// Invariant: the buffer never takes more memory than the file has left, however long a record says it is
    /// (`a_wrong_length_takes_no_more_memory_than_the_file_has`): a buffer that grows by itself doubles, and the agent
    /// shares the limit of a container that is made for etcd.
    fn fill(&mut self, wanted: u64) -> Result<(), Unreadable> {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        self.buffer.clear();
        self.buffer
            .try_reserve_exact(wanted)
            .map_err(|error| Unreadable::Io(io::Error::new(io::ErrorKind::OutOfMemory, error)))?;
        self.buffer.resize(wanted, 0);
        let read = self.reader.read_exact(&mut self.buffer);
        read.map_err(|error| self.cut_short(error))
    }

    /// Checks the record in the buffer against the rolling CRC, as `decodeRecord` does.
    fn check(&mut self, length: u64) -> Result<(), Unreadable> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = self.buffer.get(..length).unwrap_or_default();
        let offset = self.offset;
        let refuse = |why: &str| {
            if self.is_torn() {
                Unreadable::Torn(offset)
            } else {
                Unreadable::Damaged(format!("{why} at offset {offset}"))
            }
        };
        let Ok((kind, crc, data)) = parse_record(bytes) else {
            return Err(refuse("malformed record"));
        };
        if kind == CRC {
            // The first one carries on from a file that was not read.
            if self.crc != 0 && self.crc != crc {
                return Err(Unreadable::Damaged(format!("wrong CRC at offset {offset}")));
            }
            self.crc = crc;
            return Ok(());
        }
        let computed = crc32c::crc32c_append(self.crc, data);
        if computed != crc {
            return Err(refuse("wrong CRC"));
        }
        self.crc = computed;
        Ok(())
    }

    /// Whether a whole sector of the record in the buffer is zero: it was never written.
    fn is_torn(&self) -> bool {
        let first = SECTOR - (self.offset + 8) % SECTOR;
        let first = usize::try_from(first)
            .unwrap_or(usize::MAX)
            .min(self.buffer.len());
        let (head, rest) = self.buffer.split_at(first);
        let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
        let sector = usize::try_from(SECTOR).unwrap_or(usize::MAX);
        (!head.is_empty() && is_zero(head)) || rest.chunks(sector).any(is_zero)
    }

    /// A file that ends earlier than its size said was torn; anything else is the medium.
    fn cut_short(&self, error: io::Error) -> Unreadable {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Unreadable::Torn(self.offset)
        } else {
            Unreadable::Io(error)
        }
    }
}

#[cfg(test)]
impl<R> Records<R> {
    /// Bytes that are kept for records.
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }
}

/// `walpb.Record` as (type, crc, data).
fn parse_record(bytes: &[u8]) -> Result<(u64, u32, &[u8]), Malformed> {
    let (mut kind, mut crc, mut data) = (0, 0, &[][..]);
    for field in protobuf::fields(bytes) {
        match field? {
            (1, Value::Varint(value)) => kind = value,
            (2, Value::Varint(value)) => crc = u32::try_from(value).or(Err(Malformed))?,
            (3, Value::Bytes(value)) => data = value,
            _ => {}
        }
    }
    Ok((kind, crc, data))
}
