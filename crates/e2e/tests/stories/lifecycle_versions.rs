//! A user asks for another release of etcd, and clients hardly notice.

use anyhow::{Result, ensure};
use api::v1alpha1::status::Phase;
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Seen, Stage, Witness, check_truth, story, tell, until,
};
use serde_json::{Value, json};

#[test]
fn three_members_go_from_3_5_to_3_6_to_3_7_and_become_five_on_the_way() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.5.35").await?;
        let next = json!({"version": "v3.6.16"});
        change(&cluster, &next, 3, "3.6.16").await?;
        // Both in one edit: neither may get into the way of the other.
        let next = json!({"version": "v3.7.3", "size": 5});
        change(&cluster, &next, 5, "3.7.3").await?;
        Ok(())
    })
}

#[test]
fn a_newer_patch_release_replaces_one_member_at_a_time() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.6.14").await?;
        let next = json!({"version": "v3.6.16"});
        let seen = change(&cluster, &next, 3, "3.6.16").await?;
        ensure!(seen.most_away <= 1, "{} were away at once", seen.most_away);
        ensure!(seen.replaced.len() == 3, "{:?}", seen.replaced);
        Ok(())
    })
}

#[test]
fn three_members_go_back_from_3_7_to_3_6() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.7.3").await?;
        let back = json!({"version": "v3.6.16"});
        change(&cluster, &back, 3, "3.6.16").await?;
        Ok(())
    })
}

#[test]
fn a_jump_over_a_minor_version_is_refused_unless_it_may_be_walked() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.5.35").await?;
        let jump = r#"{"spec":{"version":"v3.7.3"}}"#;
        let refusal = stage.commands.patch("c", jump).await?;
        let words = refusal.refused_with(&["allowIntermediate"])?;
        tell(&format!("a jump is refused with: {}", words.trim()));
        check_truth(&cluster, 3, "3.5.35").await?;
        let walk = json!({"version": "v3.7.3", "upgrade": {"allowIntermediate": true}});
        let seen = change(&cluster, &walk, 3, "3.7.3").await?;
        ensure!(
            seen.versions
                .iter()
                .any(|version| version.starts_with("3.6.")),
            "it went through {:?}",
            seen.versions
        );
        Ok(())
    })
}

async fn three(stage: &Stage, version: &str) -> Result<Cluster> {
    let spec = json!({"size": 3, "version": version, "storage": {"size": "1Gi"}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready_within(MINUTE * 2).await?;
    Ok(cluster)
}

/// Edits the spec while clients are at work, until every member runs the release.
async fn change(cluster: &Cluster, spec: &Value, size: u32, version: &str) -> Result<Seen> {
    let load = Load::start_part(cluster, &format!("to {version}")).await?;
    let witness = Witness::start(cluster).await?;
    let patch = json!({"spec": spec}).to_string();
    let answer = cluster.stage.commands.patch(&cluster.name, &patch).await?;
    answer.accepted()?;
    let what = format!("{size} members run {version}");
    let took = until(what, MINUTE * 3, || async {
        check_truth(cluster, size, version).await?;
        Ok(true)
    })
    .await?;
    let seen = witness.finish().await?;
    let report = load.finish().await?;
    tell(&format!(
        "{version} after {:.1} s, in the order {:?}",
        took.as_secs_f32(),
        seen.replaced
    ));
    ensure!(seen.phases.contains(&Phase::Upgrading), "{:?}", seen.phases);
    report.assert_gap(LIMIT)?;
    Ok(seen)
}
