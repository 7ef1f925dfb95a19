//! Clusters with TLS, from the outside: with the Secret that is published for clients, and with what must not get in.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use api::names;
use e2e::secrets::{credentials, entry};
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Stage, check_truth, comes_true, nothing_leaked, story,
    tell, until,
};
use etcd::{
    BoxFuture, BoxStream, Connect, Consistency, Credentials, DirectTcp, Pool, Security, Target,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::DeleteParams;
use serde_json::{Value, json};

fn spec(size: u32, version: &str, tls: &Value) -> Value {
    json!({"size": size, "version": version, "storage": {"size": "1Gi"}, "security": {"tls": tls}})
}

#[test]
fn three_members_with_tls_grow_heal_and_shrink_while_a_client_writes() -> Played {
    story(|stage| async move {
        let cluster = stage.create("c", spec(3, "v3.6.16", &json!({}))).await?;
        cluster.ready_within(MINUTE * 2).await?;
        check_truth(&cluster, 3, "3.6.16").await?;
        let status = cluster.status().await?;
        let issued = status
            .certificates
            .context("status.certificates is missing")?;
        ensure!(issued.client_secret == "c-client-tls", "{issued:?}");
        ensure!(issued.renewal_time.0 < issued.not_after.0, "{issued:?}");
        let_in_only_members_and_clients(&stage, &cluster).await?;
        let exec = ["exec", "c-1", "-c", "etcd", "--", "etcdctl"];
        let put = [&exec[..], &["put", "hello", "world"]].concat();
        stage.commands.kubectl(&put).await?.accepted()?;
        let load = Load::start(&cluster).await?;
        cluster.resize(5).await?;
        cluster.ready_within(MINUTE * 2).await?;
        lose_volume(&stage, &cluster, "c-3").await?;
        cluster.resize(3).await?;
        cluster.ready_within(MINUTE * 2).await?;
        load.finish().await?.assert_gap(LIMIT)?;
        comes_true(&cluster, 3, "3.6.16").await?;
        ensure!(cluster.value("hello").await?.as_deref() == Some("world"));
        cluster
            .has_event("CertificatesIssued", "new certificate authority")
            .await
    })
}

/// The claim and the pod go; another member comes in their place.
async fn lose_volume(stage: &Stage, cluster: &Cluster, member: &str) -> Result<()> {
    let old = cluster.member(member).await?.status().await?.member_id;
    let claims = stage.api::<PersistentVolumeClaim>();
    let claim = format!("data-{member}");
    claims.delete(&claim, &DeleteParams::default()).await?;
    let pods = cluster.pods().await?;
    cluster.kill(pods.get(member).context("no pod")?).await?;
    until(format!("{member} is a new member"), MINUTE * 2, || async {
        let status = cluster.member(member).await?.status().await?;
        Ok(status.member_id != old && !status.is_learner)
    })
    .await?;
    cluster.ready_within(MINUTE).await.map(drop)
}

#[test]
fn each_plane_has_tls_of_its_own_on_3_5_and_3_7() -> Played {
    story(|stage| async move {
        let clients = json!({"peerTLSEnabled": false, "minVersion": "TLS1.3"});
        let peers = json!({"clientTLSEnabled": false});
        let clients = stage.create("a", spec(3, "v3.5.35", &clients)).await?;
        let peers = stage.create("b", spec(3, "v3.7.3", &peers)).await?;
        clients.ready_within(MINUTE * 2).await?;
        peers.ready_within(MINUTE * 2).await?;
        check_truth(&clients, 3, "3.5.35").await?;
        check_truth(&peers, 3, "3.7.3").await?;
        for (cluster, client, peer) in [(&clients, "https", "http"), (&peers, "http", "https")] {
            let status = cluster.status().await?;
            let member = status.members.first().context("no member")?;
            let starts = |url: &Option<String>, scheme: &str| {
                let url = url.as_deref().unwrap_or_default();
                url.starts_with(&format!("{scheme}://"))
            };
            ensure!(starts(&member.client_url, client), "{member:?}");
            ensure!(starts(&member.peer_url, peer), "{member:?}");
        }
        // Pods come back by themselves, with what they had.
        for cluster in [&clients, &peers] {
            let pods = cluster.pods().await?;
            let pod = pods.values().next().context("no pod")?;
            cluster.kill(pod).await?;
        }
        comes_true(&clients, 3, "3.5.35").await?;
        comes_true(&peers, 3, "3.7.3").await.map(drop)
    })
}

#[test]
fn certificates_that_live_a_minute_are_renewed_under_a_writer_and_no_member_restarts() -> Played {
    story(|stage| async move {
        let tls = json!({"leafLifetimeSeconds": 60});
        let cluster = stage.create("c", spec(3, "v3.6.16", &tls)).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let before = uids(&cluster).await?;
        let load = Load::start(&cluster).await?;
        let first = serial(&stage).await?;
        let mut seen = vec![first];
        // Two renewals, of which the second comes after the first certificate has expired.
        for _renewal in 0..2 {
            let last = seen.last().cloned().unwrap_or_default();
            until("the certificates are other ones", MINUTE * 2, || async {
                Ok(serial(&stage).await? != last)
            })
            .await?;
            seen.push(serial(&stage).await?);
        }
        // A new client, with what is published now.
        comes_true(&cluster, 3, "3.6.16").await?;
        cluster.put("after", "expiry").await?;
        load.finish().await?.assert_gap(LIMIT)?;
        ensure!(uids(&cluster).await? == before, "a member was restarted");
        tell(&format!("{} sets of certificates", seen.len()));
        Ok(())
    })
}

/// Identity of the certificates of the members.
async fn serial(stage: &Stage) -> Result<String> {
    let secret = stage.api::<Secret>().get("c-tls").await?;
    entry(&secret, "c-0.server.crt")
}

async fn uids(cluster: &Cluster) -> Result<BTreeMap<String, Option<String>>> {
    let pods = cluster.pods().await?;
    let restarts = |pod: &Pod| {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        let counts = containers.into_iter().flatten();
        counts.map(|container| container.restart_count).sum::<i32>()
    };
    ensure!(pods.values().all(|pod| restarts(pod) == 0), "a restart");
    Ok(pods
        .into_iter()
        .map(|(name, pod)| (name, pod.metadata.uid))
        .collect())
}

#[test]
fn a_deleted_secret_comes_back_and_a_recreated_object_resumes_with_tls() -> Played {
    story(|stage| async move {
        let cluster = stage.create("c", spec(3, "v3.6.16", &json!({}))).await?;
        cluster.ready_within(MINUTE * 2).await?;
        cluster.put("kept", "by TLS").await?;
        let authority = entry(&stage.api::<Secret>().get("c-client-tls").await?, "ca.crt")?;
        for secret in ["c-tls", "c-client-tls"] {
            let secrets = stage.api::<Secret>();
            secrets.delete(secret, &DeleteParams::default()).await?;
            until(format!("{secret} is back"), MINUTE, || async {
                Ok(secrets.get_opt(secret).await?.is_some())
            })
            .await?;
        }
        let again = entry(&stage.api::<Secret>().get("c-client-tls").await?, "ca.crt")?;
        ensure!(again == authority, "another authority");
        comes_true(&cluster, 3, "3.6.16").await?;
        nothing_leaked(&stage).await?;
        // The new object asks for plaintext; what is there was listed with TLS.
        cluster.delete().await?;
        let plain = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create_as_written("c", plain).await?;
        let words = ["asks for plaintext", "members run TLS", "liveSwitch: true"];
        cluster
            .complains_within(MINUTE * 3, "Degraded", &words)
            .await?;
        until("all members serve", MINUTE * 2, || async {
            Ok(cluster.value("kept").await?.as_deref() == Some("by TLS"))
        })
        .await?;
        // Where it runs, it can be asked for again.
        let written = r#"{"spec":{"security":{"tls":{}}}}"#;
        stage.commands.patch("c", written).await?.accepted()?;
        cluster.ready_within(MINUTE).await?;
        check_truth(&cluster, 3, "3.6.16").await
    })
}

#[test]
fn tls_is_switched_on_and_off_under_a_writer() -> Played {
    story(|stage| async move {
        let plain = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create_as_written("c", plain).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let load = Load::start(&cluster).await?;
        for (tls, schemes) in [
            (
                json!({"liveSwitch": true, "plaintextClients": "Accept"}),
                vec!["http", "https"],
            ),
            (json!({"plaintextClients": "Refuse"}), vec!["https"]),
            (json!({"enabled": false}), vec!["http"]),
        ] {
            let before = cluster.pods().await?;
            let patch = json!({"spec": {"security": {"tls": tls}}}).to_string();
            stage.commands.patch("c", &patch).await?.accepted()?;
            cluster.replaced(&before, 3).await?;
            serves(&cluster, &schemes).await?;
            lists(&cluster, !schemes.contains(&"http") || schemes.len() > 1).await?;
            comes_true(&cluster, 3, "3.6.16").await?;
            tell(&format!("clients are served by {schemes:?}"));
        }
        load.finish().await?.assert_gap(LIMIT)?;
        Ok(())
    })
}

/// Waits until members are listed for each other under one scheme: that of TLS, or plaintext.
async fn lists(cluster: &Cluster, tls: bool) -> Result<()> {
    let begin = if tls { "https://" } else { "http://" };
    until(
        format!("members are listed as {begin}"),
        MINUTE * 4,
        || async {
            let member = cluster.any_member().await?;
            let list = member.member_list(Consistency::Linearizable).await?;
            for member in &list.members {
                let urls = &member.peer_urls;
                ensure!(
                    urls.len() == 1 && urls.iter().all(|url| url.starts_with(begin)),
                    "{urls:?}"
                );
            }
            Ok(true)
        },
    )
    .await
    .map(drop)
}

/// Waits until every member serves clients by these schemes and no others.
async fn serves(cluster: &Cluster, schemes: &[&str]) -> Result<()> {
    let what = format!("clients are served by {schemes:?}");
    until(what, MINUTE * 4, || async {
        let endpoints = cluster.status().await?.client_endpoints;
        let served = endpoints.iter().filter_map(|url| url.split_once(':'));
        let served: Vec<&str> = served.map(|(scheme, _)| scheme).collect();
        ensure!(served == schemes, "{served:?}");
        Ok(true)
    })
    .await?;
    cluster.ready_within(MINUTE).await.map(drop)
}

/// Leads to another port than is asked for.
struct Elsewhere(u16);

impl Connect for Elsewhere {
    fn connect<'a>(&'a self, target: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        DirectTcp.connect(target, self.0)
    }
}

