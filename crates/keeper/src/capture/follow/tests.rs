use super::*;

fn change(key: &str, revision: u8) -> Change {
    let length = u8::try_from(key.len()).unwrap();
    let mut key_value = vec![0x0a, length];
    key_value.extend(key.bytes());
    key_value.extend([0x18, revision]);
    Change {
        is_delete: false,
        key_value,
    }
}

fn changes(all: &[(&str, u8)], is_whole: bool) -> Watched {
    Watched::Changes {
        changes: all.iter().map(|(key, at)| change(key, *at)).collect(),
        is_whole,
    }
}

/// Revisions, and how many rows each has.
fn revisions(news: News) -> Vec<(i64, usize)> {
    match news {
        News::Revisions(all) => all.iter().map(|it| (it.revision, it.rows.len())).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_revision_that_comes_in_parts_is_one() {
    let mut follow = Follow::new(4, None);
    assert_eq!(follow.from(), 5);
    let first = follow.take(changes(&[("a", 5), ("b", 5)], false)).unwrap();
    assert_eq!(revisions(first), []);
    let more = follow.take(changes(&[("c", 5), ("a", 6)], false)).unwrap();
    assert_eq!(revisions(more), [(5, 3)]);
    let last = follow.take(changes(&[("b", 6)], true)).unwrap();
    assert_eq!(revisions(last), [(6, 2)]);
    assert_eq!(revisions(follow.take(Watched::Progress(6)).unwrap()), []);
}

#[test]
fn what_was_lost_ends_it() {
    let mut follow = Follow::new(4, None);
    let gap = follow.take(changes(&[("a", 6)], true)).unwrap_err();
    assert_eq!(gap.message, "the member sent revision 6 after revision 4");
    let mut follow = Follow::new(4, None);
    assert!(follow.take(Watched::Progress(5)).is_err());
    follow.take(changes(&[("a", 5)], false)).unwrap();
    assert!(follow.take(Watched::Progress(5)).is_err());
    let mut follow = Follow::new(4, None);
    let other = Watched::Changes {
        changes: vec![Change {
            is_delete: true,
            key_value: vec![0xff],
        }],
        is_whole: true,
    };
    assert!(follow.take(other).is_err());
    assert_eq!(
        follow.take(Watched::Compacted(9)).unwrap(),
        News::Compacted(9)
    );
}

#[test]
fn another_history_is_noticed_before_anything_of_it_is_kept() {
    let hash = row_hash(&[Row::Put(change("a", 4).key_value)]);
    let mut same = Follow::new(4, Some(hash));
    assert_eq!(same.from(), 3);
    let news = same
        .take(changes(&[("z", 3), ("a", 4), ("b", 5)], true))
        .unwrap();
    assert_eq!(revisions(news), [(5, 1)]);
    for other in [
        &[("z", 3), ("b", 4), ("b", 5)][..],
        &[("z", 3), ("a", 4), ("b", 4)],
        &[("z", 3), ("b", 5)],
    ] {
        let mut follow = Follow::new(4, Some(hash));
        assert_eq!(follow.take(changes(other, true)).unwrap(), News::Forked);
    }
}
