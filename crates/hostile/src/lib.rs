//! Input that users or the network control, damaged in every way that is likely to hurt a reader: valid samples with bytes
//! changed, cut out, doubled and moved, and with numbers and characters that are often forgotten. Ships nothing.

#![expect(
    clippy::print_stdout,
    reason = "how many inputs were tried is read by people"
)]

mod ipv6;
mod probe;

use std::panic::AssertUnwindSafe;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

pub use ipv6::without_ipv6;
pub use probe::{Probe, Silent};

/// How many damaged inputs each reader gets. A run that sets `PROPTEST_CASES` (`cargo xtask test --deep`) gets ten times that
/// number.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES");
    let asked = asked.ok().and_then(|text| text.parse::<u32>().ok());
    asked.map_or(10_000, |cases| cases.saturating_mul(10))
}

/// Pieces that readers stumble over.
const PIECES: [&[u8]; 22] = [
    b"0",
    b"-1",
    b"-0",
    b"1e999",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"4294967296",
    b"0.0000000000000000001",
    b"null",
    b"[]",
    b"{}",
    b"\"\"",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\n",
    b"\xff\xfe",
    "\u{202e}é\u{fffd}".as_bytes(),
    b"NaN",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

/// One way to damage an input.
#[derive(Clone, Debug)]
enum Damage {
    Set(Index, u8),
    Cut(Index, Index),
    Double(Index, Index),
    Insert(Index, Vec<u8>),
    Piece(Index, Index),
    End(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(place, byte)| Damage::Set(place, byte)),
        (at(), at()).prop_map(|(from, to)| Damage::Cut(from, to)),
        (at(), at()).prop_map(|(from, to)| Damage::Double(from, to)),
        (at(), vec(any::<u8>(), 1..20)).prop_map(|(place, bytes)| Damage::Insert(place, bytes)),
        (at(), at()).prop_map(|(place, piece)| Damage::Piece(place, piece)),
        at().prop_map(Damage::End),
    ]
}

impl Damage {
    fn apply(&self, mut input: Vec<u8>) -> Vec<u8> {
        if input.is_empty() {
            input.push(b'0');
        }
        let length = input.len();
        let range = |one: &Index, other: &Index| {
            let (one, other) = (one.index(length), other.index(length));
            one.min(other)..one.max(other)
        };
        match self {
            Self::Set(place, byte) => {
                if let Some(target) = input.get_mut(place.index(length)) {
                    *target = *byte;
                }
            }
            Self::Cut(from, to) => drop(input.drain(range(from, to))),
            Self::Double(from, to) => {
                let range = range(from, to);
                let copy = input.get(range.clone()).unwrap_or_default().to_vec();
                input.splice(range.start..range.start, copy);
            }
            Self::Insert(place, bytes) => {
                let place = place.index(length);
                input.splice(place..place, bytes.iter().copied());
            }
            Self::Piece(place, piece) => {
                let place = place.index(length);
                let piece = PIECES.get(piece.index(PIECES.len())).copied();
                input.splice(place..place, piece.unwrap_or_default().iter().copied());
            }
            Self::End(place) => input.truncate(place.index(length)),
        }
        input
    }
}

/// One of the samples after up to six damages, or something that never was one.
fn damaged(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let sample = proptest::sample::select(samples);
    let damaged = (sample, vec(damage(), 0..6));
    let damaged =
        damaged.prop_map(|(sample, all)| all.iter().fold(sample, |input, one| one.apply(input)));
    prop_oneof![9 => damaged, 1 => vec(any::<u8>(), 0..200)]
}

/// Gives a reader damaged samples, and fails with the smallest input that makes it panic. What it answers does not matter.
///
/// # Panics
/// If the reader does: that is the failure of the test.
pub fn never_panics<T>(samples: &[impl AsRef<[u8]>], read: impl Fn(&[u8]) -> T) {
    let samples = samples.iter().map(|one| one.as_ref().to_vec()).collect();
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&damaged(samples), |input| {
        let read = std::panic::catch_unwind(AssertUnwindSafe(|| read(&input)));
        read.map(|_answer| ())
            .map_err(|_panic| TestCaseError::fail(String::from_utf8_lossy(&input).into_owned()))
    });
    assert!(outcome.is_ok(), "a reader panicked: {outcome:?}");
    println!("{} damaged inputs", cases());
}

/// The same for a reader of text: what is no UTF-8 is replaced, as Kubernetes does.
pub fn never_panics_on_text<T>(samples: &[&str], read: impl Fn(&str) -> T) {
    never_panics(samples, |input| read(&String::from_utf8_lossy(input)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a reader panicked")]
    fn a_reader_that_panics_is_found() {
        never_panics(&["{\"size\": 3}"], |input| {
            assert!(!input.ends_with(b"}}"), "two braces");
        });
    }

    #[test]
    fn every_kind_of_damage_occurs() {
        let seen = std::cell::Cell::new([false; 3]);
        never_panics(&["0123456789"], |input| {
            let [mut longer, mut shorter, mut same] = seen.get();
            longer |= input.len() > 10;
            shorter |= input.len() < 10;
            same |= input == b"0123456789";
            seen.set([longer, shorter, same]);
        });
        assert_eq!(seen.get(), [true; 3]);
    }
}
