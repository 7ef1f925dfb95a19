//! The database of each revision, compared with a history that is played beside it. That etcd serves it, with the same hash, is
//! in the tests of the keeper.

use std::io::Cursor;

use hostile::never_panics;
use proptest::prelude::*;

use super::*;
use crate::bolt::tests::{Content, read, row, written};
use crate::stream::Reader;

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    bytes.extend_from_slice(content);
    bytes
}

fn value(key: &str, lease: u8) -> Vec<u8> {
    let mut bytes = field(1, key.as_bytes());
    bytes.extend([2 << 3, 0x80, 0x01]);
    bytes.extend(field(5, b"value"));
    if lease != 0 {
        bytes.extend([6 << 3, lease]);
    }
    bytes
}

fn deletion(revision: u64, sub: u64) -> Vec<u8> {
    let mut key = row(revision, sub);
    key.push(b't');
    key
}

fn lease(id: u64) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// Two puts, a deletion and a put with leases; compacted at 3; lease 9 is in it, 7 and 8 ended before.
fn content() -> Content {
    let keys = vec![
        (row(2, 0), value("/a", 0)),
        (row(4, 0), value("/b", 7)),
        (row(4, 1), value("/c", 9)),
        (row(5, 0), value("/d", 8)),
        (deletion(6, 0), field(1, b"/b")),
        (row(7, 0), value("/d", 0)),
    ];
    let meta = vec![
        (b"finishedCompactRev".to_vec(), row(3, 0)),
        (b"scheduledCompactRev".to_vec(), row(3, 0)),
        (b"storageVersion".to_vec(), b"3.6.0".to_vec()),
    ];
    let alarm = vec![(b"x".to_vec(), vec![])];
    Content::from([
        (b"alarm".to_vec(), alarm),
        (b"auth".to_vec(), vec![(b"authEnabled".to_vec(), vec![1])]),
        (b"key".to_vec(), keys),
        (b"lease".to_vec(), vec![(lease(9), vec![8, 9, 16, 60])]),
        (b"meta".to_vec(), meta),
    ])
}

fn at(file: &[u8], revision: u64) -> Result<(Content, Made), Unmade> {
    let base = Database::open(file)?;
    let (to, made) = materialise(&base, revision, Cursor::new(Vec::new()))?;
    let file = to.into_inner();
    let mut reader = Reader::without_hash();
    reader.push(&file).unwrap();
    let facts = reader.finish().unwrap();
    assert_eq!(facts.revision, i64::try_from(revision).unwrap());
    Ok((read(&file).unwrap(), made))
}

