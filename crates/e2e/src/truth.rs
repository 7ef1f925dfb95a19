//! Whether the status tells the truth: every field of it, against the members themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::status::{EtcdClusterStatus, MemberStatus, Phase, Role};
use api::{Transport, labels, names};
use etcd::{Consistency, MemberList, Status};

use crate::cluster::Cluster;
use crate::secrets;
use crate::wait::until;

/// Three health rounds.
const ROUNDS: Duration = Duration::from_secs(30);

/// Compares the status of a settled cluster with what its members say.
pub async fn check_truth(cluster: &Cluster, size: u32, version: &str) -> Result<()> {
    let status = cluster.status().await?;
    ensure!(
        status.remembered().lineage.incarnation == Some(1),
        "incarnation {:?}",
        status.remembered().lineage.incarnation
    );
    check_truth_of_any_incarnation(cluster, size, version).await
}

/// The same where the data may have started over.
pub async fn check_truth_of_any_incarnation(
    cluster: &Cluster,
    size: u32,
    version: &str,
) -> Result<()> {
    let object = cluster.get().await?;
    let status = object.status.clone().context("no status")?;
    let said = ask(cluster).await?;
    let list = cluster
        .any_member()
        .await?
        .member_list(Consistency::Linearizable)
        .await?;
    let size = usize::try_from(size)?;
    ensure!(
        said.len() == size && list.members.len() == size,
        "{} answer and {} are listed, not {size}",
        said.len(),
        list.members.len()
    );
    let pods = cluster.pods().await?;
    let transport = pods.values().next().map(secrets::transport);
    let transport = transport.unwrap_or_default();
    check_members(cluster, &status, &said, (&list, transport))?;
    check_fields(cluster, &status, &said, (version, transport))?;
    ensure!(status.observed_generation == object.metadata.generation);
    for (kind, expected) in [
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
        ("Ready", "True"),
    ] {
        let condition = cluster.condition(kind).await?;
        ensure!(
            condition.status == expected && !condition.message.is_empty(),
            "{kind} is {} ({})",
            condition.status,
            condition.message
        );
        ensure!(condition.observed_generation == object.metadata.generation);
    }
    Ok(())
}

/// The same after a disturbance, of which the operator may learn in its next health round only.
pub async fn comes_true(cluster: &Cluster, size: u32, version: &str) -> Result<Duration> {
    let what = format!("the status of {} tells the truth", cluster.name);
    until(what, ROUNDS, || async {
        check_truth(cluster, size, version).await?;
        Ok(true)
    })
    .await
}

async fn ask(cluster: &Cluster) -> Result<BTreeMap<String, Status>> {
    let mut said = BTreeMap::new();
    for (name, member) in cluster.members().await? {
        let status = member.status().await?;
        ensure!(
            status.errors.is_empty(),
            "{name} reports {:?}",
            status.errors
        );
        said.insert(name, status);
    }
    Ok(said)
}

fn check_members(
    cluster: &Cluster,
    status: &EtcdClusterStatus,
    said: &BTreeMap<String, Status>,
    (list, transport): (&MemberList, Transport),
) -> Result<()> {
    ensure!(
        status.members.len() == said.len(),
        "members[] has {} entries",
        status.members.len()
    );
    for member in &status.members {
        check_member(cluster, member, said, (list, transport))?;
    }
    Ok(())
}

fn check_member(
    cluster: &Cluster,
    member: &MemberStatus,
    said: &BTreeMap<String, Status>,
    (list, transport): (&MemberList, Transport),
) -> Result<()> {
    let name = &member.name;
    let live = said
        .get(name)
        .with_context(|| format!("{name} does not exist"))?;
    let listed = list
        .members
        .iter()
        .find(|listed| listed.id == live.member_id)
        .with_context(|| format!("etcd does not list {name}"))?;
    let ordinal = names::ordinal(&cluster.name, name).context("an odd name")?;
    let namespace = &cluster.stage.namespace;
    let leads = live.leader == live.member_id;
    ensure!(
        !listed.is_learner && listed.name == *name,
        "{name} is listed as {listed:?}"
    );
    ensure!(
        member.id == Some(format!("{:x}", live.member_id)),
        "{name}: id {:?}",
        member.id
    );
    ensure!(
        is_peer_url(cluster, transport, member.peer_url.as_deref(), ordinal)
            && listed.peer_urls.first() == member.peer_url.as_ref(),
        "{name}: peerURL {:?}",
        member.peer_url
    );
    ensure!(
        member.client_url
            == Some(names::client_url(
                transport.client.scheme(),
                &cluster.name,
                namespace,
                ordinal
            ))
            && listed.client_urls.first() == member.client_url.as_ref(),
        "{name}: clientURL {:?}",
        member.client_url
    );
    ensure!(
        member.role == Some(if leads { Role::Leader } else { Role::Follower }),
        "{name}: role {:?}",
        member.role
    );
    ensure!(
        member.version.as_ref() == Some(&live.version),
        "{name}: version {:?}",
        member.version
    );
    ensure!(
        member.ready && member.message.is_none(),
        "{name}: {:?}",
        member.message
    );
    Ok(())
}

/// As we write it, or as the earlier operator did, whose members keep theirs.
fn is_peer_url(cluster: &Cluster, transport: Transport, url: Option<&str>, ordinal: u32) -> bool {
    let namespace = &cluster.stage.namespace;
    let ours = names::peer_url(transport.peer.scheme(), &cluster.name, namespace, ordinal);
    let theirs = ours.replace(".svc:", ".svc.cluster.local:");
    url.is_some_and(|url| url == ours || url == theirs)
}

fn check_fields(
    cluster: &Cluster,
    status: &EtcdClusterStatus,
    said: &BTreeMap<String, Status>,
    (version, transport): (&str, Transport),
) -> Result<()> {
    let size = i32::try_from(said.len())?;
    let one = said.values().next().context("no member answers")?;
    ensure!(
        said.values()
            .all(|live| live.cluster_id == one.cluster_id && live.leader == one.leader),
        "the members are not one cluster: {said:?}"
    );
    ensure!(
        status.phase == Some(Phase::Running),
        "phase {:?}",
        status.phase
    );
    ensure!(
        status.cluster_id == Some(format!("{:x}", one.cluster_id)),
        "clusterID {:?}",
        status.cluster_id
    );
    ensure!(
        status.leader_id == Some(format!("{:x}", one.leader)),
        "leaderID {:?}",
        status.leader_id
    );
    ensure!(
        status.version.as_deref() == Some(version) && one.version == version,
        "version {:?}",
        status.version
    );
    ensure!(
        status.ready_replicas == Some(size) && status.replicas == Some(size),
        "replicas {:?} of {:?}",
        status.ready_replicas,
        status.replicas
    );
    ensure!(
        status.selector == Some(labels::selector_text(&cluster.name)),
        "selector {:?}",
        status.selector
    );
    let served = transport.client.served().iter();
    let endpoint = |scheme: &names::Scheme| {
        names::client_endpoint(*scheme, &cluster.name, &cluster.stage.namespace)
    };
    ensure!(
        status.client_endpoints == served.map(endpoint).collect::<Vec<_>>(),
        "clientEndpoints {:?}",
        status.client_endpoints
    );
    ensure!(
        status.last_update_time.is_some(),
        "lastUpdateTime is missing"
    );
    Ok(())
}
