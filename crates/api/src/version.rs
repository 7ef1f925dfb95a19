//! etcd releases: parsing, and what each line can and cannot do.

use std::fmt;

/// A release of etcd 3, such as 3.6.16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EtcdVersion {
    /// The line: 5, 6 or 7.
    pub minor: u8,
    /// The patch.
    pub patch: u16,
}

impl EtcdVersion {
    /// The newest release of the line that the predecessor defaulted to.
    pub const DEFAULT: Self = Self {
        minor: 5,
        patch: 35,
    };
    /// Lines we run.
    pub const SUPPORTED_MINORS: [u8; 3] = [5, 6, 7];

    /// Reads `3.6.16` or `v3.6.16`.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix("3.")?;
        let (minor, patch) = rest.split_once('.')?;
        Some(Self {
            minor: minor.parse().ok()?,
            patch: patch.parse().ok()?,
        })
    }

    /// `/livez` and `/readyz` exist.
    pub fn has_health_paths(self) -> bool {
        self.minor > 5 || self.patch >= 11
    }

    /// `/readyz` says no on a learner.
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
    fn what_a_line_can_do_depends_on_its_patch() {
        let v = |text| EtcdVersion::parse(text).unwrap();
        assert!(!v("3.5.9").has_health_paths() && v("3.5.11").has_health_paths());
        assert!(!v("3.5.18").keeps_learners_unready() && v("3.5.19").keeps_learners_unready());
        assert!(!v("3.5.35").allows_many_learners() && v("3.6.0").allows_many_learners());
    }
}
