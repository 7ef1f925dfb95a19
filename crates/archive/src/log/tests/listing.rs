//! What a listing says: names, ranges, moments, and where capture goes on.

use std::collections::BTreeSet;

use hostile::never_panics_on_text;
use proptest::prelude::*;

use super::super::*;

fn segment(first: i64, last: i64) -> Segment {
    Segment {
        first,
        last,
        answered: Some(1_795_006_800_123 + last),
        hash: u32::try_from(last).unwrap(),
        sum: 1 << 63,
        compressed: true,
        encrypted: false,
    }
}

fn held(compact: i64, revision: i64) -> Held {
    Held { compact, revision }
}

#[test]
fn a_name_says_what_is_needed_without_a_key() {
    let segment = segment(2, 41);
    let name = segment.name().unwrap();
    assert_eq!(
        name,
        "0000000000000000002-0000000000000000041-20261118T130000164Z-00000029-8000000000000000.log.zst"
    );
    assert_eq!(Segment::parse(&name), Some(segment.clone()));
    let encrypted = Segment {
        encrypted: true,
        ..segment
    };
    let name = encrypted.name().unwrap();
    assert!(name.ends_with(".log.zst.age"), "{name}");
    assert_eq!(Segment::parse(&name), Some(encrypted.clone()));
    let unmarked = Segment {
        answered: None,
        ..encrypted
    };
    let name = unmarked.name().unwrap();
    assert!(name.contains("-0-00000029-"), "{name}");
    assert_eq!(Segment::parse(&name), Some(unmarked));
    assert_eq!(parse_seal(&seal_name(41).unwrap()), Some(41));
    for other in [
        "",
        "x.log",
        "2-41-20261118T130000164Z-00000029-8000000000000000.log",
        "0000000000000000002-0000000000000000000-20261118T130000164Z-00000029-8000000000000000.log",
        "0000000000000000002-0000000000000000041-20261118T130000164Z-+0000029-8000000000000000.log",
        "0000000000000000002-0000000000000000041-20261318T130000164Z-00000029-8000000000000000.log",
        "0000000000000000002-0000000000000000041-20261118T130000164Z-00000029-8000000000000000.log.age.zst",
    ] {
        assert_eq!(Segment::parse(other), None, "{other}");
    }
}

#[test]
fn names_of_others_never_panic_and_ours_have_one_spelling() {
    let samples = [segment(2, 41).name().unwrap(), seal_name(i64::MAX).unwrap()];
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    never_panics_on_text(&samples, |text| {
        if let Some(read) = Segment::parse(text) {
            assert_eq!(read.name().as_deref(), Some(text));
        }
        parse_seal(text)
    });
}

#[test]
fn gaps_have_both_ends_and_a_revision_in_one_the_nearest_on_both_sides() {
    // Compaction overtook capture between 50 and 80; a base began again at 100.
    let bases = [held(0, 10), held(80, 100)];
    let log = [segment(11, 30), segment(31, 50), segment(101, 120)];
    let cover = cover(&bases, &log);
    let range = |from, to| Range { from, to };
    assert_eq!(cover.ranges, [range(1, 50), range(80, 120)]);
    assert_eq!(cover.gaps(), [range(51, 79)]);
    assert_eq!(cover.find(50), Ok(()));
    let between = NotCovered {
        below: Some(50),
        above: Some(80),
    };
    assert_eq!(cover.find(60), Err(between));
    let beyond = NotCovered {
        below: Some(120),
        above: None,
    };
    assert_eq!(cover.find(121), Err(beyond));
    // A base whose history reaches back closes it.
    let closed = super::super::cover(&[held(0, 10), held(40, 100)], &log);
    assert_eq!(closed.ranges, [range(1, 120)]);
    // Log without a base is nothing.
    assert_eq!(super::super::cover(&[], &log), Cover::default());
}

#[test]
fn capture_goes_on_where_the_store_ends() {
    let base = held(0, 10);
    let watch = |after, hash| Begin::Watch { after, hash };
    assert_eq!(begin(&[], &[], 5, 0), Begin::Base { after: None });
    assert_eq!(begin(&[base], &[], 12, 0), watch(10, None));
    let log = [segment(11, 30), segment(20, 44), segment(60, 70)];
    // What follows no base does not count, and is captured again.
    assert_eq!(begin(&[base], &log, 100, 0), watch(44, Some(44)));
    // A base that another made is newer: the log goes on all the same, so that there are moments.
    assert_eq!(
        begin(&[base, held(0, 50)], &log, 100, 44),
        watch(44, Some(44))
    );
    // Compaction overtook the log, and not the newer base.
    assert_eq!(begin(&[base, held(0, 50)], &log, 100, 45), watch(50, None));
    let again = Begin::Base { after: Some(50) };
    assert_eq!(begin(&[base, held(0, 50)], &log, 100, 51), again);
    // Too far behind for a watch.
    let far = 44 + MOST_BEHIND;
    assert_eq!(begin(&[base], &log, far, 0), watch(44, Some(44)));
    assert_eq!(
        begin(&[base], &log, far + 1, 0),
        Begin::Base { after: Some(44) }
    );
    let forked = Begin::Forked {
        stored: 44,
        member: 43,
    };
    assert_eq!(begin(&[base], &log, 43, 0), forked);
}

