//! Clusters whose certificates come from Secrets of the user's.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::secrets::entry;
use e2e::{Cluster, LIMIT, Load, MINUTE, Played, Stage, comes_true, story, until};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use serde_json::json;

/// As a user would make it, with a wildcard for the members.
fn pair(authority: &Authority, namespace: &str) -> Result<Pair> {
    let names = [
        format!("*.c-peer.{namespace}.svc"),
        format!("c-peer.{namespace}.svc"),
        format!("c-client.{namespace}.svc"),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
    ];
    let leaf = Leaf {
        common_name: "etcd".to_owned(),
        names: names.into(),
        usages: vec![Usage::Server, Usage::Client],
        validity: authority.validity(),
    };
    Ok(authority.issue(&leaf)?)
}

fn data(pair: &Pair, authority: &Authority) -> BTreeMap<String, ByteString> {
    let of = |key: &str, text: &str| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
    let key = pair.key.expose();
    [
        of("tls.crt", &pair.chain),
        of("tls.key", key),
        of("ca.crt", authority.certificate()),
    ]
    .into()
}

/// What the members show is this certificate.
async fn shows(stage: &Stage, pair: &Pair) -> Result<bool> {
    let secret = stage.api::<Secret>().get("c-tls").await?;
    Ok(entry(&secret, "c-0.server.crt")? == pair.chain)
}

async fn change(stage: &Stage, data: BTreeMap<String, ByteString>) -> Result<()> {
    let patch = Patch::Merge(json!({"data": data}));
    let secrets = stage.api::<Secret>();
    let params = PatchParams::default();
    secrets.patch("mine", &params, &patch).await.map(drop)?;
    Ok(())
}

async fn uids(cluster: &Cluster) -> Result<Vec<Option<String>>> {
    let pods = cluster.pods().await?;
    Ok(pods.into_values().map(|pod| pod.metadata.uid).collect())
}

/// A cluster with certificates that come later than its object.
async fn begin(stage: &Stage, given: BTreeMap<String, ByteString>) -> Result<Cluster> {
    let tls = json!({"certificateSecret": "mine"});
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}, "security": {"tls": tls}});
    let cluster = stage.create("c", spec).await?;
    let words = ["Secret mine does not exist"];
    cluster.complains_within(MINUTE, "Degraded", &words).await?;
    let mut mine = Secret {
        data: Some(given),
        ..Secret::default()
    };
    mine.metadata.name = Some("mine".to_owned());
    let secrets = stage.api::<Secret>();
    secrets.create(&PostParams::default(), &mine).await?;
    cluster.ready_within(MINUTE * 2).await?;
    comes_true(&cluster, 3, "3.6.16").await?;
    let exec = ["exec", "c-1", "-c", "etcd", "--", "etcdctl"];
    let put = [&exec[..], &["put", "hello", "world"]].concat();
    stage.commands.kubectl(&put).await?.accepted()?;
    Ok(cluster)
}

#[test]
fn certificates_of_ones_own_are_checked_copied_and_followed() -> Played {
    story(|stage| async move {
        let validity = Validity::starting(Timestamp::now(), SignedDuration::from_hours(24));
        let authority = Authority::new("mine", validity)?;
        let (first, second) = (
            pair(&authority, &stage.namespace)?,
            pair(&authority, &stage.namespace)?,
        );
        let cluster = begin(&stage, data(&first, &authority)).await?;
        ensure!(shows(&stage, &first).await?, "not what was given");
        let (before, load) = (uids(&cluster).await?, Load::start(&cluster).await?);
        // A key of another certificate would break every new connection.
        let mut broken = data(&second, &authority);
        broken.extend(data(&first, &authority).remove_entry("tls.key"));
        change(&stage, broken).await?;
        let words = [
            "Secret mine, key tls.key",
            "the members keep the certificates",
        ];
        cluster
            .complains_within(MINUTE * 2, "Degraded", &words)
            .await?;
        ensure!(shows(&stage, &first).await?, "a bad pair was copied");
        cluster.put("still", "served").await?;
        change(&stage, data(&second, &authority)).await?;
        until("the renewed certificate is shown", MINUTE * 2, || async {
            shows(&stage, &second).await
        })
        .await?;
        cluster.ready_within(MINUTE).await?;
        ensure!(uids(&cluster).await? == before, "a member was restarted");
        // Another authority is trusted by every member before its certificate is shown.
        let other = Authority::new("other", validity)?;
        let third = pair(&other, &stage.namespace)?;
        change(&stage, data(&third, &other)).await?;
        until(
            "the other authority's certificate is shown",
            MINUTE * 4,
            || async { shows(&stage, &third).await },
        )
        .await?;
        cluster.ready_within(MINUTE).await?;
        let after = uids(&cluster).await?;
        ensure!(
            before.iter().all(|uid| !after.contains(uid)),
            "not restarted"
        );
        // A Secret that is gone takes nothing away.
        let secrets = stage.api::<Secret>();
        secrets.delete("mine", &DeleteParams::default()).await?;
        let words = ["Secret mine does not exist", "the members keep"];
        cluster
            .complains_within(MINUTE * 2, "Degraded", &words)
            .await?;
        ensure!(shows(&stage, &third).await?, "it was taken away");
        cluster.put("even", "then").await?;
        load.finish().await?.assert_gap(LIMIT)?;
        ensure!(uids(&cluster).await? == after, "a second restart");
        Ok(())
    })
}
