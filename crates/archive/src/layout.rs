//! Names in the store. A base's data has the name of its ID, because its revision is known only when the last byte has
//! passed; its manifest begins with the revision, so that a listing is in the order of history. Names that others made up
//! are passed over, never misread.

use jiff::Timestamp;
use jiff::tz::Offset;

use crate::manifest::Compression;
use crate::work::Place;

/// A name that must not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be {text:?}: {rule}")]
pub struct BadName {
    /// What was to be named.
    pub what: &'static str,
    /// The text.
    pub text: String,
    /// What is allowed.
    pub rule: &'static str,
}

const LABEL: &str = "only lower-case letters, digits, hyphens and dots, at most 253";
const ID: &str = "only lower-case letters, digits and hyphens, at most 128";
const HEX: &str = "only 1 to 16 lower-case hexadecimal digits";
const PATH: &str = "no part of it may be empty, begin with a dot, or hold control characters";
/// Digits of a revision: every `i64` fits.
const REVISION: usize = 19;
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// The directory of one timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: String,
}

impl Layout {
    /// Of a place below a path, which may be empty.
    pub fn new(path: &str, place: &Place) -> Result<Self, BadName> {
        let cluster = cluster_directory(path, place)?;
        check(
            is_cluster_id(&place.cluster_id),
            "the cluster ID",
            &place.cluster_id,
            HEX,
        )?;
        let id = &place.cluster_id;
        Ok(Self {
            root: format!("{cluster}/{id}"),
        })
    }

    /// The directory, without a slash at its end.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// What the timeline is of.
    pub fn timeline(&self) -> String {
        self.of("timeline.json")
    }

    /// The directory of bases.
    pub fn bases(&self) -> String {
        self.of("base")
    }

    /// The directory of records of bases that were tried, and were as they should be.
    pub fn verifications(&self) -> String {
        self.of("verified")
    }

    /// The directory of records of bases that were tried, and were not.
    pub fn damages(&self) -> String {
        self.of("damaged")
    }

    /// A name that a manifest gives, from the directory of the timeline.
    pub fn of(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }
}

/// The directory that holds the timelines of a cluster.
pub fn cluster_directory(path: &str, place: &Place) -> Result<String, BadName> {
    let mut parts = parts("the path", path)?;
    for (what, label) in [
        ("the namespace", &place.namespace),
        ("the cluster", &place.cluster),
    ] {
        check(is_label(label), what, label, LABEL)?;
        parts.push(label);
    }
    Ok(parts.join("/"))
}

/// A file that something else made, below a path, which may be empty.
pub fn file(path: &str, name: &str) -> Result<String, BadName> {
    check(!name.is_empty(), "the name of a file", name, PATH)?;
    let mut all = parts("the path", path)?;
    all.extend(parts("the name of a file", name)?);
    Ok(all.join("/"))
}

/// The parts of a name; none of an empty one.
fn parts<'a>(what: &'static str, name: &'a str) -> Result<Vec<&'a str>, BadName> {
    let mut parts = Vec::new();
    for part in name.split('/').filter(|_| !name.is_empty()) {
        let is_part =
            !part.is_empty() && !part.starts_with('.') && !part.contains(char::is_control);
        check(is_part, what, name, PATH)?;
        parts.push(part);
    }
    Ok(parts)
}

/// Name of the data of a base, from the directory of its timeline.
pub fn data(id: &str, compression: Compression, encrypted: bool) -> Result<String, BadName> {
    check(is_id(id), "the ID of a base", id, ID)?;
    let compressed = match compression {
        Compression::Zstd => ".zst",
        Compression::None => "",
    };
    let encrypted = if encrypted { ".age" } else { "" };
    Ok(format!("base/{id}.db{compressed}{encrypted}"))
}

/// Name of the manifest of a base, from the directory of its timeline.
pub fn manifest(revision: i64, id: &str) -> Result<String, BadName> {
    check(is_id(id), "the ID of a base", id, ID)?;
    let known = revision >= 0;
    check(known, "a revision", &revision.to_string(), "not below 0")?;
    Ok(format!("base/{revision:0REVISION$}-{id}.json"))
}

/// Name of the record of a verification, from the directory of its timeline.
pub fn verified(id: &str, time: Timestamp) -> Result<String, BadName> {
    record("verified", id, time)
}

/// Name of the record of damage, from the directory of its timeline.
pub fn damaged(id: &str, time: Timestamp) -> Result<String, BadName> {
    record("damaged", id, time)
}

fn record(directory: &str, id: &str, time: Timestamp) -> Result<String, BadName> {
    check(is_id(id), "the ID of a base", id, ID)?;
    let time = Offset::UTC.to_datetime(time).strftime(TIME);
    Ok(format!("{directory}/{id}-{time}.json"))
}

/// Revision and ID of a base, from the last part of its manifest's name. `None` for what is no manifest.
pub fn parse_manifest(name: &str) -> Option<(i64, &str)> {
    let (revision, id) = name.strip_suffix(".json")?.split_once('-')?;
    let is_number = revision.len() == REVISION && revision.bytes().all(|b| b.is_ascii_digit());
    let revision = revision.parse().ok().filter(|_| is_number)?;
    is_id(id).then_some((revision, id))
}

/// ID of a base, from the last part of the name of its data.
pub fn parse_data(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".age").unwrap_or(name);
    let name = name.strip_suffix(".zst").unwrap_or(name);
    name.strip_suffix(".db").filter(|id| is_id(id))
}

