//! What the Secrets of certificates say of themselves, and what we present to members.

use api::{EtcdCluster, names};
use k8s_openapi::api::core::v1::Secret;
use plan::Observed;
use plan::observed::{Certificates, Issued};

use super::kubernetes::{Belonging, belonging_of, owner};
use crate::certificates::subjects::Subjects;
use crate::certificates::{secrets, sources, vault};
use crate::cluster::place;
use crate::context::Context;

/// Costs nothing where neither the spec nor a pod has TLS.
pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let tls = observed.pods.values().any(|pod| !pod.transport.is_plain());
    if tls {
        vault::refresh(cluster, observed.now, ctx).await;
    }
    if !observed.has_tls() {
        return;
    }
    let Some(target) = &observed.cluster.target else {
        return;
    };
    let (namespace, name) = place(cluster);
    let subjects = Subjects {
        name: &name,
        namespace: &namespace,
        domain: &ctx.domain,
        tls: &target.intent.tls,
    };
    let mut former = Vec::new();
    let mut issued = |secret: String| {
        let live = crate::caches::get(&ctx.caches.secrets, &namespace, &secret);
        let live = live.as_deref();
        if live.is_some_and(|live| belonging_of(live, cluster) == Belonging::Former) {
            former.push(format!("Secret {secret}"));
        }
        describe(live, cluster)
    };
    let members = issued(names::member_secret(&name));
    let shown = members.record();
    let (offered, request) = sources::look(observed, &owner(cluster), &subjects, ctx).await;
    let certificates = Certificates {
        authority: issued(names::authority_secret(&name)),
        clients: issued(names::client_secret(&name)),
        asked_of_members: subjects.asked_of_members(),
        asked_of_clients: subjects.asked_of_clients(shown),
        offered,
        request,
        members,
    };
    observed.certificates = certificates;
    observed.objects.former.extend(former);
}

/// Generation of the authorities that members are to trust; where no Secret tells it, that of the template.
pub(super) fn generation(cluster: &EtcdCluster, ctx: &Context) -> u64 {
    let (namespace, name) = place(cluster);
    let secrets = [names::member_secret(&name), names::client_secret(&name)];
    let told = secrets.into_iter().find_map(|secret| {
        let live = crate::caches::get(&ctx.caches.secrets, &namespace, &secret);
        describe(live.as_deref(), cluster).record().cloned()
    });
    let told = told.map(|record| record.generation());
    told.unwrap_or_else(|| super::template::generation(cluster, ctx))
}

fn describe(live: Option<&Secret>, cluster: &EtcdCluster) -> Issued {
    let Some(live) = live else {
        return Issued::Missing;
    };
    match belonging_of(live, cluster) {
        Belonging::Former | Belonging::Foreign => Issued::Foreign,
        Belonging::Ours => secrets::record(live).map_or(Issued::Altered, Issued::Recorded),
    }
}
