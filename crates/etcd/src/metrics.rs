//! What etcd counts of itself: a few numbers out of its metrics, which it tells from the moment it runs, whether or not
//! it serves clients. What a release does not tell is absent.

use std::time::Duration;

use http::StatusCode;

use crate::connect::{Connect, Target};
use crate::error::{Cause, Error};
use crate::http::get;
use crate::pool::Security;

/// A page has some hundred kilobytes.
const LIMIT: usize = 8 * 1024 * 1024;

/// The few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Last index it applied.
    pub applied: Option<u64>,
    /// It follows a leader, or leads.
    pub has_leader: Option<bool>,
    /// Snapshots that it receives or applies, and defragmentations, at present.
    pub busy: u64,
    /// Writes to the log that have ended (`etcd_disk_wal_fsync_duration_seconds`).
    pub log: Option<Ended>,
    /// Commits of the database that have ended (`etcd_disk_backend_commit_duration_seconds`).
    pub database: Option<Ended>,
    /// Rises with every change of a user or role (`etcd_debugging_auth_revision`).
    pub auth_revision: Option<u64>,
}

/// What has ended since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How often.
    pub count: u64,
    /// How long it took, all together.
    pub took: Duration,
}

/// What must be zero where nothing but raft keeps a member busy.
const BUSY: [&str; 3] = [
    "etcd_network_snapshot_receive_inflights_total",
    "etcd_server_snapshot_apply_in_progress_total",
    "etcd_disk_defrag_inflight",
];

/// Asks `GET /metrics` of a pod, over a connection of its own. Where it is secured, on the secure port.
pub async fn metrics(
    connect: &dyn Connect,
    target: &Target,
    security: &Security,
    deadline: Duration,
) -> Result<Metrics, Error> {
    let answer = get(connect, target, security, ("/metrics", LIMIT), deadline).await;
    let parsed = answer.and_then(|(status, body)| match status {
        StatusCode::OK => Ok(parse(&String::from_utf8_lossy(&body))),
        status => Err(Cause::BadAnswer {
            detail: format!("HTTP status {status}"),
        }),
    });
    parsed.map_err(|cause| Error::new("metrics", target, cause))
}

pub(crate) fn parse(page: &str) -> Metrics {
    let whole = |name: &str| value(page, name).map(|value| value.as_secs());
    let ended = |name: &str| {
        Some(Ended {
            count: whole(&format!("{name}_count"))?,
            took: value(page, &format!("{name}_sum"))?,
        })
    };
    Metrics {
        applied: whole("etcd_server_proposals_applied_total"),
        has_leader: whole("etcd_server_has_leader").map(|led| led == 1),
        busy: BUSY.iter().filter_map(|name| whole(name)).sum(),
        log: ended("etcd_disk_wal_fsync_duration_seconds"),
        database: ended("etcd_disk_backend_commit_duration_seconds"),
        auth_revision: whole("etcd_debugging_auth_revision"),
    }
}

/// The sum over all series of this name. A number may be written as `1.2e+06`; a duration holds it without loss, be it
/// seconds or a count.
fn value(page: &str, name: &str) -> Option<Duration> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = match rest.strip_prefix('{') {
            Some(labelled) => labelled.rsplit_once("} ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        let number: f64 = rest.trim().parse().ok()?;
        Duration::try_from_secs_f64(number).ok()
    });
    values.reduce(Duration::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_found_among_all_the_others() {
        let page = "# HELP etcd_disk_wal_fsync_duration_seconds The latency.\n\
            etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"} 7\n\
            etcd_disk_wal_fsync_duration_seconds_sum 25.5\n\
            etcd_disk_wal_fsync_duration_seconds_count 5\n\
            etcd_disk_wal_fsync_duration_seconds_count_of_others 9\n\
            etcd_server_has_leader 1\n\
            etcd_server_proposals_applied_total 1.234567e+06\n\
            etcd_network_snapshot_receive_inflights_total{From=\"a {b} \"} 1\n\
            etcd_network_snapshot_receive_inflights_total{From=\"c\"} 2\n\
            etcd_debugging_auth_revision 8\n\
            etcd_disk_defrag_inflight 0\n";
        let log = Ended {
            count: 5,
            took: Duration::from_millis(25_500),
        };
        let expected = Metrics {
            applied: Some(1_234_567),
            has_leader: Some(true),
            busy: 3,
            log: Some(log),
            database: None,
            auth_revision: Some(8),
        };
        assert_eq!(parse(page), expected);
        assert_eq!(parse("not a page"), Metrics::default());
    }
}