/// ID of a base and the time at which it was tried, from the last part of the name of the record.
pub fn parse_record(name: &str) -> Option<(&str, Timestamp)> {
    let (id, time) = name.strip_suffix(".json")?.rsplit_once('-')?;
    let time = jiff::civil::DateTime::strptime(TIME, time).ok()?;
    let time = Offset::UTC.to_timestamp(time).ok()?;
    is_id(id).then_some((id, time))
}

/// Whether it can be the ID of an etcd cluster in a name.
pub fn is_cluster_id(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (1..=16).contains(&text.len()) && text.bytes().all(is_digit)
}

fn is_id(text: &str) -> bool {
    let is_fit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=128).contains(&text.len()) && text.bytes().all(is_fit)
}

fn is_label(text: &str) -> bool {
    let is_fit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    (1..=253).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(is_fit)
}

fn check(holds: bool, what: &'static str, text: &str, rule: &'static str) -> Result<(), BadName> {
    let text = text.to_owned();
    holds.then_some(()).ok_or(BadName { what, text, rule })
}

#[cfg(test)]
mod tests {
    use hostile::never_panics_on_text;

    use super::*;

    fn place() -> Place {
        Place {
            namespace: "shop".to_owned(),
            cluster: "db".to_owned(),
            cluster_id: "cdf818194e3a8c32".to_owned(),
        }
    }

    #[test]
    fn names_are_where_the_runbook_says() {
        let layout = Layout::new("backups/eu", &place()).unwrap();
        let root = "backups/eu/shop/db/cdf818194e3a8c32";
        assert_eq!(layout.timeline(), format!("{root}/timeline.json"));
        let layout = Layout::new("", &place()).unwrap();
        assert_eq!(layout.bases(), "shop/db/cdf818194e3a8c32/base");
        assert_eq!(
            data("a-1", Compression::Zstd, true).unwrap(),
            "base/a-1.db.zst.age"
        );
        assert_eq!(
            data("a-1", Compression::None, false).unwrap(),
            "base/a-1.db"
        );
        let name = manifest(42, "a-1").unwrap();
        assert_eq!(name, "base/0000000000000000042-a-1.json");
        let name = verified("a-1", "2026-11-18T17:35:24.5Z".parse().unwrap()).unwrap();
        assert_eq!(name, "verified/a-1-20261118T173524Z.json");
        let name = damaged("a-1", "2026-11-18T17:35:24.5Z".parse().unwrap()).unwrap();
        assert_eq!(name, "damaged/a-1-20261118T173524Z.json");
    }

    #[test]
    fn every_name_is_read_as_it_was_made() {
        for revision in [0, 1, 42, i64::MAX] {
            let name = manifest(revision, "a-1").unwrap();
            let last = name.strip_prefix("base/").unwrap();
            assert_eq!(parse_manifest(last), Some((revision, "a-1")));
        }
        let time: Timestamp = "2026-11-18T17:35:24Z".parse().unwrap();
        let name = verified("a-1", time).unwrap();
        let last = name.strip_prefix("verified/").unwrap();
        assert_eq!(parse_record(last), Some(("a-1", time)));
        for (compressed, encrypted) in [
            (Compression::Zstd, true),
            (Compression::Zstd, false),
            (Compression::None, false),
        ] {
            let name = data("a-1", compressed, encrypted).unwrap();
            assert_eq!(parse_data(name.strip_prefix("base/").unwrap()), Some("a-1"));
        }
    }

    #[test]
    fn a_listing_is_in_the_order_of_revisions() {
        let names = [1, 9, 10, 99, 100, i64::MAX].map(|revision| manifest(revision, "z").unwrap());
        assert!(names.is_sorted());
    }

    #[test]
    fn what_could_lead_elsewhere_is_not_a_name() {
        for path in ["/", "a//b", "../a", "a/./b", "a/", "a\n"] {
            assert!(Layout::new(path, &place()).is_err(), "{path:?}");
        }
        for odd in ["", "..", "a/b", "A", "a b", "ä"] {
            let namespace = odd.to_owned();
            let with = Place {
                namespace,
                ..place()
            };
            assert!(Layout::new("", &with).is_err(), "{odd:?}");
            let cluster_id = odd.to_owned();
            let with = Place {
                cluster_id,
                ..place()
            };
            assert!(Layout::new("", &with).is_err() || odd == "a", "{odd:?}");
            assert!(data(odd, Compression::Zstd, true).is_err(), "{odd:?}");
        }
        assert!(manifest(-1, "a").is_err());
        assert_eq!(parse_manifest("42-a.json"), None);
        assert_eq!(parse_manifest("0000000000000000042-A.json"), None);
        assert_eq!(parse_manifest("+000000000000000042-a.json"), None);
    }

    #[test]
    fn a_file_of_others_lies_below_the_path() {
        let name = "etcd/2026-11-19T02:00:00Z snapshot.db.gz";
        assert_eq!(file("", name).unwrap(), name);
        assert_eq!(file("a/b", "c.db").unwrap(), "a/b/c.db");
        for odd in ["", "/", "../a", "a/../b", "a//b", "a/", "/a", "a\nb"] {
            assert!(file("p", odd).is_err(), "{odd:?}");
        }
        assert!(file("../p", "a").is_err());
    }

    #[test]
    fn names_that_others_made_up_never_panic() {
        let samples = [
            "0000000000000000042-a-1.json",
            "a-1-20261118T173524Z.json",
            "a-1.db.zst.age",
        ];
        never_panics_on_text(&samples, |name| {
            let place = Place {
                namespace: name.to_owned(),
                ..place()
            };
            drop(Layout::new(name, &place));
            drop(file(name, name));
            drop(data(name, Compression::Zstd, true));
            drop(verified(name, Timestamp::MIN));
            (parse_manifest(name), parse_record(name), parse_data(name))
                .0
                .is_some()
        });
    }
}
