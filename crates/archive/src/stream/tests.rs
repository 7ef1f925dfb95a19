//! Files of a few pages, made by hand in every shape that bbolt gives them; real ones are in the tests of the keeper.

mod bounds;

use hostile::never_panics;

use super::bolt::fnv;
use super::*;

const SIZE: usize = 4096;

/// A page with elements: flag, key, value.
fn leaf(number: u64, overflow: u32, elements: &[(u32, &[u8], &[u8])]) -> Vec<u8> {
    let mut page = header(number, 2, elements.len(), overflow);
    let mut data = Vec::new();
    for (index, (flag, key, value)) in elements.iter().enumerate() {
        let at = 16 * (elements.len() - index) + data.len();
        let numbers = [
            *flag,
            number32(at),
            number32(key.len()),
            number32(value.len()),
        ];
        page.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        data.extend_from_slice(key);
        data.extend_from_slice(value);
    }
    page.extend(data);
    page
}

fn branch(number: u64, children: &[(&[u8], u64)]) -> Vec<u8> {
    let mut page = header(number, 1, children.len(), 0);
    let mut data = Vec::new();
    for (index, (key, child)) in children.iter().enumerate() {
        let at = 16 * (children.len() - index) + data.len();
        page.extend(number32(at).to_le_bytes());
        page.extend(number32(key.len()).to_le_bytes());
        page.extend(child.to_le_bytes());
        data.extend_from_slice(key);
    }
    page.extend(data);
    page
}

fn header(number: u64, flags: u16, count: usize, overflow: u32) -> Vec<u8> {
    let mut page = number.to_le_bytes().to_vec();
    page.extend(flags.to_le_bytes());
    page.extend(u16::try_from(count).unwrap().to_le_bytes());
    page.extend(overflow.to_le_bytes());
    page
}

