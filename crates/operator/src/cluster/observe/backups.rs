//! What EtcdBackups and their Jobs say of a cluster.

use api::{EtcdCluster, names};
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
    let times = declared.into_iter().flatten().filter_map(|backup| {
        let status = backup.status?;
        Some(status.completion_time?.0)
    });
    Backups {
        read: read.collect(),
        newest: times.max(),
    }
}
