//! A segment is read as it was written or not at all, names say one thing, and what is covered is what can be walked.

mod listing;

use hostile::never_panics;
use proptest::prelude::*;

use super::*;

pub(super) fn header(first: i64) -> Header {
    Header {
        format: FORMAT,
        cluster_id: "cdf818194e3a8c32".to_owned(),
        timeline: Timeline {
            object: "uid".to_owned(),
            incarnation: 1,
        },
        first,
        before: Some(7),
    }
}

/// A `KeyValue` as etcd sends it.
fn put(key: &[u8], revision: i64, value: &[u8], lease: u64) -> Row {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, tag: u8, mut number: u64| {
        bytes.push(tag);
        while number > 0x7f {
            bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
    };
    let length = |text: &[u8]| u64::try_from(text.len()).unwrap();
    number(&mut bytes, 0x0a, length(key));
    bytes.extend(key);
    for tag in [0x10, 0x18] {
        number(&mut bytes, tag, revision.cast_unsigned());
    }
    number(&mut bytes, 0x20, 1);
    number(&mut bytes, 0x2a, length(value));
    bytes.extend(value);
    if lease != 0 {
        number(&mut bytes, 0x30, lease);
    }
    Row::Put(bytes)
}

/// Entries of a segment that can be written, without its end.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let row = (
        any::<bool>(),
        bytes(8),
        bytes(300),
        prop_oneof![Just(0), any::<u64>()],
    );
    let revision = prop::collection::vec(row, 1..5);
    let more = prop::option::of((any::<i64>(), 1..1000_i64, 0..100_i64));
    let revisions = prop::collection::vec((revision, more), 0..8);
    (1..i64::MAX / 2, revisions).prop_map(|(first, revisions)| {
        let mark = |revision, sent, answered| {
            Entry::Mark(Mark {
                revision,
                sent,
                answered,
            })
        };
        let mut all = vec![mark(first - 1, 0, 1)];
        for ((rows, more), revision) in revisions.into_iter().zip(first..) {
            all.push(Entry::Revision(revision));
            for (is_put, key, value, lease) in rows {
                let row = if is_put {
                    put(&key, revision, &value, lease)
                } else {
                    Row::Delete(key)
                };
                all.push(Entry::Row(row));
            }
            if let Some((id, ttl, time)) = more {
                all.push(Entry::Lease { id, ttl });
                all.push(mark(revision, time, time + ttl));
            }
        }
        all
    })
}

/// The first revision of entries: that of their first mark, and one.
fn first(entries: &[Entry]) -> i64 {
    match entries.first() {
        Some(Entry::Mark(mark)) => mark.revision + 1,
        other => panic!("{other:?}"),
    }
}

fn write(entries: &[Entry]) -> (Vec<u8>, Ended) {
    let mut out = Vec::new();
    let mut writer = Writer::new(&header(first(entries)), &mut out).unwrap();
    for entry in entries {
        match entry {
            Entry::Revision(revision) => writer.revision(*revision, &mut out),
            Entry::Row(row) => writer.row(row, &mut out),
            Entry::Mark(mark) => writer.mark(mark, &mut out),
            Entry::Lease { id, ttl } => writer.lease(*id, *ttl, &mut out),
            Entry::End(_) => panic!("an end"),
        }
        .unwrap();
    }
    let ended = writer.finish(&mut out).unwrap();
    (out, ended)
}

/// Reads in pieces of a size; the header and the entries.
fn read(bytes: &[u8], size: usize) -> Result<(Header, Vec<Entry>), BadLog> {
    let mut reader = Reader::default();
    let mut entries = Vec::new();
    for piece in bytes.chunks(size.max(1)) {
        reader.push(piece);
        while let Some(entry) = reader.entry()? {
            entries.push(entry);
        }
    }
    reader.finish()?;
    Ok((reader.header().cloned().ok_or(BadLog::Short)?, entries))
}

fn sample() -> Vec<Entry> {
    let mark = |revision, sent, answered| {
        Entry::Mark(Mark {
            revision,
            sent,
            answered,
        })
    };
    vec![
        mark(99, 1000, 1003),
        Entry::Revision(100),
        Entry::Row(put(b"/a", 100, b"one", 0x7f_ff)),
        Entry::Lease {
            id: 0x7f_ff,
            ttl: 60,
        },
        Entry::Row(Row::Delete(b"/b".to_vec())),
        Entry::Revision(101),
        Entry::Row(put(b"/a", 101, &[9; 300], 0)),
        mark(101, 2000, 2001),
    ]
}

proptest! {
    #[test]
    fn a_segment_is_read_as_it_was_written_whatever_the_pieces(entries in entries(), size in 1..400_usize) {
        let (bytes, ended) = write(&entries);
        let (found, mut all) = read(&bytes, size).unwrap();
        prop_assert_eq!(found, header(first(&entries)));
        prop_assert_eq!(all.pop(), Some(Entry::End(ended)));
        prop_assert_eq!(&all, &entries);
        let last = entries.iter().rev().find_map(|entry| match entry {
            Entry::Revision(revision) => Some(*revision),
            _other => None,
        });
        prop_assert_eq!(ended.last, last.unwrap_or(first(&entries) - 1));
    }
}

