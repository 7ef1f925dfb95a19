//! The settings of defragmentation and compaction in a spec.

use super::InvalidSpec;
use crate::v1alpha1::maintenance::{Compact, Defragment, Maintenance, Window};

const DAY: i64 = 24 * 60;

/// Defragmentation and compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceIntent {
    /// Files that are mostly free space are defragmented.
    pub defragment: bool,
    /// When that may begin; `None` is at any time.
    pub window: Option<DailyWindow>,
    /// How many revisions are kept when history is compacted to make room; `None` where nothing may be compacted.
    pub history: Option<u64>,
}

impl MaintenanceIntent {
    /// What may be compacted; no other part of an invalid spec changes that.
    pub fn history_of(written: &Maintenance) -> Option<u64> {
        match written.compact {
            Compact::Auto => Some(parse_history(written.keep_revisions)),
            Compact::Never => None,
        }
    }
}

/// Default number of revisions that are kept.
const DEFAULT_HISTORY: u64 = 1000;

/// Some minutes of every day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DailyWindow {
    /// Minute of the day, in UTC, in which it begins.
    pub start: i64,
    /// How many minutes it lasts.
    pub minutes: i64,
}

impl DailyWindow {
    /// Is this moment, in seconds since the epoch, within it? The epoch began at midnight.
    pub fn holds(self, seconds: i64) -> bool {
        let minute = seconds.div_euclid(60).rem_euclid(DAY);
        minute.saturating_sub(self.start).rem_euclid(DAY) < self.minutes
    }
}

pub(super) fn parse(written: Option<&Maintenance>) -> Result<MaintenanceIntent, InvalidSpec> {
    let written = written.cloned().unwrap_or_default();
    Ok(MaintenanceIntent {
        defragment: written.defragment == Defragment::Auto,
        window: written.window.as_ref().map(parse_window).transpose()?,
        history: MaintenanceIntent::history_of(&written),
    })
}

/// What is no number of revisions is not stored; the least that is kept is one.
fn parse_history(written: Option<i64>) -> u64 {
    let written = written.map(|kept| u64::try_from(kept).unwrap_or(0).max(1));
    written.unwrap_or(DEFAULT_HISTORY)
}

fn parse_window(window: &Window) -> Result<DailyWindow, InvalidSpec> {
    let refuse = || InvalidSpec::Window(format!("{} for {} hours", window.start, window.hours));
    let (hour, minute) = window.start.split_once(':').ok_or_else(refuse)?;
    let number = |text: &str, below: i64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| *number < below);
        number.filter(|_| digits).ok_or_else(refuse)
    };
    let (hour, minute): (i64, i64) = (number(hour, 24)?, number(minute, 60)?);
    let hours = i64::from(window.hours);
    if !(1..=24).contains(&hours) {
        return Err(refuse());
    }
    Ok(DailyWindow {
        start: hour.saturating_mul(60).saturating_add(minute),
        minutes: hours.saturating_mul(60),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: &str, hours: i32) -> Result<DailyWindow, InvalidSpec> {
        let start = start.to_owned();
        parse_window(&Window { start, hours })
    }

    #[test]
    fn a_window_may_go_past_midnight() {
        let night = window("23:30", 2).unwrap();
        let at = |hour: i64, minute: i64| night.holds((400 * 24 + hour) * 3600 + minute * 60);
        assert!(at(23, 30) && at(23, 59) && at(0, 0) && at(1, 29));
        assert!(!at(1, 30) && !at(12, 0) && !at(23, 29));
        assert!((0..24).all(|hour| window("05:00", 24).unwrap().holds(hour * 3600)));
    }

    #[test]
    fn what_may_be_compacted_is_the_owners_word() {
        let history = |compact, keep_revisions| {
            let written = Maintenance {
                compact,
                keep_revisions,
                ..Maintenance::default()
            };
            parse(Some(&written)).unwrap().history
        };
        assert_eq!(parse(None).unwrap().history, Some(1000));
        assert_eq!(history(Compact::Auto, None), Some(1000));
        assert_eq!(history(Compact::Auto, Some(50_000)), Some(50_000));
        assert_eq!(history(Compact::Auto, Some(-1)), Some(1));
        assert_eq!(history(Compact::Never, Some(50_000)), None);
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for (start, hours) in [
            ("24:00", 1),
            ("2:00", 1),
            ("02:60", 1),
            ("+2:00", 1),
            ("", 1),
            ("02:00", 0),
            ("02:00", 25),
        ] {
            assert!(window(start, hours).is_err(), "{start} {hours}");
        }
    }
}
