//! What EtcdBackups and their Jobs say of a cluster.

use std::collections::BTreeSet;

use api::v1alpha1::backup::EtcdBackupStatus;
use api::{EtcdCluster, names};
use jiff::Timestamp;
use plan::observed::Backups;

use crate::backup::read_members;
use crate::cluster::observe::accounts::of_cluster;
use crate::cluster::place;
use crate::context::Context;

pub(super) fn look(cluster: &EtcdCluster, ctx: &Context) -> Backups {
    let (namespace, name) = place(cluster);
    let read = read_members(&ctx.caches.jobs, &namespace, &name);
    let read = read
        .iter()
        .filter_map(|member| names::ordinal(&name, member));
    let declared = of_cluster(&ctx.caches.backups, cluster, |it| &it.spec.cluster_name);
    let statuses = declared.into_iter().flatten();
    let statuses: Vec<EtcdBackupStatus> = statuses.filter_map(|backup| backup.status).collect();
    let entries = || statuses.iter().flat_map(|status| &status.backups);
    let damaged = entries().filter(|entry| entry.damaged);
    let damaged: BTreeSet<Timestamp> = damaged.map(|entry| entry.time.0).collect();
    let listed = entries().map(|entry| entry.time.0);
    let completed = statuses.iter();
    let completed = completed.filter_map(|status| Some(status.completion_time.as_ref()?.0));
    let counts = |time: &Timestamp| !damaged.contains(time);
    Backups {
        read: read.collect(),
        newest: listed.chain(completed).filter(counts).max(),
        damaged,
    }
}