#[test]
fn every_altered_bit_and_every_end_that_is_missing_is_found() {
    let (bytes, _) = write(&sample());
    assert!(read(&bytes, 7).is_ok());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << bit;
            assert!(read(&altered, 64).is_err(), "byte {at}, bit {bit}");
        }
        assert!(read(&bytes[..at], 64).is_err(), "{at} bytes");
    }
    assert_eq!(read(&[bytes, vec![0]].concat(), 64), Err(BadLog::Long));
}

#[test]
fn damaged_segments_never_panic() {
    let (marks, _) = write(&sample()[..1]);
    let (bytes, _) = write(&sample());
    never_panics(&[bytes, marks], |input| read(input, 100).is_ok());
    never_panics(
        &[match put(b"/a", 100, b"one", 5) {
            Row::Put(bytes) | Row::Delete(bytes) => bytes,
        }],
        |input| KeyValue::parse(input).is_some(),
    );
}

#[test]
fn a_later_format_is_rejected_by_its_number() {
    let mut out = Vec::new();
    let later = Header {
        format: FORMAT + 1,
        ..header(5)
    };
    Writer::new(&later, &mut out).unwrap();
    assert_eq!(read(&out, 1000), Err(BadLog::Newer(FORMAT + 1)));
}

#[test]
fn what_is_no_segment_is_not_written() {
    let mut out = Vec::new();
    let begin = |out: &mut Vec<u8>| Writer::new(&header(100), out).unwrap();
    let gap = Misuse::Gap {
        last: 99,
        revision: 101,
    };
    assert_eq!(begin(&mut out).revision(101, &mut out), Err(gap));
    let row = put(b"/a", 100, b"", 0);
    assert_eq!(begin(&mut out).row(&row, &mut out), Err(Misuse::Row(99)));
    let mut writer = begin(&mut out);
    writer.revision(100, &mut out).unwrap();
    assert_eq!(writer.revision(101, &mut out), Err(Misuse::NoRow(100)));
    let other = put(b"/a", 101, b"", 0);
    assert_eq!(writer.row(&other, &mut out), Err(Misuse::Row(100)));
    writer.row(&row, &mut out).unwrap();
    let mark = |revision, sent, answered| Mark {
        revision,
        sent,
        answered,
    };
    assert_eq!(writer.mark(&mark(100, 5, 4), &mut out), Err(Misuse::Mark));
    writer.mark(&mark(101, 4, 5), &mut out).unwrap();
    assert_eq!(writer.finish(&mut out), Err(Misuse::Mark));
    assert_eq!(begin(&mut out).finish(&mut out), Err(Misuse::Mark));
    // A keeper that does not know what came before writes no segment without rows.
    let unlinked = Header {
        before: None,
        ..header(100)
    };
    let mut writer = Writer::new(&unlinked, &mut out).unwrap();
    writer.mark(&mark(99, 1, 2), &mut out).unwrap();
    assert_eq!(writer.finish(&mut out), Err(Misuse::Unlinked));
}

#[test]
fn the_hash_of_the_last_revision_is_that_of_its_rows_alone() {
    let (_, ended) = write(&sample());
    let row = put(b"/a", 101, &[9; 300], 0);
    assert_eq!(ended.hash, row_hash(std::slice::from_ref(&row)));
    let other = put(b"/a", 101, &[8; 300], 0);
    assert_ne!(ended.hash, row_hash(&[other]));
    assert_ne!(ended.hash, row_hash(&[row.clone(), row]));
    // One that holds nothing but marks ends with what came before it.
    assert_eq!(write(&sample()[..1]).1.hash, 7);
}

#[test]
fn rows_are_those_of_the_bucket() {
    let row = Row::Delete(vec![b'k'; 200]);
    let key = [&[0; 7][..], &[100, b'_'], &[0; 7], &[2, b't']].concat();
    assert_eq!(row.bucket_key(100, 2), key);
    let value = [&[0x0a, 0xc8, 0x01][..], &[b'k'; 200]].concat();
    assert_eq!(row.bucket_value(), value);
    let row = put(b"/a", 100, b"one", 5);
    assert_eq!(
        row.bucket_key(100, 0),
        key[..17]
            .iter()
            .map(|b| if *b == 2 { 0 } else { *b })
            .collect::<Vec<_>>()
    );
    let value = row.bucket_value();
    let read = KeyValue::parse(&value).unwrap();
    assert_eq!(
        (read.key, read.mod_revision, read.lease),
        (&b"/a"[..], 100, 5)
    );
    assert_eq!((read.create_revision, read.version), (100, 1));
}
