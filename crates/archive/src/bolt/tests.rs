//! What is written is read, by the reader here and by the one that sees a snapshot pass; and the pages are as bbolt wants them,
//! which is checked from the bytes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use hostile::never_panics;
use proptest::prelude::*;

use super::*;
use crate::stream::Reader;

pub(crate) type Content = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>>;

pub(crate) fn written(content: &Content, page_size: u32) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), page_size).unwrap();
    for (name, rows) in content {
        let mut filling = writer.bucket(name);
        for (key, value) in rows {
            filling.row(key, value).unwrap();
        }
        filling.finish().unwrap();
    }
    writer.finish().unwrap().into_inner()
}

pub(crate) fn read(file: &[u8]) -> Result<Content, Broken> {
    let database = Database::open(file)?;
    let mut content = Content::new();
    for bucket in database.buckets()? {
        let mut rows = database.rows(&bucket)?;
        let mut found = Vec::new();
        while let Some((key, value)) = rows.read()? {
            found.push((key.to_vec(), value.to_vec()));
        }
        content.insert(bucket.name, found);
    }
    Ok(content)
}

pub(crate) fn row(revision: u64, sub: u64) -> Vec<u8> {
    let mut key = revision.to_be_bytes().to_vec();
    key.push(b'_');
    key.extend(sub.to_be_bytes());
    key
}

fn number<const N: usize>(file: &[u8], at: usize) -> u64 {
    let bytes = file[at..at + N].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// What a page of a tree must be for bbolt: each page once, keys in order and below their branch, two children at least.
struct Check<'a> {
    file: &'a [u8],
    size: usize,
    seen: BTreeSet<u64>,
    last: Vec<u8>,
}

impl Check<'_> {
    fn new(file: &[u8]) -> Check<'_> {
        let size = index(number::<4>(file, 24));
        let last = Vec::new();
        let seen = BTreeSet::from([0, 1]);
        Check {
            file,
            size,
            seen,
            last,
        }
    }

    fn all(mut self) {
        let meta = self.size;
        assert_eq!(number::<8>(self.file, meta + 48), u64::MAX, "a freelist");
        let (root, pages) = (
            number::<8>(self.file, meta + 32),
            number::<8>(self.file, meta + 56),
        );
        assert_eq!(self.file.len(), index(pages) * self.size);
        for (name, value) in self.leaves(root, true) {
            let root = number::<8>(&value, 0);
            self.last.clear();
            if root != 0 {
                let rows = self.leaves(root, false);
                let size: usize = rows.iter().map(|(k, v)| 16 + k.len() + v.len()).sum();
                assert!(16 + size > self.size / 4, "{name:?} is small");
            }
        }
        assert_eq!(self.seen, (0..pages).collect(), "a page that is not used");
    }

    fn leaves(&mut self, page: u64, of_buckets: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let at = index(page) * self.size;
        assert_eq!(number::<8>(self.file, at), page);
        let (flags, count) = (
            number::<2>(self.file, at + 8),
            number::<2>(self.file, at + 10),
        );
        let overflow = number::<4>(self.file, at + 12);
        for page in page..=page + overflow {
            assert!(self.seen.insert(page), "page {page} twice");
        }
        let elements = (0..index(count)).map(|element| at + 16 + 16 * element);
        let mut all = Vec::new();
        if flags == 1 {
            assert!(count >= 2, "a branch of one child");
            for at in elements {
                let (key, size) = (number::<4>(self.file, at), number::<4>(self.file, at + 4));
                let key = at + index(key);
                let key = &self.file[key..key + index(size)];
                assert!(key > self.last.as_slice());
                let below = self.leaves(number::<8>(self.file, at + 8), of_buckets);
                assert_eq!(below[0].0, key);
                all.extend(below);
            }
            return all;
        }
        assert_eq!(flags, 2);
        for at in elements {
            assert_eq!(number::<4>(self.file, at) == 1, of_buckets);
            let sizes = (
                number::<4>(self.file, at + 8),
                number::<4>(self.file, at + 12),
            );
            let key = at + index(number::<4>(self.file, at + 4));
            let value = key + index(sizes.0);
            let (key, value) = (
                &self.file[key..value],
                &self.file[value..value + index(sizes.1)],
            );
            assert!(key > self.last.as_slice(), "out of order");
            self.last = key.to_vec();
            all.push((key.to_vec(), value.to_vec()));
        }
        all
    }
}

