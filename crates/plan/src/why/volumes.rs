//! Volumes that grow.

use std::fmt;

use api::Reason;

use super::Why;

/// Why, where volumes grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volumes {
    /// This claim is asked for this size.
    Expanding(String, String),
    /// A claim grows while something else is waited for, whose reason counts.
    Meanwhile {
        /// The first.
        growth: Box<Why>,
        /// The second.
        wait: Box<Why>,
    },
    /// The StorageClass of a claim does not allow it.
    NotExpandable(Small),
    /// The StorageClass of a claim does not exist.
    NoClass(Small),
    /// The StatefulSet is recreated with larger claim templates.
    RecreatesSet,
    /// A volume does not have the size of its claim yet.
    Growing {
        /// So many have.
        done: usize,
        /// Of so many.
        all: usize,
        /// Bytes that are asked for.
        wanted: u64,
        /// The claim of the volume.
        claim: String,
        /// Bytes that it has.
        has: u64,
    },
    /// Every volume has so many bytes.
    Grown(u64),
}

/// A claim that is smaller than is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Small {
    /// Its name.
    pub claim: String,
    /// Its StorageClass, where it names one.
    pub class: Option<String>,
    /// The size that is asked for.
    pub size: String,
}

impl Small {
    fn class(&self) -> &str {
        self.class.as_deref().unwrap_or("the default class")
    }
}

impl Volumes {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Expanding(..) | Self::RecreatesSet | Self::Growing { .. } | Self::Grown(_) => {
                Reason::ExpandingVolumes
            }
            Self::Meanwhile { wait, .. } => wait.reason(),
            Self::NotExpandable(_) | Self::NoClass(_) => Reason::ChangeRefused,
        }
    }
}

impl fmt::Display for Volumes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expanding(claim, size) => write!(out, "expanding {claim} to {size}"),
            Self::Meanwhile { growth, .. } => growth.fmt(out),
            Self::NotExpandable(small) => write!(
                out,
                "spec.storage.size is {}, but {}, the StorageClass of {}, does not allow volume expansion: set allowVolumeExpansion: true there, or revert the change",
                small.size,
                small.class(),
                small.claim
            ),
            Self::NoClass(small) => write!(
                out,
                "spec.storage.size is {}, but {}, the StorageClass of {}, does not exist, so it is not known whether it allows volume expansion: recreate it, or revert the change",
                small.size,
                small.class(),
                small.claim
            ),
            Self::RecreatesSet => out.write_str(
                "the StatefulSet is recreated with larger claim templates; its pods keep running",
            ),
            Self::Growing {
                done,
                all,
                wanted,
                claim,
                has,
            } => write!(
                out,
                "{done} of {all} volumes have {}: waiting for {claim}, which has {}",
                human(*wanted),
                human(*has)
            ),
            Self::Grown(size) => write!(out, "every volume has {}", human(*size)),
        }
    }
}

/// A size as people write it.
fn human(bytes: u64) -> String {
    let whole = [(1_u64 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi")];
    let unit = whole
        .into_iter()
        .find(|(unit, _)| bytes.is_multiple_of(*unit) && bytes > 0);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, name)| format!("{}{name}", bytes / unit),
    )
}
