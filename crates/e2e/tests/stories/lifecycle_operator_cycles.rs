//! The operator is killed at any moment while a cluster grows and shrinks. It has a program of its own, because it
//! disturbs every other story on the cluster.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use e2e::{Load, MINUTE, Operator, Played, check_truth, story, tell, until};
use serde_json::json;

/// Growing and shrinking take about as many writes; a moment beyond the end would try nothing.
const MOMENTS: u64 = 400;
/// Two ways to go: asked to stop, and as in a crash.
const WAYS: u64 = 2;

#[test]
fn the_operator_is_killed_at_one_moment_of_growing_and_shrinking() -> Played {
    story(|stage| async move {
        let seed = seed()?;
        let (moment, forced) = (seed / WAYS % MOMENTS, seed.is_multiple_of(WAYS));
        tell(&format!(
            "E2E_SEED={seed}: killed after {moment} writes, {}",
            if forced { "forced" } else { "asked" }
        ));
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let operator = Operator::disturb(&stage.client).await?;
        let load = Load::start(&cluster).await?;
        let play = async {
            let holder = operator.holder().await?;
            let kill = async {
                until("the moment has come", MINUTE * 3, || async {
                    Ok(load.writes() >= moment)
                })
                .await?;
                operator.kill(&holder, forced.then_some(0)).await
            };
            let cycle = async {
                for size in [3, 1] {
                    cluster.resize(size).await?;
                    cluster.ready_within(MINUTE * 2).await?;
                    check_truth(&cluster, size, "3.6.16").await?;
                }
                Ok(())
            };
            tokio::try_join!(kill, cycle).map(drop)
        };
        let outcome: Result<()> = play.await;
        operator.then_restore(outcome).await?;
        let report = load.finish().await?;
        ensure!(report.writes >= moment, "the moment never came");
        Ok(())
    })
}

/// Another moment every time; `E2E_SEED` repeats one.
fn seed() -> Result<u64> {
    if let Ok(seed) = std::env::var("E2E_SEED") {
        return seed.parse().context("E2E_SEED is a number");
    }
    let now: Duration = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::from(now.subsec_micros()))
}
