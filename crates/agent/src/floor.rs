//! The floor: how far this member is known to have come. Reads the annotation and, only where the names of the
//! WAL files leave a doubt, the end of the log; what follows is judged in [`crate::judge`].

use std::path::Path;

use gate::FLOORS_ANNOTATION;

use crate::{
    Result, annotations,
    judge::{Seen, Verdict, Wal, judge_length, parse_id},
    look,
};

/// Why data that would start has to wait after all; `None` when it need not.
pub(crate) fn check(
    volume: &Path,
    seen: &Seen,
    file: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Verdict>> {
    let Wal::Head(head) = seen.wal else {
        return Ok(None);
    };
    let Some(floor) = find(file, head.member_id) else {
        return Ok(None);
    };
    // A file is named after the first index that it may hold: all before it are in the log.
    if look::begin_of_newest(volume, seen.place)?.is_some_and(|begin| begin > floor) {
        return Ok(None);
    }
    let log = look::look_at_log(volume, seen.place, stop)?;
    let verdict = judge_length(&log, floor);
    Ok(Some(verdict).filter(|verdict| *verdict != Verdict::Start && !stop()))
}

/// The index for this member. What cannot be read says nothing: the data itself has been found good.
fn find(file: &str, member_id: u64) -> Option<u64> {
    let floors = annotations::find(file, FLOORS_ANNOTATION)?.ok()?;
    floors.split(',').find_map(|floor| {
        let (id, index) = floor.split_once('=')?;
        (parse_id(id) == Some(member_id)).then(|| index.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_of_this_member_is_found_among_others() {
        let file = format!("a=\"b\"\n{FLOORS_ANNOTATION}=\"1f=7,2f=900\"\n");
        assert_eq!(find(&file, 0x1f), Some(7));
        assert_eq!(find(&file, 0x2f), Some(900));
        assert_eq!(find(&file, 0x3f), None);
        for text in ["", "2f", "2f=", "2f=-1", "=9", "2f=9=9"] {
            let file = format!("{FLOORS_ANNOTATION}=\"{text}\"\n");
            assert_eq!(find(&file, 0x2f), None, "{text}");
        }
    }
}