#[test]
fn history_ends_at_the_revision_and_the_rest_is_as_it_was() {
    let all = content();
    let file = written(&all, 4096);
    for (revision, rows) in [(3, 1), (4, 3), (5, 4), (6, 5), (7, 6)] {
        let (made, told) = at(&file, revision).unwrap();
        assert_eq!((told.revision, told.rows), (revision, rows));
        let keys = index(rows);
        assert_eq!(made[b"key".as_slice()], all[b"key".as_slice()][..keys]);
        assert_eq!(made[b"alarm".as_slice()], []);
        for same in [b"auth".as_slice(), b"meta"] {
            assert_eq!(made[same], all[same]);
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

#[test]
fn what_is_not_in_it_is_refused_with_what_is() {
    let file = written(&content(), 4096);
    for asked in [0, 1, 2, 8, u64::MAX] {
        let (from, to) = (3, 7);
        let Err(Unmade::Outside {
            asked: told,
            from: first,
            to: last,
        }) = at(&file, asked)
        else {
            panic!("{asked}");
        };
        assert_eq!((told, first, last), (asked, from, to));
    }
    // Without a compaction, from the very beginning.
    let mut all = content();
    all.insert(b"key".to_vec(), vec![(row(2, 0), value("/a", 0))]);
    all.insert(b"meta".to_vec(), vec![]);
    let file = written(&all, 4096);
    assert_eq!(at(&file, 1).unwrap().1.rows, 0);
    assert!(matches!(
        at(&file, 0),
        Err(Unmade::Outside { from: 1, to: 2, .. })
    ));
    // After a compaction of all there was.
    all.insert(b"meta".to_vec(), content()[b"meta".as_slice()].clone());
    let file = written(&all, 4096);
    assert_eq!(at(&file, 3).unwrap().1.rows, 1);
}

#[test]
fn a_lease_that_ended_since_is_made_once_more_where_a_key_hangs_on_it() {
    let file = written(&content(), 4096);
    for (revision, ids) in [
        (3, vec![]),
        (4, vec![7]),
        (5, vec![7, 8]),
        (6, vec![8]),
        (7, vec![]),
    ] {
        let (made, told) = at(&file, revision).unwrap();
        assert_eq!(told.leases, ids.iter().copied().collect(), "{revision}");
        let mut rows: Vec<_> = ids
            .into_iter()
            .map(|id| (lease(id), vec![8, u8::try_from(id).unwrap(), 16, 0x90, 28]))
            .collect();
        rows.push((lease(9), vec![8, 9, 16, 60]));
        assert_eq!(made[b"lease".as_slice()], rows, "{revision}");
    }
}

#[test]
fn a_history_with_a_gap_is_not_used() {
    for missing in [1, 3, 4] {
        let mut all = content();
        let keys = all.get_mut(b"key".as_slice()).unwrap();
        keys.remove(missing);
        if missing == 1 {
            keys.remove(1);
        }
        let refused = at(&written(&all, 4096), 7).unwrap_err();
        assert!(refused.to_string().contains("gap"), "{refused}");
    }
    let mut all = content();
    let keys = all.get_mut(b"key".as_slice()).unwrap();
    keys.push((b"zzz".to_vec(), vec![]));
    let file = written(&all, 4096);
    assert!(at(&file, 6).is_ok(), "what is behind it is not looked at");
    let refused = at(&file, 7).unwrap_err();
    assert_eq!(refused.to_string(), "a row has no revision at revision 7");
    keys_of(&mut all).pop();
    keys_of(&mut all)[1].1 = vec![0xff; 20];
    assert!(matches!(
        at(&written(&all, 4096), 7),
        Err(Unmade::Row { at: 2, .. })
    ));
    for name in ["key", "lease", "meta"] {
        let mut all = content();
        all.remove(name.as_bytes());
        let refused = at(&written(&all, 4096), 7).unwrap_err();
        assert_eq!(refused.to_string(), format!("it has no bucket {name}"));
    }
}

fn keys_of(content: &mut Content) -> &mut Vec<(Vec<u8>, Vec<u8>)> {
    content.get_mut(b"key".as_slice()).unwrap()
}

#[test]
fn damaged_bases_never_panic() {
    let file = written(&content(), 512);
    never_panics(&[file], |input| {
        let base = Database::open(input).ok()?;
        materialise(&base, 5, Cursor::new(Vec::new())).ok()
    });
}

#[derive(Clone, Debug)]
enum Change {
    Put(u8, u8),
    Delete(u8),
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn keys_with_leases_are_those_of_a_history_that_was_played(
        revisions in proptest::collection::vec(proptest::collection::vec(change(), 1..4), 1..40),
        known in proptest::collection::btree_set(1..6_u8, 0..4),
        asked in any::<proptest::sample::Index>(),
    ) {
        let asked = asked.index(revisions.len());
        let (mut keys, mut now) = (Vec::new(), BTreeMap::new());
        for (at, changes) in revisions.iter().enumerate() {
            let revision = u64::try_from(at).unwrap() + 2;
            for (sub, change) in (0..).zip(changes) {
                match change {
                    Change::Put(key, lease) => {
                        keys.push((row(revision, sub), value(&format!("/{key}"), *lease)));
                        if at <= asked { now.insert(*key, *lease); }
                    }
                    Change::Delete(key) => {
                        keys.push((deletion(revision, sub), field(1, format!("/{key}").as_bytes())));
                        if at <= asked { now.remove(key); }
                    }
                }
            }
        }
        let leases = known.iter().map(|id| (lease(u64::from(*id)), vec![8, *id, 16, 60]));
        let all = Content::from([
            (b"key".to_vec(), keys.clone()),
            (b"lease".to_vec(), leases.collect()),
            (b"meta".to_vec(), vec![]),
        ]);
        let asked = u64::try_from(asked).unwrap() + 2;
        let (made, told) = at(&written(&all, 512), asked).unwrap();
        let hanging = now.values().filter(|lease| **lease != 0 && !known.contains(lease));
        let hanging: BTreeSet<u64> = hanging.map(|lease| u64::from(*lease)).collect();
        prop_assert_eq!(told.leases, hanging);
        keys.retain(|(key, _)| u64::from_be_bytes(key[..8].try_into().unwrap()) <= asked);
        prop_assert_eq!(&made[b"key".as_slice()], &keys);
    }
}

fn change() -> impl Strategy<Value = Change> {
    let key = 0..5_u8;
    prop_oneof![
        3 => (key.clone(), 0..6_u8).prop_map(|(key, lease)| Change::Put(key, lease)),
        1 => key.prop_map(Change::Delete),
    ]
}