/// Sizes of values: most are small, some are around the size of a page, few are large.
fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![12 => 0..60_usize, 3 => 60..5000_usize, 1 => 5000..60_000_usize]
}

fn rows(most: usize) -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    proptest::collection::vec((1..3_u64, sizes()), 0..most).prop_map(|all| {
        let mut revision = 1;
        let rows = all.into_iter().map(|(ahead, size)| {
            revision += ahead;
            let fill = u8::try_from(revision & 0xff).unwrap();
            (row(revision, 0), vec![fill; size])
        });
        rows.collect()
    })
}

fn content() -> impl Strategy<Value = Content> {
    // The streaming reader knows rows by the size of their keys, 17 or 18; no bucket of etcd has such a name.
    let names = proptest::collection::btree_map("[a-z]{1,16}|[a-z]{19,300}", rows(40), 0..14);
    (names, rows(400)).prop_map(|(names, keys)| {
        let mut content: Content = names
            .into_iter()
            .map(|(name, rows)| (name.into_bytes(), rows))
            .collect();
        content.insert(b"key".to_vec(), keys);
        content
    })
}

fn check_round(content: &Content, page_size: u32) {
    let file = written(content, page_size);
    assert_eq!(read(&file).unwrap(), *content);
    Check::new(&file).all();
    let mut reader = Reader::without_hash();
    reader.push(&file).unwrap();
    let facts = reader.finish().unwrap();
    let newest = content[b"key".as_slice()].last();
    let newest = newest.map_or(1, |(key, _)| {
        i64::from_be_bytes(key[..8].try_into().unwrap())
    });
    assert_eq!(facts.revision, newest);
    assert_eq!(facts.raw.bytes, length(&file) + 32);
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_is_read_by_both_readers(content in content(), size in 0..3_usize) {
        check_round(&content, [512, 4096, 16_384][size]);
    }
}

#[test]
fn trees_of_every_width_have_branches_of_two_children_at_least() {
    // Of 512 bytes, a leaf has 9 rows of this size and a branch 15 children: three heights at 2,200 rows.
    for rows in (1..400).chain([1215, 1216, 1217, 1225, 2200, 20_000]) {
        let rows = (1..=rows).map(|revision| (row(revision, 0), vec![7; 20]));
        let content = Content::from([(b"key".to_vec(), rows.collect())]);
        check_round(&content, 512);
    }
}

#[test]
fn rows_out_of_order_are_rejected() {
    let mut writer = Writer::new(Cursor::new(Vec::new()), 4096).unwrap();
    let mut filling = writer.bucket(b"key");
    filling.row(b"b", b"").unwrap();
    for wrong in [b"b".as_slice(), b"a", b""] {
        let rejected = filling.row(wrong, b"").unwrap_err();
        assert_eq!(rejected.to_string(), "a row of key is out of order");
    }
}

#[test]
fn a_leaf_of_large_values_is_read_row_by_row() {
    let rows = (1..9).map(|revision| (row(revision, 0), vec![7; 900_000]));
    let content = Content::from([(b"key".to_vec(), rows.collect())]);
    let file = written(&content, 4096);
    assert_eq!(read(&file).unwrap(), content);
    // Two values share their pages: less than half a page is lost with each.
    assert!(file.len() < 8 * 900_000 + 12 * 4096, "{}", file.len());
}

#[test]
fn damaged_files_never_panic_a_reader() {
    let small = (1..5).map(|revision| (row(revision, 0), vec![7; 10]));
    let many = (1..60).map(|revision| (row(revision, 0), vec![7; 30]));
    let content = Content::from([
        (b"key".to_vec(), many.collect()),
        (b"meta".to_vec(), small.collect()),
    ]);
    never_panics(&[written(&content, 512)], |input| read(input).is_ok());
}

#[test]
fn circles_end() {
    let rows = (1..200).map(|revision| (row(revision, 0), vec![7; 30]));
    let content = Content::from([(b"key".to_vec(), rows.collect())]);
    let mut file = written(&content, 512);
    // The last branch of the tree gets itself for a child.
    let pages = file.len() / 512;
    let branch = (2..pages).rev().find(|page| file[page * 512 + 8] == 1);
    let branch = branch.unwrap();
    let own = u64::try_from(branch).unwrap().to_le_bytes();
    let at = branch * 512 + 16 + 8;
    file[at..at + 8].copy_from_slice(&own);
    assert!(matches!(read(&file), Err(Broken::Page { .. })));
}
