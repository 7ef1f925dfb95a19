//! How every cluster is: from its status, and what its status does not say from the last look.

use std::fmt;
use std::sync::Arc;

use api::v1alpha1::status::CertificateStatus;
use api::{EtcdCluster, EtcdClusterStatus};
use jiff::Timestamp;
use kube::runtime::reflector::Store;
use prometheus_client::encoding::DescriptorEncoder;
use signals::Metric;
use signals::metrics::cluster;

use super::page::{Lines, begin};
use crate::board::{Board, Database, Seen};
use crate::caches::Guarded;

/// A cluster, and what was last seen of it.
struct Row {
    object: Arc<Guarded>,
    seen: Option<Seen>,
}

/// A cluster that can be read.
struct Told<'a> {
    cluster: &'a EtcdCluster,
    status: Option<&'a EtcdClusterStatus>,
    seen: Option<Seen>,
}

/// Writes one metric of one cluster.
type Tell = fn(&mut Lines<'_>, &Told<'_>) -> fmt::Result;

const FAMILIES: [(&Metric, Tell); 15] = [
    (&cluster::SIZE, |lines, told| {
        number(lines, told, told.cluster.spec.size)
    }),
    (&cluster::VOTERS, |lines, told| {
        number(lines, told, told.voters())
    }),
    (&cluster::HEALTHY_VOTERS, |lines, told| {
        number(lines, told, told.status.and_then(|it| it.ready_replicas))
    }),
    (&cluster::HEALTH, |lines, told| {
        number(lines, told, told.serves().map(i64::from))
    }),
    (&cluster::PHASE, phase),
    (&cluster::CONDITION, conditions),
    (&cluster::UNAVAILABLE, |lines, told| {
        number(lines, told, told.unavailable().map(Timestamp::as_second))
    }),
    (&cluster::INFO, info),
    (&cluster::DB_SIZE, |lines, told| {
        number(lines, told, told.database().map(|it| it.size))
    }),
    (&cluster::DB_IN_USE, |lines, told| {
        number(lines, told, told.database().map(|it| it.in_use))
    }),
    (&cluster::DB_QUOTA, |lines, told| {
        number(lines, told, told.database().and_then(|it| it.quota))
    }),
    (&cluster::LAG, |lines, told| {
        let lag = told.seen.and_then(|seen| seen.lag);
        number(lines, told, lag.filter(|_| told.unavailable().is_none()))
    }),
    (&cluster::LOOKED, |lines, told| {
        number(lines, told, told.seen.map(|seen| seen.at.as_second()))
    }),
    (&cluster::CERTIFICATE_EXPIRES, |lines, told| {
        number(lines, told, told.certificates().map(expires))
    }),
    (&cluster::CERTIFICATE_RENEWAL, |lines, told| {
        let renewal = told.certificates().map(|it| it.renewal_time.0.as_second());
        number(lines, told, renewal)
    }),
];

/// All of them.
pub(super) fn tell(
    encoder: &mut DescriptorEncoder<'_>,
    stores: &[(Store<Guarded>, Arc<Board>)],
) -> fmt::Result {
    let mut rows = Vec::new();
    for (store, board) in stores {
        rows.extend(store.state().into_iter().map(|object| {
            let uid = object.0.as_ref().ok();
            let uid = uid.and_then(|cluster| cluster.metadata.uid.as_deref());
            let seen = uid.and_then(|uid| board.get(uid));
            Row { object, seen }
        }));
    }
    rows.sort_by(|one, other| place(one).cmp(&place(other)));
    for (metric, tell) in FAMILIES {
        let mut lines = begin(encoder, metric)?;
        for row in &rows {
            if let Ok(cluster) = &row.object.0 {
                let told = Told {
                    cluster,
                    status: cluster.status.as_ref(),
                    seen: row.seen,
                };
                tell(&mut lines, &told)?;
            }
        }
    }
    Ok(())
}

