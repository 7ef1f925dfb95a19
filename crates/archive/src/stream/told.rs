//! What etcd says of itself in a file, beside the keys: how far it compacted, which minor version wrote the file, and whether
//! it asked its users who they are.

use super::bolt::{Page, revision_at};

/// The buckets in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Meta,
    Cluster,
    Auth,
}

impl Of {
    pub(super) const ALL: [Self; 3] = [Self::Meta, Self::Cluster, Self::Auth];

    pub(super) fn named(bucket: &[u8]) -> Option<Self> {
        match bucket {
            b"meta" => Some(Self::Meta),
            b"cluster" => Some(Self::Cluster),
            b"auth" => Some(Self::Auth),
            _other => None,
        }
    }
}

/// What is said. A name that means something in one bucket may be anything in another: see [`Told::only`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The revision up to which history is, or is about to be, compacted away: etcd finishes after a restore what was
    /// scheduled.
    pub(super) compacted: u64,
    /// Version of the data; etcd 3.6 and later write it.
    storage: Option<Version>,
    /// Version that all members of the cluster spoke.
    cluster: Option<Version>,
    /// Users were asked who they are.
    pub(super) auth: Option<bool>,
}

/// As etcd writes one: major, minor, and a patch that is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u16, u16, u16);

impl std::fmt::Display for Version {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let version = Self(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }
}

impl Told {
    /// What the rows of a leaf say, whichever bucket they are of.
    pub(super) fn read(page: Page<'_>) -> Self {
        let mut told = Self::default();
        let leaves = (0..page.count).map_while(|index| page.leaf(index));
        let rows = leaves.filter(|leaf| !leaf.is_bucket);
        for (key, value) in rows.filter_map(|leaf| page.entry(leaf)) {
            match key {
                b"finishedCompactRev" | b"scheduledCompactRev" => {
                    let revision = revision_at(value, 0).filter(|it| *it < super::tree::EMPTY);
                    told.compacted = told.compacted.max(revision.unwrap_or(0));
                }
                b"storageVersion" => told.storage = Version::parse(value),
                b"clusterVersion" => told.cluster = Version::parse(value),
                b"authEnabled" => told.auth = Some(value == [1]),
                _other => {}
            }
        }
        told
    }

    /// What counts of it, if it was in this bucket.
    pub(super) fn only(self, of: Of) -> Self {
        let nothing = Self::default();
        match of {
            Of::Meta => Self {
                compacted: self.compacted,
                storage: self.storage,
                ..nothing
            },
            Of::Cluster => Self {
                cluster: self.cluster,
                ..nothing
            },
            Of::Auth => Self {
                auth: self.auth,
                ..nothing
            },
        }
    }

    /// Both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            compacted: self.compacted.max(other.compacted),
            storage: self.storage.max(other.storage),
            cluster: self.cluster.max(other.cluster),
            auth: self.auth.max(other.auth),
        }
    }

    /// The version that an etcd must have at least to start on it. Both count: etcd compares itself with either.
    pub(super) fn version(&self) -> Option<Version> {
        self.storage.max(self.cluster)
    }
}
