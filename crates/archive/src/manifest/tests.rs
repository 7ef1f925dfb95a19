//! Records are read as they were written, or not at all.

use hostile::never_panics;

use super::*;
use crate::work::Kind;

fn sum(bytes: u64) -> Sum {
    Sum {
        bytes,
        sha256: "0f".repeat(32),
    }
}

fn manifest() -> Manifest {
    Manifest {
        id: "nightly-1".to_owned(),
        data: "base/nightly-1-0.db.zst".to_owned(),
        time: Timestamp::UNIX_EPOCH,
        revision: 4711,
        compact_revision: 12,
        raw: sum(100_000),
        stored: sum(20_000),
        trailer: "0f".repeat(32),
        compression: Compression::Zstd,
        encrypted: false,
        recipients: Vec::new(),
        source: Source {
            name: "db-0".to_owned(),
            id: "8e9e05c52164694d".to_owned(),
            etcd_version: "3.6.16".to_owned(),
            storage_version: Some("3.6.0".to_owned()),
            db_size: 100_000,
            db_size_in_use: 50_000,
            auth_enabled: Some(false),
        },
        made_by: MadeBy {
            namespace: "shop".to_owned(),
            name: "nightly".to_owned(),
            kind: Kind::Scheduled,
        },
        hash_kv: Some(HashKv {
            revision: 4711,
            compact_revision: 12,
            hash: 7,
        }),
    }
}

const NAME: &str = "0000000000000004711-nightly-1.json";

#[test]
fn a_manifest_is_read_as_it_was_written() {
    let text = seal(&manifest()).unwrap();
    assert_eq!(Manifest::open(NAME, text.as_bytes()).unwrap(), manifest());
}

#[test]
fn no_single_bit_of_a_manifest_can_change_what_is_read() {
    let text = seal(&manifest()).unwrap().into_bytes();
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut flipped = text.clone();
            flipped[at] ^= 1 << bit;
            if let Ok(read) = Manifest::open(NAME, &flipped) {
                assert_eq!(read, manifest(), "byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn a_newer_format_is_rejected_by_its_number() {
    let read: Result<Manifest, _> = open(br#"{"format":2,"other":[]}"#);
    assert!(matches!(read, Err(BadRecord::Newer(2))));
}

#[test]
fn what_a_later_keeper_adds_is_passed_over() {
    let mut value = serde_json::to_value(manifest()).unwrap();
    value["later"] = "x".into();
    let text = seal(&value).unwrap();
    assert_eq!(Manifest::open(NAME, text.as_bytes()).unwrap(), manifest());
}

#[test]
fn data_has_the_name_of_its_attempt_and_its_process() {
    for (name, is_good) in [
        ("nightly-1-0.db.zst", true),
        ("nightly-1-12-00c0ffee.db.zst", true),
        ("nightly-1.db.zst", false),
        ("nightly-1-.db.zst", false),
        ("nightly-1-x.db.zst", false),
        ("nightly-1-0-.db.zst", false),
        ("nightly-1-0-0-0.db.zst", false),
        ("nightly-2-0.db.zst", false),
    ] {
        let named = Manifest {
            data: format!("base/{name}"),
            ..manifest()
        };
        let text = seal(&named).unwrap();
        assert_eq!(
            Manifest::open(NAME, text.as_bytes()).is_ok(),
            is_good,
            "{name}"
        );
    }
}

#[test]
fn a_manifest_under_the_name_of_another_is_not_used() {
    let text = seal(&manifest()).unwrap();
    let other = "0000000000000004712-nightly-1.json";
    let read = Manifest::open(other, text.as_bytes());
    assert!(matches!(read, Err(BadRecord::Misnamed)));
    let elsewhere = Manifest {
        data: "../other/base/nightly-1-0.db".to_owned(),
        ..manifest()
    };
    let text = seal(&elsewhere).unwrap();
    let read = Manifest::open(NAME, text.as_bytes());
    assert!(matches!(read, Err(BadRecord::Misnamed)));
}

#[test]
fn damaged_records_never_panic() {
    let samples = [seal(&manifest()).unwrap()];
    never_panics(&samples, |text| {
        drop(open::<TimelineRecord>(text));
        drop(open::<VerifiedRecord>(text));
        drop(Manifest::open(NAME, text));
    });
}