fn number32(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

fn meta(number: u64, root: u64, pages: u64, transaction: u64) -> Vec<u8> {
    let mut page = header(number, 4, 0, 0);
    for part in [0xED0C_DAED_u32, 2, number32(SIZE), 0] {
        page.extend(part.to_le_bytes());
    }
    for part in [root, 0, u64::MAX, pages, transaction] {
        page.extend(part.to_le_bytes());
    }
    let sum = fnv(&page[16..72]);
    page.extend(sum.to_le_bytes());
    page
}

/// A whole snapshot of pages from number 2 on; each may be longer than a page.
fn snapshot(root: u64, pages: &[Vec<u8>]) -> Vec<u8> {
    let body: Vec<u8> = pages.iter().flat_map(|page| padded(page)).collect();
    let number = u64::try_from(body.len() / SIZE).unwrap() + 2;
    let mut file = padded(&meta(0, 999, number, 6));
    file.extend(padded(&meta(1, root, number, 7)));
    file.extend(body);
    let hash = Sha256::digest(&file);
    file.extend(hash.as_slice());
    file
}

fn padded(page: &[u8]) -> Vec<u8> {
    let mut page = page.to_vec();
    page.resize(page.len().next_multiple_of(SIZE), 0);
    page
}

fn row(revision: u64) -> Vec<u8> {
    let mut key = revision.to_be_bytes().to_vec();
    key.push(b'_');
    key.extend([0; 8]);
    key
}

fn bucket(root: u64, inline: &[u8]) -> Vec<u8> {
    let mut value = root.to_le_bytes().to_vec();
    value.extend([0; 8]);
    value.extend_from_slice(inline);
    value
}

fn compaction(revision: u64) -> Vec<u8> {
    bucket(
        0,
        &leaf(0, 0, &[(0, b"finishedCompactRev", &row(revision))]),
    )
}

fn read(file: &[u8], piece: usize) -> Result<(i64, i64), Damage> {
    let mut reader = Reader::new();
    for piece in file.chunks(piece) {
        reader.push(piece)?;
    }
    let facts = reader.finish()?;
    assert_eq!(facts.raw.bytes, length(file));
    assert_eq!(facts.raw.sha256, hex(&Sha256::digest(file)));
    assert_eq!(facts.trailer, hex(&file[file.len() - 32..]));
    Ok((facts.revision, facts.compact_revision))
}

/// Rows in a tree of two levels, the newest leaf before its branch, and an old leaf that claims more.
fn two_levels() -> Vec<u8> {
    let (first, last, old) = (row(5), row(4711), row(9999));
    snapshot(
        5,
        &[
            leaf(2, 0, &[(0, &row(4000), b"x"), (0, &last, b"y")]),
            leaf(3, 0, &[(0, &first, b"x")]),
            branch(4, &[(&first, 3), (&row(4000), 2)]),
            leaf(
                5,
                0,
                &[(1, b"key", &bucket(4, &[])), (1, b"meta", &compaction(40))],
            ),
            leaf(6, 0, &[(0, &old, b"x")]),
        ],
    )
}

#[test]
fn the_revision_is_found_in_pieces_of_any_size() {
    let file = two_levels();
    for piece in [1, 31, 32, 511, 512, 4096, 4097, 32 * 1024, usize::MAX] {
        assert_eq!(read(&file, piece), Ok((4711, 40)), "{piece}");
    }
}

#[test]
fn small_databases_lie_within_the_leaf_of_buckets() {
    let inline = bucket(0, &leaf(0, 0, &[(0, &row(2), b"v"), (0, &row(3), b"v")]));
    let file = snapshot(2, &[leaf(2, 0, &[(1, b"key", &inline)])]);
    assert_eq!(read(&file, 777), Ok((3, 0)));
}

#[test]
fn an_empty_database_is_at_revision_one() {
    let file = snapshot(
        2,
        &[leaf(2, 0, &[(1, b"key", &bucket(0, &leaf(0, 0, &[])))])],
    );
    assert_eq!(read(&file, 777), Ok((1, 0)));
}

#[test]
fn a_compaction_beyond_the_newest_row_is_the_revision() {
    let key = bucket(0, &leaf(0, 0, &[(0, &row(3), b"v")]));
    let page = leaf(2, 0, &[(1, b"key", &key), (1, b"meta", &compaction(9))]);
    assert_eq!(read(&snapshot(2, &[page]), 777), Ok((9, 9)));
}

#[test]
fn the_last_key_of_large_values_lies_on_a_later_page() {
    // The second key begins 3 bytes before the end of the second page.
    let large = vec![7; 2 * SIZE - 16 - 2 * 16 - 17 - 3];
    let page = leaf(3, 2, &[(0, &row(1), &large), (0, &row(4711), b"v")]);
    assert_eq!(page.len(), 2 * SIZE + 15);
    let root = leaf(2, 0, &[(1, b"key", &bucket(3, &[]))]);
    assert_eq!(read(&snapshot(2, &[root, page]), 777), Ok((4711, 0)));
}

#[test]
fn the_last_key_may_begin_at_the_end_of_the_first_page() {
    for before in 0..=8 {
        let value = vec![7; SIZE - 16 - 2 * 16 - 17 - before];
        let page = leaf(3, 1, &[(0, &row(1), &value), (0, &row(4711), b"v")]);
        let root = leaf(2, 0, &[(1, b"key", &bucket(3, &[]))]);
        let file = snapshot(2, &[root, page]);
        assert_eq!(read(&file, 777), Ok((4711, 0)), "{before}");
    }
}

#[test]
fn buckets_may_be_on_several_leaves() {
    let filler = bucket(0, &leaf(0, 0, &[(0, b"x", &[1; 900])]));
    let meta = leaf(
        6,
        0,
        &[
            (0, b"confState", b"{}"),
            (0, b"finishedCompactRev", &row(8)),
        ],
    );
    let pages = [
        leaf(2, 0, &[(1, b"alarm", &filler), (1, b"auth", &filler)]),
        branch(3, &[(b"alarm", 2), (b"key", 4)]),
        leaf(
            4,
            0,
            &[(1, b"key", &bucket(5, &[])), (1, b"meta", &bucket(6, &[]))],
        ),
        leaf(5, 0, &[(0, &row(77), b"v")]),
        meta,
    ];
    assert_eq!(read(&snapshot(3, &pages), 777), Ok((77, 8)));
    // And one leaf over two pages.
    let filler = bucket(0, &leaf(0, 0, &[(0, b"x", &[1; 990])]));
    let all = [
        (1, b"alarm".as_slice(), filler.as_slice()),
        (1, b"auth", &filler),
        (1, b"authRoles", &filler),
        (1, b"authUsers", &filler),
        (1, b"key", &bucket(4, &[])),
    ];
    let pages = [leaf(2, 1, &all), leaf(4, 0, &[(0, &row(78), b"v")])];
    assert_eq!(read(&snapshot(2, &pages), 777), Ok((78, 0)));
}

#[test]
fn a_stream_that_ended_early_is_rejected() {
    let file = two_levels();
    for missing in [1, 31, 32, 33, 4096, 4096 + 32, file.len() - 1, file.len()] {
        let short = &file[..file.len() - missing];
        let read = read(short, 4096);
        assert!(
            matches!(
                read,
                Err(Damage::Short { .. } | Damage::Trailer | Damage::NoHash)
            ),
            "{missing}: {read:?}"
        );
    }
    // By exactly one page, with a hash that fits.
    let mut cut = file[..file.len() - 32 - SIZE].to_vec();
    let hash = Sha256::digest(&cut);
    cut.extend(hash.as_slice());
    let (pages, said) = (6, 7);
    assert_eq!(read(&cut, 4096), Err(Damage::Pages { pages, said }));
}

#[test]
fn no_bit_may_differ() {
    let file = two_levels();
    for at in (0..file.len()).step_by(97) {
        let mut flipped = file.clone();
        flipped[at] ^= 4;
        let read = read(&flipped, 4096);
        assert!(
            matches!(read, Err(Damage::Trailer | Damage::NotBolt)),
            "{at}"
        );
    }
    assert_eq!(read(&[b'x'; 600], 4096), Err(Damage::NotBolt));
}

/// Damage that the hash would hide behind it reaches the tree.
fn read_with_hash(body: &[u8]) -> Result<(i64, i64), Damage> {
    let mut file = body.to_vec();
    let hash = Sha256::digest(&file);
    file.extend(hash.as_slice());
    let mut reader = Reader::new();
    for piece in file.chunks(1000) {
        reader.push(piece)?;
    }
    reader
        .finish()
        .map(|facts| (facts.revision, facts.compact_revision))
}

/// Without regard for what is at the end.
fn read_without_hash(file: &[u8], piece: usize) -> Result<Facts, Damage> {
    let mut reader = Reader::without_hash();
    for piece in file.chunks(piece) {
        reader.push(piece)?;
    }
    reader.finish()
}

/// A bucket of its own for etcd's words on itself, each small.
fn small(rows: &[(&[u8], &[u8])]) -> Vec<u8> {
    let rows: Vec<_> = rows.iter().map(|(key, value)| (0, *key, *value)).collect();
    bucket(0, &leaf(0, 0, &rows))
}

fn facts(file: &[u8]) -> Facts {
    let mut reader = Reader::new();
    reader.push(file).unwrap();
    reader.finish().unwrap()
}

#[test]
fn version_and_authentication_are_read_from_their_buckets_alone() {
    type Case<'a> = (&'a [u8], &'a [u8], &'a [u8], Option<&'a str>, bool);
    let key = bucket(0, &leaf(0, 0, &[(0, &row(3), b"v")]));
    let said: [(&[u8], &[u8]); 3] = [
        (b"authEnabled", &[1]),
        (b"clusterVersion", b"3.9.0"),
        (b"storageVersion", b"3.9.0"),
    ];
    let cases: [Case<'_>; 6] = [
        (b"3.6.0", b"3.6.0", &[1], Some("3.6.0"), true),
        (b"3.7.0", b"3.6.0", &[0], Some("3.7.0"), false),
        (b"", b"3.5.0", &[2], Some("3.5.0"), false),
        (b"3.6", b"x", &[], None, false),
        (b"3.6.0-\xff", b"3.99999.0", &[1, 1], None, false),
        (b"3.6.0.0", b"", b"1", None, false),
    ];
    for (storage, cluster, auth, version, on) in cases {
        // What stands in another bucket, or where no bucket is, means nothing.
        let [enabled, spoken, written] = said;
        let meta = [enabled, spoken, (b"storageVersion", storage)];
        let auth = [(b"authEnabled".as_slice(), auth), spoken, written];
        let cluster = [enabled, (b"clusterVersion", cluster), written];
        let inline = leaf(
            2,
            0,
            &[
                (1, b"auth", &small(&auth)),
                (1, b"authUsers", &small(&said)),
                (1, b"cluster", &small(&cluster)),
                (1, b"key", &key),
                (1, b"meta", &small(&meta)),
            ],
        );
        let stray: Vec<_> = said.iter().map(|(key, value)| (0, *key, *value)).collect();
        let told = facts(&snapshot(2, &[inline, leaf(3, 0, &stray)]));
        assert_eq!((told.version.as_deref(), told.auth), (version, on));

        // The same on pages of their own.
        let rows = |rows: &[(&[u8], &[u8])], number| {
            let rows: Vec<_> = rows.iter().map(|(key, value)| (0, *key, *value)).collect();
            leaf(number, 0, &rows)
        };
        let root = [
            (1, b"auth".as_slice(), bucket(3, &[])),
            (1, b"authUsers", bucket(6, &[])),
            (1, b"cluster", bucket(4, &[])),
            (1, b"key", key.clone()),
            (1, b"meta", bucket(5, &[])),
        ];
        let root: Vec<_> = root
            .iter()
            .map(|(f, k, v)| (*f, *k, v.as_slice()))
            .collect();
        let pages = [
            leaf(2, 0, &root),
            rows(&auth, 3),
            rows(&cluster, 4),
            rows(&meta, 5),
            leaf(6, 0, &stray),
        ];
        let told = facts(&snapshot(2, &pages));
        assert_eq!((told.version.as_deref(), told.auth), (version, on));
    }
}

#[test]
fn a_copied_file_is_given_the_hash_that_it_lacks() {
    let file = two_levels();
    let body = &file[..file.len() - 32];
    assert_eq!(read_body(body), Err(Damage::NoHash));
    let whole = facts(&file);
    // As it was copied; with room behind it, that bbolt let it grow ahead; with its hash, and with one that is wrong.
    let (mut grown, mut wrong) = (body.to_vec(), file.clone());
    grown.resize(file.len() + 3 * SIZE + 100, 0x5a);
    wrong[file.len() - 1] ^= 1;
    for copied in [body, &grown, &file, &wrong] {
        for piece in [1, 33, 4096, 4097, usize::MAX] {
            assert_eq!(read_without_hash(copied, piece), Ok(whole.clone()));
        }
    }
    // One page less than it says, and nothing at all.
    let (pages, said) = (6, 7);
    let cut = &body[..body.len() - SIZE];
    assert_eq!(
        read_without_hash(cut, 4096),
        Err(Damage::Pages { pages, said })
    );
    let cut = &body[..body.len() - 1];
    assert_eq!(
        read_without_hash(cut, 4096),
        Err(Damage::Pages { pages, said })
    );
    assert_eq!(read_without_hash(&[], 1), Err(Damage::Short { bytes: 0 }));
}

/// With the end that it has.
fn read_body(file: &[u8]) -> Result<(i64, i64), Damage> {
    let mut reader = Reader::new();
    reader.push(file)?;
    let facts = reader.finish()?;
    Ok((facts.revision, facts.compact_revision))
}

#[test]
fn damaged_snapshots_never_panic() {
    let mut body = two_levels();
    body.truncate(body.len() - 32);
    assert_eq!(read_with_hash(&body), Ok((4711, 40)));
    never_panics(&[body], |input| {
        let without = read_without_hash(input, 900).is_ok();
        (read_with_hash(input), read(input, 900).is_ok(), without)
    });
}

#[test]
fn circles_of_pages_end() {
    let circle = branch(3, &[(&row(1), 3)]);
    let root = leaf(2, 0, &[(1, b"key", &bucket(3, &[]))]);
    let file = snapshot(2, &[root, circle]);
    assert!(matches!(read(&file, 4096), Err(Damage::Tree(_))));
    let file = snapshot(2, &[branch(2, &[(b"key", 2)])]);
    assert!(matches!(read(&file, 4096), Err(Damage::Tree(_))));
}
