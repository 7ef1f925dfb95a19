//! When backups are due: five fields of cron in a time zone.

use cronexpr::{Crontab, MakeTimestamp};
use jiff::{SignedDuration, Timestamp};

/// A schedule that can be read.
#[derive(Clone, Debug)]
pub struct Schedule(Crontab);

/// Why a schedule cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// No time zone has this name.
    #[error("no time zone is called {0}: write one such as Europe/Berlin or UTC")]
    TimeZone(String),
    /// It is no schedule.
    #[error(
        "{0} is no schedule: write the five fields of cron, such as 0 2 * * * (minute, hour, day of the month, month, day of the week)"
    )]
    Fields(String),
    /// It is one, and that day never comes.
    #[error("{0} never comes")]
    Never(String),
}

/// Spans in which the newest time is looked for, one after the other: the dense schedules find it in the first, and no span
/// holds more times than can be counted in a moment.
const SPANS: [i64; 5] = [1, 24, 32 * 24, 366 * 24, 9 * 366 * 24];

impl Schedule {
    /// Reads it. Without a zone it is in UTC.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, BadSchedule> {
        let fields = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let bad = || BadSchedule::Fields(text.to_owned());
        // A sixth field would be a time zone; ours has a field of its own.
        if fields.split_whitespace().count() != 5 {
            return Err(bad());
        }
        let zone = zone.unwrap_or("UTC");
        if jiff::tz::TimeZone::get(zone).is_err() {
            return Err(BadSchedule::TimeZone(zone.to_owned()));
        }
        let read = cronexpr::parse_crontab(&format!("{fields} {zone}"));
        let Ok(crontab) = read else {
            return Err(bad());
        };
        let schedule = Self(crontab);
        // 2024-01-01: whatever comes at all comes within the years after it.
        let known = Timestamp::from_second(1_704_067_200).unwrap_or_default();
        match schedule.next(known) {
            Some(_) => Ok(schedule),
            None => Err(BadSchedule::Never(text.to_owned())),
        }
    }

    /// The first time after this one.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let next = self.0.find_next(MakeTimestamp(after));
        next.ok().map(|next| next.timestamp())
    }

    /// The newest time that is later than `after` and has come.
    pub fn newest(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        SPANS.into_iter().find_map(|hours| {
            let begin = now.checked_sub(SignedDuration::from_hours(hours)).ok()?;
            let begin = begin.max(after);
            let mut newest = None;
            let mut at = begin;
            while let Some(next) = self.next(at).filter(|next| *next <= now && *next > at) {
                newest = Some(next);
                at = next;
            }
            newest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_time_zone_counts() {
        let utc = Schedule::parse("0 2 * * *", None).unwrap();
        let berlin = Schedule::parse("0 2 * * *", Some("Europe/Berlin")).unwrap();
        let after = at("2026-07-01T12:00:00Z");
        assert_eq!(utc.next(after), Some(at("2026-07-02T02:00:00Z")));
        assert_eq!(berlin.next(after), Some(at("2026-07-02T00:00:00Z")));
    }

    #[test]
    fn an_hour_that_a_clock_skips_or_repeats_brings_one_backup() {
        let berlin = Schedule::parse("30 2 * * *", Some("Europe/Berlin")).unwrap();
        // 2026-03-29: from 02:00 to 03:00. 2026-10-25: from 03:00 back to 02:00.
        for day in ["2026-03-29", "2026-10-25"] {
            let begin = at(&format!("{day}T00:00:00Z")) - SignedDuration::from_hours(3);
            let end = begin + SignedDuration::from_hours(24);
            let mut times = Vec::new();
            let mut last = begin;
            while let Some(next) = berlin.next(last).filter(|next| *next < end) {
                times.push(next);
                last = next;
            }
            assert!(times.len() <= 2, "{day}: {times:?}");
        }
    }

    #[test]
    fn of_several_that_were_missed_the_newest_is_due() {
        let daily = Schedule::parse("@daily", None).unwrap();
        let (after, now) = (at("2026-01-01T00:00:00Z"), at("2026-11-18T17:00:00Z"));
        assert_eq!(daily.newest(after, now), Some(at("2026-11-18T00:00:00Z")));
        assert_eq!(daily.newest(at("2026-11-18T00:00:00Z"), now), None);
        let yearly = Schedule::parse("@yearly", None).unwrap();
        assert_eq!(yearly.newest(at("2020-01-01T00:00:00Z"), now), Some(after));
        let often = Schedule::parse("* * * * *", None).unwrap();
        assert_eq!(often.newest(after, now), Some(now));
    }

    #[test]
    fn what_is_no_schedule_is_said() {
        for bad in [
            "",
            "every night",
            "0 2 * *",
            "61 * * * *",
            "0 2 * * * UTC",
            "0 0 31 2 *",
        ] {
            assert!(Schedule::parse(bad, None).is_err(), "{bad}");
        }
        let error = Schedule::parse("0 2 * * *", Some("Mars/Base")).unwrap_err();
        assert_eq!(error, BadSchedule::TimeZone("Mars/Base".to_owned()));
    }
}
