//! WAL files built byte by byte, as etcd's encoder writes them.

use proptest::prelude::*;

use super::*;

/// Writes records the way `encoder.go` does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) crc: u32,
}

impl Writer {
    pub(crate) fn new(previous_crc: u32, head: Head) -> Self {
        let mut writer = Self {
            bytes: Vec::new(),
            crc: previous_crc,
        };
        writer.frame(CRC, previous_crc, &[]);
        writer.record(
            METADATA,
            &numbers(&[(1, head.member_id), (2, head.cluster_id)]),
        )
    }

    fn record(mut self, kind: u64, data: &[u8]) -> Self {
        self.crc = crc32c::crc32c_append(self.crc, data);
        let crc = self.crc;
        self.frame(kind, crc, data);
        self
    }

    fn frame(&mut self, kind: u64, crc: u32, data: &[u8]) {
        let mut record = numbers(&[(1, kind), (2, crc.into())]);
        if !data.is_empty() {
            record.push(3 << 3 | 2);
            record.extend(varint_bytes(u64::try_from(data.len()).unwrap()));
            record.extend(data);
        }
        let length = record.len();
        let padding = (8 - length % 8) % 8;
        let mut field = u64::try_from(length).unwrap();
        if padding != 0 {
            field |= (0x80 | u64::try_from(padding).unwrap()) << 56;
        }
        self.bytes.extend(field.to_le_bytes());
        self.bytes.extend(record);
        self.bytes.resize(self.bytes.len() + padding, 0);
    }

    pub(crate) fn entry(self, term: u64, index: u64, payload: &[u8]) -> Self {
        let mut data = numbers(&[(1, 0), (2, term), (3, index)]);
        data.push(4 << 3 | 2);
        data.extend(varint_bytes(u64::try_from(payload.len()).unwrap()));
        data.extend(payload);
        self.record(ENTRY, &data)
    }

    pub(crate) fn state(self, term: u64, commit: u64) -> Self {
        self.record(STATE, &numbers(&[(1, term), (2, 1), (3, commit)]))
    }

    fn snapshot(self, term: u64, index: u64) -> Self {
        self.record(SNAPSHOT, &numbers(&[(1, index), (2, term)]))
    }

    pub(crate) fn preallocated(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 4096, 0);
        self.bytes
    }
}

