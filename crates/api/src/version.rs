//! etcd releases: parsing, what each minor version can and cannot do, and the upgrade path from one release to another.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

/// A release of etcd 3, such as 3.6.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EtcdVersion {
    /// The minor version: 5, 6 or 7.
    pub minor: u8,
    /// The patch.
    pub patch: u16,
}

/// Why a cluster cannot go from one release to another at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "etcd cannot go from v{from} to v{to} at once: first go to v{first}, or set spec.upgrade.allowIntermediate: true"
)]
pub struct PathRefused {
    /// Where it is.
    pub from: EtcdVersion,
    /// Where it should go.
    pub to: EtcdVersion,
    /// The release between.
    pub first: EtcdVersion,
}

impl EtcdVersion {
    /// The latest patch of the minor version that the predecessor defaulted to.
    pub const DEFAULT: Self = Self {
        minor: 5,
        patch: 35,
    };
    /// Supported minor versions.
    pub const SUPPORTED_MINORS: [u8; 3] = [5, 6, 7];
    /// The latest patch of each minor version, oldest first.
    pub const NEWEST: [Self; 3] = [
        Self::DEFAULT,
        Self {
            minor: 6,
            patch: 16,
        },
        Self { minor: 7, patch: 3 },
    ];

    /// Reads `3.6.16` or `v3.6.16`.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix("3.")?;
        let (minor, patch) = rest.split_once('.')?;
        Some(Self {
            minor: minor.parse().ok()?,
            patch: patch.parse().ok()?,
        })
    }

    /// The latest patch of a minor version.
    pub fn newest(minor: u8) -> Option<Self> {
        Self::NEWEST
            .into_iter()
            .find(|newest| newest.minor == minor)
    }

    /// The release to run next on the way from this one to another; `walk` permits releases between.
    ///
    /// etcd is upgraded one minor version at a time, and only from a patch whose data the next one reads: from 3.5.32
    /// (3.5.26 repairs the member list, the later ones what that repair missed) and from 3.6.11. Within a minor version
    /// any patch may follow any other. Downgrades use etcd's own protocol, one minor version at a time as well.
    pub fn next_hop(self, to: Self, walk: bool) -> Result<Self, PathRefused> {
        let is_far = to.minor.abs_diff(self.minor) > 1;
        let between = match self.minor.cmp(&to.minor) {
            Ordering::Less if self.patch < self.floor() => Self::newest(self.minor),
            Ordering::Less if is_far => Self::newest(self.minor.saturating_add(1)),
            Ordering::Greater if is_far => Self::newest(self.minor.saturating_sub(1)),
            Ordering::Less | Ordering::Equal | Ordering::Greater => None,
        };
        match between {
            None => Ok(to),
            Some(first) if walk => Ok(first),
            Some(first) => Err(PathRefused {
                from: self,
                to,
                first,
            }),
        }
    }

    /// Lowest patch of this minor version from which the next one may be reached.
    fn floor(self) -> u16 {
        match self.minor {
            5 => 32,
            6 => 11,
            _no_minor_above => 0,
        }
    }

    /// `--experimental-compact-hash-check-enabled` exists; earlier releases exit when they are given a flag they do not know.
    pub fn compares_hashes_at_compactions(self) -> bool {
        self.minor > 5 || self.patch >= 5
    }

    /// `/livez` and `/readyz` exist.
    pub fn has_health_paths(self) -> bool {
        self.minor > 5 || self.patch >= 11
    }

    /// The flag with which a member does not look up who dials it, and goes by the name in its certificate alone.
    pub fn skip_peer_lookup_flag(self) -> &'static str {
        if self.minor > 5 {
            "peer-skip-client-san-verification"
        } else {
            "experimental-peer-skip-client-san-verification"
        }
    }

    /// `/readyz` fails on a learner.
    pub fn keeps_learners_unready(self) -> bool {
        self.minor > 5 || self.patch >= 19
    }

    /// `--max-learners` exists, so that several learners may catch up at once.
    pub fn allows_many_learners(self) -> bool {
        self.minor >= 6
    }
}

impl fmt::Display for EtcdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.{}.{}", self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same_release() {
        assert_eq!(EtcdVersion::parse("v3.5.21"), EtcdVersion::parse("3.5.21"));
        assert_eq!(
            EtcdVersion::parse("3.6.16"),
            Some(EtcdVersion {
                minor: 6,
                patch: 16
            })
        );
        for wrong in ["", "3", "3.6", "4.0.0", "3.6.x", "vv3.6.1", "3.6.1.1"] {
            assert_eq!(EtcdVersion::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_way_to_another_release_goes_minor_by_minor_and_from_patches_that_can() {
        let v = |text| EtcdVersion::parse(text).unwrap();
        // From, to, the next release without and with releases between.
        for (from, to, alone, walking) in [
            ("3.5.9", "3.5.35", Some("3.5.35"), "3.5.35"),
            ("3.5.35", "3.5.9", Some("3.5.9"), "3.5.9"),
            ("3.6.16", "3.6.16", Some("3.6.16"), "3.6.16"),
            ("3.5.32", "3.6.16", Some("3.6.16"), "3.6.16"),
            ("3.5.31", "3.6.16", None, "3.5.35"),
            ("3.5.26", "3.6.16", None, "3.5.35"),
            ("3.6.11", "3.7.3", Some("3.7.3"), "3.7.3"),
            ("3.6.10", "3.7.3", None, "3.6.16"),
            ("3.5.35", "3.7.3", None, "3.6.16"),
            ("3.5.21", "3.7.3", None, "3.5.35"),
            ("3.7.3", "3.6.16", Some("3.6.16"), "3.6.16"),
            ("3.7.0", "3.6.1", Some("3.6.1"), "3.6.1"),
            ("3.6.1", "3.5.9", Some("3.5.9"), "3.5.9"),
            ("3.7.3", "3.5.35", None, "3.6.16"),
        ] {
            let case = format!("{from} to {to}");
            assert_eq!(v(from).next_hop(v(to), false).ok(), alone.map(v), "{case}");
            assert_eq!(v(from).next_hop(v(to), true), Ok(v(walking)), "{case}");
        }
    }

    #[test]
    fn a_walk_always_arrives() {
        let v = |text| EtcdVersion::parse(text).unwrap();
        for from in ["3.5.3", "3.5.35", "3.6.0", "3.6.16", "3.7.0", "3.7.3"].map(v) {
            for to in ["3.5.9", "3.5.35", "3.6.2", "3.6.16", "3.7.3"].map(v) {
                let mut at = from;
                for _ in 0..3 {
                    at = at.next_hop(to, true).unwrap();
                }
                assert_eq!(at, to, "from {from}");
            }
        }
    }

    #[test]
    fn a_refused_way_says_what_to_write() {
        let v = |text| EtcdVersion::parse(text).unwrap();
        let refused = v("3.5.35").next_hop(v("3.7.3"), false).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "etcd cannot go from v3.5.35 to v3.7.3 at once: first go to v3.6.16, or set spec.upgrade.allowIntermediate: true"
        );
    }

    #[test]
    fn what_a_minor_version_can_do_depends_on_its_patch() {
        let v = |text| EtcdVersion::parse(text).unwrap();
        assert!(!v("3.5.9").has_health_paths() && v("3.5.11").has_health_paths());
        assert!(!v("3.5.18").keeps_learners_unready() && v("3.5.19").keeps_learners_unready());
        assert!(!v("3.5.35").allows_many_learners() && v("3.6.0").allows_many_learners());
    }
}
