//! Which bases are no longer kept. An object prunes what it made and nothing else; it never prunes its newest base, nor
//! the newest that was restored for a trial, whatever it is told to keep. A base that failed its trial is kept as long as any
//! other would be, for who wants to look at it, and takes the place of none.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use crate::work::{Keep, MadeBy};

/// A base, as far as retention looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its ID.
    pub id: String,
    /// Who made it.
    pub made_by: MadeBy,
    /// When it was complete.
    pub time: Timestamp,
    /// When it was restored for a trial, and was as it should be.
    pub verified: Option<Timestamp>,
    /// Its last trial failed.
    pub damaged: bool,
}

/// IDs of the bases that `object` made and no longer keeps, oldest first, after it made the base `made`.
///
/// A `Keep` that says nothing keeps all. Days, weeks and months are counted where there is a base: a month without any does
/// not use up what was asked for.
///
/// Invariant: the newest and the newest verified base of an object stay, of those that did not fail their trial
/// (`the_newest_and_the_newest_verified_stay_whatever_is_asked`).
pub fn no_longer_kept(
    all: &[Kept],
    object: &MadeBy,
    keep: &Keep,
    made: &str,
    now: Timestamp,
) -> Vec<String> {
    if *keep == Keep::default() {
        return Vec::new();
    }
    let is_own = |base: &&Kept| {
        base.made_by.namespace == object.namespace && base.made_by.name == object.name
    };
    let mut own: Vec<&Kept> = all.iter().filter(is_own).collect();
    own.sort_by_key(|base| std::cmp::Reverse((base.time, &base.id)));

    let good: Vec<&Kept> = own.iter().copied().filter(|base| !base.damaged).collect();
    let mut kept = kept_of(&good, keep, now);
    let beside = kept_of(&own, keep, now);
    let damaged = own.iter().filter(|base| base.damaged);
    let damaged = damaged.map(|base| base.id.as_str());
    kept.extend(damaged.filter(|id| beside.contains(id)));
    let newest_verified = good.iter().find(|base| base.verified.is_some());
    let newest = good.first().or(own.first());
    let always = newest.into_iter().chain(newest_verified);
    kept.extend(always.map(|base| base.id.as_str()));
    kept.extend(keep.spared.iter().map(String::as_str));
    // Clocks of nodes differ: what was made a moment ago is the newest, whatever the others say of themselves.
    kept.insert(made);

    let gone = own
        .iter()
        .rev()
        .filter(|base| !kept.contains(base.id.as_str()));
    gone.map(|base| base.id.clone()).collect()
}

/// What a `Keep` keeps of bases that are in order, newest first.
fn kept_of<'a>(bases: &[&'a Kept], keep: &Keep, now: Timestamp) -> BTreeSet<&'a str> {
    let number = usize::try_from(keep.newest.unwrap_or(0)).unwrap_or(usize::MAX);
    let newest = bases.iter().take(number).map(|base| base.id.as_str());
    let mut kept: BTreeSet<&str> = newest.collect();
    if let Some(seconds) = keep.seconds {
        let is_young = |base: &&&Kept| age(base.time, now) < i128::from(seconds);
        kept.extend(bases.iter().filter(is_young).map(|base| base.id.as_str()));
    }
    kept.extend(newest_of_each(bases, keep.daily, |date| date));
    kept.extend(newest_of_each(bases, keep.weekly, |date| {
        let week = date.iso_week_date();
        (week.year(), week.week())
    }));
    kept.extend(newest_of_each(bases, keep.monthly, |date| {
        (date.year(), date.month())
    }));
    kept
}

/// Seconds; a base that is from the future is young.
fn age(time: Timestamp, now: Timestamp) -> i128 {
    i128::from(now.as_second()) - i128::from(time.as_second())
}

/// The first of each period, for so many periods, of bases that are in order, newest first.
fn newest_of_each<'a, P: Ord>(
    own: &[&'a Kept],
    periods: Option<u32>,
    period: impl Fn(Date) -> P,
) -> Vec<&'a str> {
    let number = usize::try_from(periods.unwrap_or(0)).unwrap_or(usize::MAX);
    let mut seen = BTreeSet::new();
    let is_first = |base: &&&Kept| seen.insert(period(Offset::UTC.to_datetime(base.time).date()));
    let firsts = own.iter().filter(is_first).take(number);
    firsts.map(|base| base.id.as_str()).collect()
}

#[cfg(test)]
mod tests;
