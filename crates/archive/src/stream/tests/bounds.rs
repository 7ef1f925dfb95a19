//! What a file can make its reader keep, or write, is bounded.

use super::*;

/// The first pages of a file that says it has so many.
fn says(pages: u64) -> Vec<u8> {
    let mut file = padded(&meta(0, 2, pages, 6));
    file.extend(padded(&meta(1, 2, pages, 7)));
    file
}

#[test]
fn a_file_that_says_it_is_endless_is_rejected_at_once() {
    for said in [(64 << 30) / 4096, 1 << 40, u64::MAX] {
        for mut reader in [Reader::new(), Reader::without_hash()] {
            assert_eq!(reader.push(&says(said)), Err(Damage::Large { said }));
        }
    }
    let mut reader = Reader::new();
    assert_eq!(reader.push(&says((8 << 30) / 4096)), Ok(()));
    assert_eq!(reader.expected(), Some((8 << 30) + 32));
}

#[test]
fn a_file_that_is_longer_than_it_says_is_rejected_at_once() {
    let mut file = two_levels();
    file.truncate(file.len() - 32);
    let mut reader = Reader::new();
    reader.push(&file).unwrap();
    reader.push(&[0; SIZE - 1]).unwrap();
    let (pages, said) = (8, 7);
    assert_eq!(reader.push(&[0]), Err(Damage::Pages { pages, said }));
}

#[test]
fn what_lies_behind_a_copied_file_ends_as_well() {
    let mut file = two_levels();
    file.truncate(file.len() - 32);
    let mut reader = Reader::without_hash();
    reader.push(&file).unwrap();
    let block = vec![0; 1 << 24];
    let more = (0..1000).map(|_| reader.push(&block));
    let ended = more.take_while(Result::is_ok).count();
    assert_eq!(ended, 64, "a gigabyte, by which files grow ahead");
}