/// What a client of the cluster may do, and what neither a stranger nor a client may.
async fn let_in_only_members_and_clients(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let pods = cluster.pods().await?;
    let pod = pods.get("c-0").context("no pod")?;
    let target = Target {
        namespace: stage.namespace.clone(),
        pod: "c-0".to_owned(),
        address: pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.clone())
            .context("no address")?,
    };
    let name = names::member_host("c", &stage.namespace, 0);
    let published = credentials(&stage.client, &stage.namespace, "c").await?;
    let published = as_client(published, &name);
    let asked = async |security: &Security| {
        let pool = Pool::new(Arc::new(DirectTcp));
        pool.member(&target, security).status().await
    };
    let _status = asked(&published).await.context("a client is not let in")?;
    if asked(&Security::Plain).await.is_ok() {
        bail!("plaintext is answered");
    }
    // A stranger that trusts the authority, and whose certificate another one issued.
    let other = stage
        .create("other", spec(1, "v3.6.16", &json!({})))
        .await?;
    other.ready_within(MINUTE * 2).await?;
    let theirs = stage.api::<Secret>().get("other-client-tls").await?;
    let ours = stage.api::<Secret>().get("c-client-tls").await?;
    let mixed = Credentials::new(
        &entry(&ours, "ca.crt")?,
        &entry(&theirs, "tls.crt")?,
        &entry(&theirs, "tls.key")?,
    )?;
    if asked(&as_client(mixed, &name)).await.is_ok() {
        bail!("the certificate of another cluster is accepted");
    }
    // On the port of the peers not even a client of this cluster is let in; on that of the metrics it is.
    let deadline = etcd::DEFAULT_DEADLINE;
    let metrics = etcd::metrics(&DirectTcp, &target, &published, deadline).await;
    ensure!(metrics.is_ok(), "no metrics by TLS: {metrics:?}");
    let peers = etcd::metrics(&Elsewhere(names::PEER_PORT), &target, &published, deadline).await;
    ensure!(peers.is_err(), "a client is let in by peers");
    Ok(())
}

fn as_client(credentials: Credentials, name: &str) -> Security {
    Security::Tls {
        credentials: Arc::new(credentials),
        name: name.to_owned(),
    }
}
