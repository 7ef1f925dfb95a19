//! Certificate authorities that follow one another under members that run, from the outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use api::names;
use e2e::secrets::{credentials, entry};
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Stage, comes_true, deep, nothing_leaked, skipped, story,
    tell, until,
};
use etcd::{Credentials, DirectTcp, Pool, Security, Target};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::{Value, json};

fn spec(tls: &Value) -> Value {
    json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}, "security": {"tls": tls}})
}

/// UIDs of the pods, by name.
async fn uids(cluster: &Cluster) -> Result<BTreeMap<String, Option<String>>> {
    let pods = cluster.pods().await?;
    let uids = pods.into_iter().map(|(name, pod)| (name, pod.metadata.uid));
    Ok(uids.collect())
}

/// The newest authority for clients.
async fn authority(stage: &Stage) -> Result<String> {
    entry(&stage.api::<Secret>().get("c-ca").await?, "client.crt")
}

/// Whether a member answers who presents these.
async fn is_answered(stage: &Stage, cluster: &Cluster, with: Credentials) -> Result<bool> {
    let pods = cluster.pods().await?;
    let pod = pods.get("c-0").context("no pod")?;
    let status = pod.status.as_ref();
    let address = status.and_then(|status| status.pod_ip.clone());
    let target = Target {
        namespace: stage.namespace.clone(),
        pod: "c-0".to_owned(),
        address: address.context("no address")?,
    };
    let security = Security::Tls {
        credentials: Arc::new(with),
        name: names::member_host("c", &stage.namespace, 0),
    };
    let pool = Pool::new(Arc::new(DirectTcp));
    Ok(pool.member(&target, &security).status().await.is_ok())
}

/// Waits until every certificate is of the newest authority, which is not `before`, and the key of that is gone.
async fn is_switched(stage: &Stage, before: &str) -> Result<()> {
    until("the authority is another one", MINUTE * 4, || async {
        let secrets = stage.api::<Secret>();
        let Some(ours) = secrets.get_opt("c-ca").await? else {
            return Ok(false);
        };
        let newest = entry(&ours, "client.crt")?;
        ensure!(newest != before, "it is still the first one");
        let pending = entry(&ours, "previous-client.key").is_ok();
        ensure!(!pending, "the key of the one before is still there");
        let shown = entry(&secrets.get("c-tls").await?, "c-0.server.crt")?;
        let wanted = pki::Wanted {
            names: &[],
            usages: &[pki::Usage::Server],
            now: jiff::Timestamp::now(),
        };
        let key = entry(&secrets.get("c-tls").await?, "c-0.server.key")?;
        let pair = pki::Pair {
            chain: shown,
            key: pki::PrivateKey::from_pem(key),
        };
        let checked = pki::check(&pair, &newest, &wanted);
        ensure!(
            checked.is_ok(),
            "members show a certificate of another authority"
        );
        Ok(true)
    })
    .await
    .map(drop)
}

#[test]
fn another_authority_comes_by_one_restart_of_each_member_under_a_writer() -> Played {
    story(|stage| async move {
        let cluster = stage.create("c", spec(&json!({}))).await?;
        cluster.ready_within(MINUTE * 2).await?;
        // What a client copied long ago.
        let old = async || credentials(&stage.client, &stage.namespace, "c").await;
        let first = old().await?;
        let before = uids(&cluster).await?;
        let load = Load::start(&cluster).await?;
        let ca = authority(&stage).await?;
        let patch = json!({"metadata": {"annotations": {"etcd.etcd.io/rotate-ca": "1"}}});
        stage
            .commands
            .patch("c", &patch.to_string())
            .await?
            .accepted()?;
        is_switched(&stage, &ca).await?;
        cluster.ready_within(MINUTE).await?;
        let after = uids(&cluster).await?;
        let kept = before
            .values()
            .filter(|uid| after.values().any(|it| it == *uid));
        ensure!(kept.count() == 0, "a member was not restarted");
        ensure!(
            is_answered(&stage, &cluster, first).await?,
            "an old client is turned away"
        );
        comes_true(&cluster, 3, "3.6.16").await?;
        // No pod is touched again.
        ensure!(uids(&cluster).await? == after, "a second restart");

        // The key of the authority is lost.
        let ca = authority(&stage).await?;
        let secrets = stage.api::<Secret>();
        secrets.delete("c-ca", &DeleteParams::default()).await?;
        is_switched(&stage, &ca).await?;
        cluster.ready_within(MINUTE).await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT)?;
        let last = uids(&cluster).await?;
        let all: BTreeSet<_> = [&before, &after, &last]
            .into_iter()
            .flat_map(|it| it.values())
            .collect();
        ensure!(all.len() == 9, "{all:?}");
        let exec = ["exec", "c-1", "-c", "etcd", "--", "etcdctl", "get", "none"];
        stage.commands.kubectl(&exec).await?.accepted()?;
        nothing_leaked(&stage).await
    })
}

#[test]
fn an_authority_that_lives_five_minutes_is_replaced_in_time_and_one_can_be_revoked() -> Played {
    if !deep() {
        skipped("E2E_DEEP is not set");
        return Ok(());
    }
    story(|stage| async move {
        let tls = json!({"leafLifetimeSeconds": 60, "caLifetimeSeconds": 300});
        let cluster = stage.create("c", spec(&tls)).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let load = Load::start(&cluster).await?;
        let mut ca = authority(&stage).await?;
        for round in 1..=2 {
            until("it is time", MINUTE * 5, || async {
                Ok(authority(&stage).await? != ca)
            })
            .await?;
            is_switched(&stage, &ca).await?;
            ca = authority(&stage).await?;
            tell(&format!("authority {round} was replaced in time"));
        }
        // From now on it is no matter of time.
        let patch = json!({"spec": {"security": {"tls": {"caLifetimeSeconds": 3_000_000, "leafLifetimeSeconds": 300_000}}},
            "metadata": {"annotations": {"etcd.etcd.io/rotate-ca": "long"}}});
        stage
            .commands
            .patch("c", &patch.to_string())
            .await?
            .accepted()?;
        is_switched(&stage, &ca).await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        let old = async || credentials(&stage.client, &stage.namespace, "c").await;
        let (first, second) = (old().await?, old().await?);
        ensure!(
            is_answered(&stage, &cluster, first).await?,
            "a client is turned away"
        );
        let ca = authority(&stage).await?;
        let patch = json!({"metadata": {"annotations": {"etcd.etcd.io/rotate-ca": "revoke-1"}}});
        stage
            .commands
            .patch("c", &patch.to_string())
            .await?
            .accepted()?;
        is_switched(&stage, &ca).await?;
        load.finish().await?.assert_gap(LIMIT)?;
        is_revoked(&stage, &cluster, &ca).await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        let answered = is_answered(&stage, &cluster, second).await?;
        ensure!(!answered, "what was revoked is still accepted");
        Ok(())
    })
}

/// Waits until every pod was started without this authority.
async fn is_revoked(stage: &Stage, cluster: &Cluster, ca: &str) -> Result<()> {
    until("no member trusts the one before", MINUTE * 6, || async {
        let pods = cluster.pods().await?;
        let secret = stage.api::<Secret>().get("c-tls").await?;
        let generation = entry(&secret, "trust")?;
        let trusted = entry(&secret, "client-ca.crt")?;
        let all = pods.values().all(|pod| {
            let annotations = pod.metadata.annotations.as_ref();
            let borne = annotations.and_then(|all| all.get("etcd.etcd.io/trust"));
            borne == Some(&generation)
        });
        Ok(all && !trusted.contains(ca.trim()))
    })
    .await
    .map(drop)
}