fn varint_bytes(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn numbers(fields: &[(u64, u64)]) -> Vec<u8> {
    fields
        .iter()
        .flat_map(|(field, value)| [varint_bytes(field << 3), varint_bytes(*value)].concat())
        .collect()
}

const HEAD: Head = Head {
    member_id: 0xfedc_ba98_7654_3210,
    cluster_id: 0x1f,
};

fn head(bytes: &[u8]) -> Result<Head, Unreadable> {
    read_head(bytes, u64::try_from(bytes.len()).unwrap())
}

fn tail(bytes: &[u8], is_last: bool) -> Tail {
    read_tail(bytes, u64::try_from(bytes.len()).unwrap(), is_last, &|| {
        false
    })
    .unwrap()
}

#[test]
fn reads_who_wrote_the_file() {
    for previous_crc in [0, 0xdead_beef] {
        let bytes = Writer::new(previous_crc, HEAD).preallocated();
        assert_eq!(head(&bytes).unwrap(), HEAD);
    }
}

#[test]
fn a_head_that_cannot_be_read_is_damaged_or_torn_but_never_guessed() {
    let good = Writer::new(7, HEAD).preallocated();
    let mut flipped = good.clone();
    flipped[30] ^= 1;
    let mut orphan = Writer::default();
    orphan.frame(METADATA, 0, &[]);
    let nameless = Writer::new(
        0,
        Head {
            member_id: 0,
            cluster_id: 1,
        },
    )
    .preallocated();
    for bytes in [
        &[][..],
        &[0; 4096],
        &[0xff; 4096],
        &good[..10],
        &good[..30],
        &flipped,
        &orphan.bytes,
        &nameless,
    ] {
        assert!(
            matches!(
                head(bytes),
                Err(Unreadable::Torn(_) | Unreadable::Damaged(_))
            ),
            "{bytes:?}"
        );
    }
}

#[test]
fn finds_the_last_entry_and_commit() {
    let log = Writer::new(3, HEAD)
        .state(1, 1)
        .entry(1, 2, b"a")
        .entry(1, 3, b"b")
        .state(2, 2)
        .entry(2, 3, b"c");
    let expected = Tail {
        last: Some(Position { term: 2, index: 3 }),
        commit: Some(2),
        damage: None,
        goes_on: false,
    };
    assert_eq!(tail(&log.clone().preallocated(), true), expected);
    assert_eq!(
        tail(&log.bytes, false),
        expected,
        "a file that was cut has no zeros"
    );
    // A CRC record that agrees with what came before is no damage.
    let mut again = log.clone();
    again.frame(CRC, log.crc, &[]);
    assert_eq!(
        tail(&again.entry(2, 4, b"d").preallocated(), true).last,
        Some(Position { term: 2, index: 4 })
    );
}

#[test]
fn a_snapshot_counts_only_when_it_is_ahead_of_the_log() {
    let log = Writer::new(0, HEAD).snapshot(0, 0).entry(4, 10, b"");
    assert_eq!(
        tail(&log.clone().snapshot(3, 5).preallocated(), true).last,
        Some(Position { term: 4, index: 10 })
    );
    assert_eq!(
        tail(&log.snapshot(5, 90).preallocated(), true).last,
        Some(Position { term: 5, index: 90 })
    );
    assert_eq!(
        tail(&Writer::new(0, HEAD).snapshot(0, 0).preallocated(), true).last,
        None
    );
}

#[test]
fn a_torn_tail_is_the_end_of_the_newest_file_only() {
    let good = Writer::new(0, HEAD).entry(1, 1, b"a").state(1, 1);
    let kept = good.bytes.len();
    let long = good.clone().entry(1, 2, &[0xaa; 3000]).bytes;
    let mut zeroed = long.clone();
    zeroed[1024..1536].fill(0);
    for torn in [&long[..kept + 5], &long[..kept + 100], &zeroed] {
        let read = tail(torn, true);
        assert_eq!(
            (read.last, read.damage),
            (Some(Position { term: 1, index: 1 }), None)
        );
        assert!(tail(torn, false).damage.is_some());
    }
}

#[test]
fn a_wrong_byte_in_the_middle_is_damage() {
    let good = Writer::new(0, HEAD).entry(1, 1, b"a").bytes;
    let mut bytes = Writer::new(0, HEAD)
        .entry(1, 1, b"a")
        .entry(1, 2, b"bbbb")
        .entry(1, 3, b"c")
        .preallocated();
    let place = bytes
        .windows(4)
        .position(|window| window == b"bbbb")
        .unwrap();
    bytes[place] ^= 1;
    let read = tail(&bytes, true);
    assert_eq!(read.last, Some(Position { term: 1, index: 1 }));
    assert_eq!(
        read.damage,
        Some(format!("wrong CRC at offset {}", good.len()))
    );
}

#[test]
fn a_wrong_length_takes_no_more_memory_than_the_file_has() {
    let good = Writer::new(0, HEAD).entry(1, 1, b"a").bytes;
    for length in [1 << 55, 5000, 4000] {
        let mut bytes = good.clone();
        bytes.extend(u64::to_le_bytes(length));
        bytes.resize(good.len() + 8 + 4096, 0xff);
        let size = u64::try_from(bytes.len()).unwrap();
        let mut records = Records::new(&bytes[..], size, LONGEST_SCAN);
        while let Ok(Some(_)) = records.next() {}
        assert!(records.memory() <= 4096, "{length}: {}", records.memory());
    }
}

#[test]
fn stops_when_asked() {
    let bytes = Writer::new(0, HEAD).entry(1, 1, b"a").preallocated();
    let read = read_tail(
        &bytes[..],
        u64::try_from(bytes.len()).unwrap(),
        true,
        &|| true,
    )
    .unwrap();
    assert_eq!(read, Tail::default());
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        drop(head(&bytes));
        tail(&bytes, true);
    }

    #[test]
    fn no_cut_of_a_good_log_is_damage(cut in 0_usize..4000) {
        let mut bytes = Writer::new(9, HEAD).entry(1, 1, &[1; 700]).state(1, 1).entry(2, 2, &[2; 900]).preallocated();
        bytes.truncate(cut);
        prop_assert_eq!(tail(&bytes, true).damage, None);
    }

    #[test]
    fn one_flipped_bit_never_yields_another_member(place in 0_usize..64, bit in 0_u32..8) {
        let mut bytes = Writer::new(9, HEAD).preallocated();
        bytes[place] ^= 1 << bit;
        if let Ok(read) = head(&bytes) {
            prop_assert_eq!(read, HEAD);
        }
    }
}
