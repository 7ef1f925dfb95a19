//! Reads etcd's write-ahead log without changing it: who wrote it (the head of a file) and how far it
//! goes (its last entry and commit). Mirrors `server/storage/wal/decoder.go`, which is the same in
//! etcd 3.5, 3.6 and 3.7. It judges nothing, repairs nothing and opens no files; [`End::commit`] builds
//! the one record that a copy of a log may be ended with.

mod end;
mod records;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, Read};

pub(crate) use self::end::{End, HardState, read_end};
pub(crate) use self::records::Unreadable;
use self::records::{CRC, ENTRY, METADATA, Record, Records, SNAPSHOT, STATE};
use crate::protobuf::{self, Malformed};

/// The head of a file is two small records; a longer one is no head.
const LONGEST_HEAD_RECORD: u64 = 64 << 10;
/// How much of one file a scan reads at most; files are cut at 64 MB.
pub(crate) const LONGEST_SCAN: u64 = 128 << 20;

/// Who wrote a WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The member.
    pub(crate) member_id: u64,
    /// Its cluster.
    pub(crate) cluster_id: u64,
}

/// A position in the log; ordered as raft compares logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// Term of the entry.
    pub(crate) term: u64,
    /// Index of the entry.
    pub(crate) index: u64,
}

/// What one file says about the end of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The last entry, or the snapshot that stands for it.
    pub(crate) last: Option<Position>,
    /// The last commit index.
    pub(crate) commit: Option<u64>,
    /// Why reading stopped before the end; a torn tail is an end.
    pub(crate) damage: Option<String>,
    /// The file goes on beyond [`LONGEST_SCAN`]: what was found is a lower bound.
    pub(crate) goes_on: bool,
}

/// Reads the CRC and metadata records with which every WAL file begins.
pub(crate) fn read_head(reader: impl Read, size: u64) -> Result<Head, Unreadable> {
    let mut records = Records::new(reader, size, LONGEST_HEAD_RECORD);
    for expected in [CRC, METADATA] {
        let Some(record) = records.next()? else {
            return Err(Unreadable::Damaged(
                "the file ends before its metadata".into(),
            ));
        };
        if record.kind != expected {
            let kind = record.kind;
            return Err(Unreadable::Damaged(format!(
                "it begins with a record of type {kind}"
            )));
        }
        if expected == METADATA {
            return parse_metadata(record.data)
                .ok_or_else(|| Unreadable::Damaged("its metadata names no member".into()));
        }
    }
    Err(Unreadable::Damaged("no metadata".into()))
}

/// Reads a file to its end, checking every record. `is_last`: only the newest file may end in a torn
/// write. `stop` is asked between records, so that a slow disk does not delay a shutdown.
pub(crate) fn read_tail(
    reader: impl Read,
    size: u64,
    is_last: bool,
    stop: &dyn Fn() -> bool,
) -> io::Result<Tail> {
    let mut records = Records::new(reader, size, LONGEST_SCAN);
    let mut tail = Tail::default();
    while !stop() {
        let offset = records.offset;
        let read = match records.next() {
            Ok(Some(record)) => tail.add(&record).map_err(|Malformed| {
                Unreadable::Damaged(format!("malformed record at offset {offset}"))
            }),
            Ok(None) => break,
            Err(error) => Err(error),
        };
        match read {
            Ok(()) if records.offset > LONGEST_SCAN => {
                tail.goes_on = true;
                break;
            }
            Ok(()) => {}
            Err(Unreadable::Torn(_)) if is_last => break,
            Err(Unreadable::Torn(at)) => {
                tail.damage = Some(format!("torn at offset {at}, but a newer file follows"));
                break;
            }
            Err(Unreadable::Damaged(why)) => {
                tail.damage = Some(why);
                break;
            }
            Err(Unreadable::Io(error)) => return Err(error),
        }
    }
    Ok(tail)
}

impl Tail {
    fn add(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let number = |field| Ok(protobuf::varint(record.data, field)?.unwrap_or_default());
        match record.kind {
            // A later entry with a lower index replaces what came after it (raft, figure 7).
            ENTRY => {
                let (term, index) = (number(2)?, number(3)?);
                self.last = Some(Position { term, index });
            }
            STATE => self.commit = Some(number(3)?),
            SNAPSHOT => {
                // Ahead of the log when the leader sent it; otherwise a local one, behind the log.
                let snapshot = Position {
                    index: number(1)?,
                    term: number(2)?,
                };
                if snapshot.index > self.last.unwrap_or_default().index {
                    self.last = Some(snapshot);
                }
            }
            METADATA | CRC => {}
            _ => return Err(Malformed),
        }
        Ok(())
    }
}

fn parse_metadata(data: &[u8]) -> Option<Head> {
    let member_id = protobuf::varint(data, 1).ok()??;
    let cluster_id = protobuf::varint(data, 2).ok()??;
    (member_id != 0 && cluster_id != 0).then_some(Head {
        member_id,
        cluster_id,
    })
}