fn place(row: &Row) -> Option<[&str; 2]> {
    Some(labels(row.object.0.as_ref().ok()?))
}

fn labels(cluster: &EtcdCluster) -> [&str; 2] {
    let meta = &cluster.metadata;
    [&meta.namespace, &meta.name].map(|it| it.as_deref().unwrap_or_default())
}

impl Told<'_> {
    fn place(&self) -> [&str; 2] {
        labels(self.cluster)
    }

    fn unavailable(&self) -> Option<Timestamp> {
        let since = self.status?.unavailable_since.as_ref();
        since.map(|since| since.0)
    }

    /// Whether a quorum is known to serve; `None` where none is asked for, or there never was one.
    fn serves(&self) -> Option<bool> {
        if self.unavailable().is_some() {
            return Some(false);
        }
        let mut conditions = self.status?.conditions.iter();
        let available = conditions.find(|it| it.type_ == "Available")?;
        let expected = ["Stopped", "NotFormed"].contains(&available.reason.as_str());
        (!expected && available.status != "Unknown").then_some(true)
    }

    /// Where no look of this operator has listed them, as the operator before recorded them.
    fn voters(&self) -> Option<u64> {
        self.serves()?;
        let recorded = || {
            let memory = self.status?.memory.as_ref()?;
            let count = u64::try_from(memory.voters.len()).ok();
            count.filter(|count| *count > 0)
        };
        self.seen.and_then(|seen| seen.voters).or_else(recorded)
    }

    fn database(&self) -> Option<Database> {
        self.seen?.database
    }

    fn certificates(&self) -> Option<&CertificateStatus> {
        self.status?.certificates.as_ref()
    }
}

/// The first of them.
fn expires(certificates: &CertificateStatus) -> i64 {
    let authority = certificates.authority_not_after.as_ref();
    let ends = std::iter::once(&certificates.not_after).chain(authority);
    let first = ends.map(|end| end.0.as_second()).min();
    first.unwrap_or_default()
}

/// One number, where it is known.
fn number<T: TryInto<i64>>(
    lines: &mut Lines<'_>,
    told: &Told<'_>,
    value: Option<T>,
) -> fmt::Result {
    match value {
        Some(value) => lines.gauge(&told.place(), value.try_into().unwrap_or(i64::MAX)),
        None => Ok(()),
    }
}

fn phase(lines: &mut Lines<'_>, told: &Told<'_>) -> fmt::Result {
    let [namespace, name] = told.place();
    match told.status.and_then(|status| status.phase) {
        Some(phase) => lines.gauge(&[namespace, name, &format!("{phase:?}")], 1_i64),
        None => Ok(()),
    }
}

fn conditions(lines: &mut Lines<'_>, told: &Told<'_>) -> fmt::Result {
    let [namespace, name] = told.place();
    // What others wrote into the status makes the page no longer.
    let known = ["Available", "Progressing", "Degraded", "Ready"];
    let conditions = told.status.map(|status| status.conditions.as_slice());
    for kind in known {
        let mut conditions = conditions.unwrap_or_default().iter();
        let Some(condition) = conditions.find(|it| it.type_ == kind) else {
            continue;
        };
        let value = match condition.status.as_str() {
            "True" => 1_i64,
            "False" => 0,
            _unknown => -1,
        };
        lines.gauge(&[namespace, name, kind, &condition.reason], value)?;
    }
    Ok(())
}

fn info(lines: &mut Lines<'_>, told: &Told<'_>) -> fmt::Result {
    let [namespace, name] = told.place();
    let version = told.status.and_then(|status| status.version.as_deref());
    let wanted = told.seen.and_then(|seen| seen.wanted);
    let wanted = wanted.map_or_else(String::new, |wanted| wanted.to_string());
    let labels = [namespace, name, version.unwrap_or_default(), &wanted];
    lines.gauge(&labels, 1_i64)
}
