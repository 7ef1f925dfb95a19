//! Names of the log, which say what has to be known without a key: the revisions, the newest moment, the hash of the last
//! revision, and the sum of the bytes. Names that others made up are passed over, never misread.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::manifest::Compression;

/// The directory of the log, in that of the timeline.
pub const DIRECTORY: &str = "log";
/// The directory of what members said of their rows.
pub const SEALS: &str = "seal";
/// Digits of a revision: every `i64` fits.
const REVISION: usize = 19;
const TIME: &str = "%Y%m%dT%H%M%S";
/// In the place of a time.
const NO_MARK: &str = "0";

/// A segment, as its name has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// Its first revision.
    pub first: i64,
    /// Its last revision; the one before the first where it holds nothing but marks.
    pub last: i64,
    /// Its newest mark was answered then, in milliseconds since 1970; `None` where it has none.
    pub answered: Option<i64>,
    /// Hash of the rows of its last revision.
    pub hash: u32,
    /// The first eight bytes of the SHA-256 of its bytes in the store.
    pub sum: u64,
    /// It is a file of zstd.
    pub compressed: bool,
    /// It is a file of age.
    pub encrypted: bool,
}

impl Segment {
    /// How it is compressed.
    pub fn compression(&self) -> Compression {
        if self.compressed {
            Compression::Zstd
        } else {
            Compression::None
        }
    }

    /// Its name, without the directory; `None` for a time that has no name.
    pub fn name(&self) -> Option<String> {
        let time = match self.answered {
            Some(time) => time_to_name(time)?,
            None => NO_MARK.to_owned(),
        };
        let Self {
            first,
            last,
            hash,
            sum,
            ..
        } = self;
        let compressed = if self.compressed { ".zst" } else { "" };
        let encrypted = if self.encrypted { ".age" } else { "" };
        (*first > 0 && *last >= first - 1).then(|| {
            format!("{first:0REVISION$}-{last:0REVISION$}-{time}-{hash:08x}-{sum:016x}.log{compressed}{encrypted}")
        })
    }

    /// What the last part of a name says; `None` for what is no name of a segment.
    pub fn parse(name: &str) -> Option<Self> {
        let (rest, encrypted) = cut(name, ".age");
        let (rest, compressed) = cut(rest, ".zst");
        let mut parts = rest.strip_suffix(".log")?.split('-');
        let segment = Self {
            first: revision(parts.next()?)?,
            last: revision(parts.next()?)?,
            answered: answered(parts.next()?)?,
            hash: u32::from_str_radix(parts.next()?, 16).ok()?,
            sum: u64::from_str_radix(parts.next()?, 16).ok()?,
            compressed,
            encrypted,
        };
        // One spelling for each: what would be written otherwise is of something else.
        let is_ours = parts.next().is_none() && segment.name().as_deref() == Some(name);
        is_ours.then_some(segment)
    }
}

/// Name of the record of what a member said of the rows up to a revision.
pub fn seal_name(revision: i64) -> Option<String> {
    (revision >= 0).then(|| format!("{revision:0REVISION$}.json"))
}

/// Revision of such a record.
pub fn parse_seal(name: &str) -> Option<i64> {
    revision(name.strip_suffix(".json")?)
}

fn cut<'a>(name: &'a str, end: &str) -> (&'a str, bool) {
    name.strip_suffix(end)
        .map_or((name, false), |rest| (rest, true))
}

fn revision(text: &str) -> Option<i64> {
    let is_number = text.len() == REVISION && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The time of a name, if it has one.
#[expect(
    clippy::option_option,
    reason = "no name, a name without a time, a time"
)]
fn answered(text: &str) -> Option<Option<i64>> {
    if text == NO_MARK {
        return Some(None);
    }
    time_of_name(text).map(Some)
}

fn time_to_name(milliseconds: i64) -> Option<String> {
    let time = Timestamp::from_millisecond(milliseconds).ok()?;
    let time = Offset::UTC.to_datetime(time);
    let second = time.strftime(TIME);
    Some(format!("{second}{:03}Z", time.millisecond()))
}

fn time_of_name(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let (second, millisecond) = text.split_at_checked(text.len().checked_sub(3)?)?;
    let second = DateTime::strptime(TIME, second).ok()?;
    let second = Offset::UTC.to_timestamp(second).ok()?.as_millisecond();
    second.checked_add(millisecond.parse::<u16>().ok()?.into())
}
