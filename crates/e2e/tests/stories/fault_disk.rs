//! The disk of a member stalls while a client writes. No test can do that to a disk, so the members run an etcd in
//! which a write to the log can be held up from outside.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, LIMIT, Load, MINUTE, Played, Stage, comes_true, story, tell, until};
use kube::ResourceExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where etcd takes orders to fail.
const PORT: u16 = 22381;
/// Before a write to the log is made durable.
const BEFORE_SYNC: &str = "walBeforeSync";

#[test]
fn a_member_whose_disk_stalls_is_restarted_once_and_then_replaced() -> Played {
    story(|stage| async move {
        let cluster = three(&stage).await?;
        let leader = cluster.leader().await?;
        let victim = ["c-0", "c-1", "c-2"].into_iter().find(|n| *n != leader);
        let victim = victim.context("no member follows")?;
        let old = cluster.member(victim).await?.status().await?.member_id;
        let first = pod_uid(&cluster, victim).await?;
        let load = Load::start(&cluster).await?;
        stall(&cluster, victim, "5s").await?;
        let words = format!("{victim} does not keep up: it completes only one disk write every ");
        let said = cluster.complains("Degraded", &[&words, " s"]).await?;
        tell(&said);
        let took = restarted(&cluster, victim, &first).await?;
        tell(&format!("restarted {:.0} s later", took.as_secs_f32()));
        // The restart was no help.
        stall(&cluster, victim, "5s").await?;
        let what = format!("{victim} is another member, and votes");
        let took = until(what, MINUTE * 4, || async {
            let status = cluster.member(victim).await?.status().await?;
            Ok(status.member_id != old && !status.is_learner)
        })
        .await?;
        tell(&format!("replaced {:.0} s later", took.as_secs_f32()));
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT)?;
        let restarted = format!(
            "restarted {victim}, which did not keep up: it completes only one disk write every "
        );
        cluster.has_event("MemberStalled", &restarted).await?;
        let why = "it stalls again after a restart: it completes only one disk write every ";
        cluster.has_event("MemberRemoved", why).await
    })
}

#[test]
fn a_leader_whose_disk_stops_is_helped_by_a_restart_and_stays_who_it_is() -> Played {
    story(|stage| async move {
        let cluster = three(&stage).await?;
        let victim = cluster.leader().await?;
        let old = cluster.member(&victim).await?.status().await?.member_id;
        let first = pod_uid(&cluster, &victim).await?;
        let load = Load::start(&cluster).await?;
        stall(&cluster, &victim, "1h").await?;
        let words = format!("{victim} does not keep up: it has completed no disk write since");
        cluster.complains("Degraded", &[&words]).await?;
        let took = restarted(&cluster, &victim, &first).await?;
        tell(&format!("restarted {:.0} s later", took.as_secs_f32()));
        cluster.ready_within(MINUTE * 2).await?;
        // There is no leader during the election, and clients that were connected to it wait for an answer first.
        load.finish().await?.assert_gap(LIMIT * 5)?;
        let now = cluster.member(&victim).await?.status().await?.member_id;
        ensure!(now == old, "{victim} was replaced");
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

async fn three(stage: &Stage) -> Result<Cluster> {
    let env = json!([{"name": "GOFAIL_HTTP", "value": format!("0.0.0.0:{PORT}")}]);
    let spec = json!({"size": 3, "version": "v3.6.16", "repository": "localhost/etcd-gofail",
        "storage": {"size": "1Gi"}, "pod": {"env": env}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready_within(MINUTE * 2).await?;
    Ok(cluster)
}

async fn pod_uid(cluster: &Cluster, name: &str) -> Result<String> {
    let pods = cluster.pods().await?;
    pods.get(name).and_then(ResourceExt::uid).context("no pod")
}

/// Another pod of this name runs.
async fn restarted(cluster: &Cluster, name: &str, before: &str) -> Result<Duration> {
    until(format!("{name} was restarted"), MINUTE * 3, || async {
        Ok(pod_uid(cluster, name).await? != before)
    })
    .await
}

/// From now on every write to the log of this member takes so much longer, until its process ends.
async fn stall(cluster: &Cluster, name: &str, time: &str) -> Result<()> {
    let order = format!("sleep(\"{time}\")");
    let what = format!("{name} takes the order {BEFORE_SYNC}={order}");
    until(what, MINUTE * 2, || async {
        let pods = cluster.pods().await?;
        let pod = pods.get(name).context("no pod")?;
        let address = pod.status.as_ref().and_then(|s| s.pod_ip.clone());
        let address = address.context("no address")?;
        let answer = timeout(Duration::from_secs(2), put(&address, &order)).await??;
        ensure!(answer.contains(" 204 "), "{answer}");
        Ok(true)
    })
    .await
    .map(drop)
}

async fn put(address: &str, order: &str) -> Result<String> {
    let mut stream = TcpStream::connect((address, PORT)).await?;
    let length = order.len();
    let request = format!(
        "PUT /{BEFORE_SYNC} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{order}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