#[test]
fn a_time_means_the_last_mark_before_it_or_nothing() {
    let mark = |revision, answered| Mark {
        revision,
        sent: answered - 1,
        answered,
    };
    let marks = [mark(5, 100), mark(5, 110), mark(9, 120)];
    assert_eq!(as_of(&marks, 119), Ok(mark(5, 110)));
    assert_eq!(as_of(&marks, 120), Ok(mark(9, 120)));
    assert_eq!(as_of(&marks, 99), Err(NoMoment::Before(Some(mark(5, 100)))));
    assert_eq!(as_of(&marks, 121), Err(NoMoment::After(mark(9, 120))));
    assert_eq!(as_of(&[], 1), Err(NoMoment::Before(None)));
    // The clock was set back by fifteen after revision 9.
    let twice = [mark(5, 100), mark(9, 120), mark(11, 106), mark(20, 130)];
    let ambiguous = NoMoment::Ambiguous(mark(5, 100), mark(11, 106));
    assert_eq!(as_of(&twice, 110), Err(ambiguous));
    assert_eq!(as_of(&twice, 103), Ok(mark(5, 100)));
    assert_eq!(as_of(&twice, 130), Ok(mark(20, 130)));
}

#[test]
fn without_a_base_no_log_is_let_go_and_with_one_what_ends_before_it() {
    let log = [segment(11, 30), segment(2, 10), segment(31, 40)];
    assert_eq!(unneeded(&[], &log), Vec::<&Segment>::new());
    assert_eq!(
        unneeded(&[30, 90], &log),
        [&segment(2, 10), &segment(11, 30)]
    );
    assert_eq!(unneeded(&[29], &log), [&segment(2, 10)]);
}

proptest! {
    #[test]
    fn nothing_that_a_base_covers_is_let_go(
        bases in prop::collection::vec((0..40_i64, 0..20_i64), 1..4),
        log in prop::collection::vec((1..60_i64, -1..15_i64), 0..10),
    ) {
        let bases: Vec<Held> = bases.iter().map(|(compact, more)| held(*compact, compact + more)).collect();
        let mut log: Vec<Segment> = log.iter().map(|(first, more)| segment(*first, first + more)).collect();
        let before = cover(&bases, &log);
        let revisions: Vec<i64> = bases.iter().map(|base| base.revision).collect();
        let gone: Vec<Segment> = unneeded(&revisions, &log).into_iter().cloned().collect();
        log.retain(|segment| !gone.contains(segment));
        prop_assert_eq!(cover(&bases, &log), before);
    }

    /// Told apart from the walk in `cover`: revision by revision.
    #[test]
    fn covered_is_what_can_be_walked(
        bases in prop::collection::vec((0..40_i64, 0..20_i64), 0..4),
        log in prop::collection::vec((1..60_i64, -1..15_i64), 0..10),
    ) {
        let bases: Vec<Held> = bases.iter().map(|(compact, more)| held(*compact, compact + more)).collect();
        let log: Vec<Segment> = log.iter().map(|(first, more)| segment(*first, first + more)).collect();
        let in_log: BTreeSet<i64> = log.iter().flat_map(|it| it.first..=it.last).collect();
        let covered = cover(&bases, &log);
        for revision in 1..100 {
            let walks = |base: &Held| {
                let is_in = base.compact <= revision && revision <= base.revision;
                is_in || (base.revision < revision && (base.revision + 1..=revision).all(|at| in_log.contains(&at)))
            };
            let expected = bases.iter().any(|base| base.revision > 0 && walks(base));
            prop_assert_eq!(covered.find(revision).is_ok(), expected, "revision {}", revision);
            if !expected {
                continue;
            }
            for base in bases.iter().filter(|base| base.revision < revision && walks(base)) {
                let chain = chain(&log, base.revision, revision);
                let rows: BTreeSet<i64> = chain.iter().flat_map(|it| it.first..=it.last).collect();
                prop_assert!((base.revision + 1..=revision).all(|at| rows.contains(&at)));
            }
        }
        let gaps = covered.gaps();
        prop_assert!(gaps.iter().all(|gap| gap.from <= gap.to && covered.find(gap.from).is_err() && covered.find(gap.to).is_err()));
    }
}
