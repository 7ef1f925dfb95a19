//! What is printed, as plain data: made from objects by pure functions, shown as text by the views, and as JSON as it is. Its
//! fields are documented in `docs/reference/cli-output.md`, and change only with the version.

mod cluster;
mod timeline;
mod versions;

use serde::Serialize;

pub use cluster::{ClusterReport, ConditionReport, MemberReport, Standing, is_paused, report};
pub use timeline::{Happening, Subject, subjects, timeline};
pub use versions::{Installed, OperatorReport, VersionReport, crd_version, versions};

/// Version of all that is printed as JSON and YAML.
pub const VERSION: &str = "cli.etcd.etcd.io/v1";

/// A list of one kind of report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List<'a, T> {
    /// [`VERSION`].
    pub api_version: &'static str,
    /// What is in it.
    pub kind: &'static str,
    /// All of it.
    pub items: &'a [T],
}

impl<'a, T> List<'a, T> {
    /// Of these.
    pub fn of(kind: &'static str, items: &'a [T]) -> Self {
        Self {
            api_version: VERSION,
            kind,
            items,
        }
    }
}
