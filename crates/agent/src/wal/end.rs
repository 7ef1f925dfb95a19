//! Where a log ends, and the record that commits all of it. `--force-new-cluster` drops what lies above
//! the commit index that this member knew, and raft does not even store an index that rose by itself
//! (<https://github.com/etcd-io/raft/pull/300>): an acknowledged write may lie there. A cluster that continues from the
//! log of a survivor must commit all of it first. Writes nothing: it returns bytes.

use std::io::Read;

use super::{
    Position, Tail,
    records::{Records, STATE, Unreadable},
};
use crate::protobuf::{self, Malformed};

/// The end of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Where the next record belongs; what follows is zero or torn.
    pub(crate) offset: u64,
    /// The rolling CRC up to there.
    pub(crate) crc: u32,
    /// The last entry, or the snapshot that stands for it.
    pub(crate) last: Option<Position>,
    /// The last hard state.
    pub(crate) state: Option<HardState>,
}

/// What raft remembers beside the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HardState {
    /// The newest term it saw.
    pub(crate) term: u64,
    /// The member that it voted for in that term.
    pub(crate) vote: u64,
    /// Up to where the log is known to be agreed upon.
    pub(crate) commit: u64,
}

/// Reads a whole file, whatever its length. Damage is an error: nothing that cannot be read to its end
/// is gone on from. `is_newest`: only the newest file may end in a torn write.
pub(crate) fn read_end(reader: impl Read, size: u64, is_newest: bool) -> Result<End, Unreadable> {
    let mut records = Records::new(reader, size, size);
    let (mut tail, mut state) = (Tail::default(), None);
    loop {
        let at = records.offset;
        let malformed = |Malformed| Unreadable::Damaged(format!("malformed record at offset {at}"));
        match records.next() {
            Ok(Some(record)) => {
                tail.add(&record).map_err(malformed)?;
                if record.kind == STATE {
                    state = Some(parse_state(record.data).map_err(malformed)?);
                }
            }
            Ok(None) => break,
            Err(Unreadable::Torn(_)) if is_newest => break,
            Err(error) => return Err(error),
        }
    }
    Ok(End {
        offset: records.offset,
        crc: records.crc,
        last: tail.last,
        state,
    })
}

impl End {
    /// The record that commits the log up to `last`, to be written at [`End::offset`]; `None` when that
    /// is committed already. A commit is never lowered, nor is a term.
    pub(crate) fn commit(&self, state: HardState, last: Position) -> Option<Vec<u8>> {
        if last.index <= state.commit {
            return None;
        }
        let (term, vote) = if last.term > state.term {
            (last.term, 0)
        } else {
            (state.term, state.vote)
        };
        let data = protobuf::build_varints(&[(1, term), (2, vote), (3, last.index)]);
        Some(build_record(STATE, &data, self.crc))
    }
}

fn parse_state(data: &[u8]) -> Result<HardState, Malformed> {
    let number = |field| Ok(protobuf::varint(data, field)?.unwrap_or_default());
    Ok(HardState {
        term: number(1)?,
        vote: number(2)?,
        commit: number(3)?,
    })
}

/// A record as `encoder.go` frames it: its length, then `walpb.Record`, filled up to eight bytes.
fn build_record(kind: u64, data: &[u8], previous_crc: u32) -> Vec<u8> {
    let crc = crc32c::crc32c_append(previous_crc, data);
    let mut record = protobuf::build_varints(&[(1, kind), (2, crc.into())]);
    record.extend(protobuf::build_bytes(3, data));
    let length = u64::try_from(record.len()).unwrap_or(u64::MAX);
    let padding = length.wrapping_neg() % 8;
    let field = match padding {
        0 => length,
        _ => length | (0x80 | padding) << 56,
    };
    let mut bytes = field.to_le_bytes().to_vec();
    bytes.extend(record);
    bytes.extend((0..padding).map(|_| 0));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::{Head, read_tail, tests::Writer};

    const HEAD: Head = Head {
        member_id: 0xa1,
        cluster_id: 0xc1,
    };

    fn end(bytes: &[u8]) -> End {
        read_end(bytes, u64::try_from(bytes.len()).unwrap(), true).unwrap()
    }

    #[test]
    fn the_record_reads_as_etcd_writes_it() {
        let log = Writer::new(7, HEAD).state(2, 1).entry(2, 2, b"a");
        let found = end(&log.clone().preallocated());
        assert_eq!(found.offset, u64::try_from(log.bytes.len()).unwrap());
        let last = Position { term: 2, index: 2 };
        let state = HardState {
            term: 2,
            vote: 1,
            commit: 1,
        };
        assert_eq!((found.last, found.state), (Some(last), Some(state)));

        let record = found.commit(state, last).unwrap();
        let expected = log.clone().state(2, 2).bytes;
        assert_eq!([log.bytes, record].concat(), expected);
        assert_eq!(
            end(&expected).commit(end(&expected).state.unwrap(), last),
            None
        );
    }

    #[test]
    fn a_torn_write_is_cut_off_and_damage_is_refused() {
        let good = Writer::new(0, HEAD).state(1, 1).entry(1, 2, b"a");
        let torn = good.clone().entry(1, 3, &[0xaa; 3000]).bytes;
        let torn = &torn[..good.bytes.len() + 100];
        let found = end(torn);
        assert_eq!(found, end(&good.bytes));
        let older = read_end(torn, u64::try_from(torn.len()).unwrap(), false);
        assert!(matches!(older, Err(Unreadable::Torn(_))));

        let record = found.commit(found.state.unwrap(), found.last.unwrap());
        let bytes = [&good.bytes[..], &record.unwrap()].concat();
        let size = u64::try_from(bytes.len()).unwrap();
        let tail = read_tail(&bytes[..], size, true, &|| false).unwrap();
        assert_eq!((tail.commit, tail.damage), (Some(2), None));

        let mut damaged = good.clone().entry(1, 3, b"b").state(1, 2).bytes;
        damaged[good.bytes.len() + 20] ^= 1;
        let read = read_end(&damaged[..], u64::try_from(damaged.len()).unwrap(), true);
        assert!(matches!(read, Err(Unreadable::Damaged(_))), "{read:?}");
    }

    #[test]
    fn neither_term_nor_commit_is_ever_lowered() {
        let state = HardState {
            term: 5,
            vote: 9,
            commit: 40,
        };
        let at = |term, index| Position { term, index };
        let commit = |last| End::default().commit(state, last);
        assert_eq!(commit(at(5, 39)), None);
        assert_eq!(commit(at(5, 40)), None);
        let read = |last| end(&[Writer::new(0, HEAD).bytes, framed(last, state)].concat()).state;
        let raised = |term, vote| {
            Some(HardState {
                term,
                vote,
                commit: 41,
            })
        };
        assert_eq!(read(at(4, 41)), raised(5, 9));
        assert_eq!(read(at(6, 41)), raised(6, 0));
    }

    fn framed(last: Position, state: HardState) -> Vec<u8> {
        let end = end(&Writer::new(0, HEAD).bytes);
        end.commit(state, last).unwrap()
    }
}
