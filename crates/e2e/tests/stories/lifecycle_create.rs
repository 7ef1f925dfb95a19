//! A user writes a manifest and gets a cluster.
#![expect(clippy::indexing_slicing, reason = "a story may end where it stands")]

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::labels;
use e2e::{Cluster, MINUTE, Played, Stage, check_truth, skipped, story, tell, until};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use serde_json::json;

#[test]
fn three_members_of_3_6_become_ready_and_the_status_tells_the_truth() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        let wait = [
            "wait",
            "etcdclusters.etcd.etcd.io/c",
            "--for=condition=Ready",
            "--timeout=90s",
        ];
        stage.commands.kubectl(&wait).await?.accepted()?;
        check_truth(&cluster, 3, "3.6.16").await?;
        check_one_bootstrap(&cluster).await?;
        check_events(&cluster).await?;
        check_pods(&cluster).await?;
        check_objects(&stage).await?;
        check_client_service(&cluster).await
    })
}

#[test]
fn one_and_three_members_of_3_5_live_side_by_side_in_one_namespace() -> Played {
    story(|stage| async move {
        // The default version, spelled both ways. Nothing is said of TLS, and so there is none.
        let three = json!({"size": 3, "version": "3.5.35"});
        let three = stage.create_as_written("three", three);
        let one = stage.create_as_written("one", json!({"size": 1}));
        let (three, one) = (three.await?, one.await?);
        one.ready().await?;
        three.ready_within(MINUTE * 2).await?;
        check_truth(&one, 1, "3.5.35").await?;
        check_truth(&three, 3, "3.5.35").await?;
        check_one_bootstrap(&three).await?;
        let budgets = stage.api::<PodDisruptionBudget>();
        for (name, least) in [("one", 0), ("three", 2)] {
            let budget = budgets.get(name).await?.spec.context("no spec")?;
            let least = k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(least);
            ensure!(budget.min_available == Some(least), "{name}: {budget:?}");
        }
        // They share nothing but the namespace.
        one.put("whose", "one").await?;
        three.put("whose", "three").await?;
        ensure!(one.value("whose").await?.as_deref() == Some("one"));
        ensure!(three.value("whose").await?.as_deref() == Some("three"));
        Ok(())
    })
}

#[test]
fn five_members_of_3_7_become_ready() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 5, "version": "v3.7.3", "storage": {"size": "1Gi"}});
        let five = stage.create("five", spec).await?;
        let took = five.ready_within(MINUTE * 2).await?;
        tell(&format!(
            "five members of 3.7 after {:.1} s",
            took.as_secs_f32()
        ));
        check_truth(&five, 5, "3.7.3").await?;
        check_one_bootstrap(&five).await
    })
}

#[test]
fn seven_and_nine_members_become_ready() -> Played {
    if !e2e::deep() {
        skipped("E2E_DEEP is not set");
        return Ok(());
    }
    story(|stage| async move {
        for (name, size) in [("seven", 7), ("nine", 9)] {
            let spec = json!({"size": size, "version": "v3.6.16", "storage": {"size": "1Gi"}});
            let cluster = stage.create(name, spec).await?;
            cluster.ready_within(MINUTE * 2).await?;
            check_truth(&cluster, size, "3.6.16").await?;
            cluster.delete().await?;
        }
        Ok(())
    })
}

/// One cluster ID everywhere is checked with the truth; here, that only one pod was ever granted to bootstrap.
async fn check_one_bootstrap(cluster: &Cluster) -> Result<()> {
    let status = cluster.status().await?;
    let bootstrap = status.remembered().lineage.bootstrap.clone();
    let bootstrap = bootstrap.context("no bootstrap is remembered")?;
    let pods = cluster.pods().await?;
    let first = pods
        .get(&bootstrap.member)
        .context("the member that bootstrapped has no pod")?;
    ensure!(first.metadata.uid.as_ref() == Some(&bootstrap.pod_uid));
    let is_granted = |pod: &&Pod| {
        let grant = pod.annotations().get("etcd.etcd.io/grant");
        grant.is_some_and(|grant| grant.contains("Bootstrap"))
    };
    let grants = pods.values().filter(is_granted).count();
    ensure!(
        grants == 1,
        "{grants} pods were granted to bootstrap the cluster"
    );
    Ok(())
}

async fn check_events(cluster: &Cluster) -> Result<()> {
    let wanted = [
        "MemberAdmitted",
        "MemberAdded",
        "MemberPromoted",
        "ClusterCreated",
    ];
    until("the events are all there", MINUTE, || async {
        let events = cluster
            .stage
            .events_of("EtcdCluster", &cluster.name)
            .await?;
        let reasons: BTreeSet<&str> = events.iter().map(|(reason, _)| reason.as_str()).collect();
        let missing: Vec<_> = wanted
            .iter()
            .filter(|reason| !reasons.contains(**reason))
            .collect();
        ensure!(missing.is_empty(), "missing {missing:?} in {reasons:?}");
        Ok(true)
    })
    .await?;
    let events = cluster
        .stage
        .events_of("EtcdCluster", &cluster.name)
        .await?;
    let told = |reason: &str, part: &str| {
        events
            .iter()
            .filter(|(r, text)| r == reason && text.contains(part))
            .count()
    };
    ensure!(
        told("MemberAdmitted", "bootstraps") == 1,
        "one bootstrap is reported: {events:?}"
    );
    let status = cluster.status().await?;
    let first = status.remembered().lineage.bootstrap.clone();
    let first = first.map(|it| it.member);
    for member in ["c-0", "c-1", "c-2"] {
        let expected = usize::from(first.as_deref() != Some(member));
        for reason in ["MemberAdded", "MemberPromoted"] {
            let times = told(reason, member);
            ensure!(
                times == expected,
                "{reason} is told {times} times of {member}, not {expected}: {events:?}"
            );
        }
    }
    ensure!(told("ClusterFailed", "") == 0, "nothing failed: {events:?}");
    Ok(())
}

/// Spread, restricted (the namespace enforces it), without a token, never restarted.
async fn check_pods(cluster: &Cluster) -> Result<()> {
    let pods = cluster.pods().await?;
    let mut nodes = BTreeSet::new();
    for (name, pod) in &pods {
        let spec = pod.spec.as_ref().context("no spec")?;
        nodes.insert(spec.node_name.clone());
        ensure!(
            spec.automount_service_account_token == Some(false),
            "{name} gets a token"
        );
        let projected = spec
            .volumes
            .iter()
            .flatten()
            .any(|volume| volume.projected.is_some());
        ensure!(
            !projected,
            "{name} has a projected volume, which may hold a token"
        );
        let user = spec
            .security_context
            .as_ref()
            .and_then(|context| context.run_as_non_root);
        ensure!(user == Some(true), "{name} may run as root");
        let states = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten());
        for state in states {
            ensure!(
                state.restart_count == 0,
                "{name} restarted {} times",
                state.restart_count
            );
        }
    }
    ensure!(
        nodes.len() == 3,
        "three members share {} nodes",
        nodes.len()
    );
    Ok(())
}

async fn check_objects(stage: &Stage) -> Result<()> {
    let sets: Vec<StatefulSet> = stage.list().await?;
    ensure!(sets.len() == 1);
    check_labels(&sets[0], "database", &["app.kubernetes.io/version"])?;
    for service in stage.list::<Service>().await? {
        let component = if service.metadata.name.as_deref() == Some("c-peer") {
            "peer"
        } else {
            "client"
        };
        check_labels(&service, component, &[])?;
        let selector = service
            .spec
            .and_then(|spec| spec.selector)
            .context("no selector")?;
        ensure!(selector == labels::selector("c"), "{selector:?}");
    }
    for budget in stage.list::<PodDisruptionBudget>().await? {
        check_labels(&budget, "database", &[])?;
    }
    for claim in stage.list::<PersistentVolumeClaim>().await? {
        check_labels(&claim, "database", &[labels::CLUSTER_UID])?;
        let owners = claim.metadata.owner_references.unwrap_or_default();
        ensure!(
            owners.is_empty(),
            "a claim that is to be kept has an owner: {owners:?}"
        );
    }
    let account = stage.api::<ServiceAccount>().get("c").await?;
    ensure!(account.automount_service_account_token == Some(false));
    Ok(())
}

fn check_labels<K: Resource<DynamicType = ()>>(
    object: &K,
    component: &str,
    more: &[&str],
) -> Result<()> {
    let mut found = object.meta().labels.clone().unwrap_or_default();
    for label in more {
        ensure!(
            found.remove(*label).is_some(),
            "{} has no label {label}",
            K::kind(&())
        );
    }
    ensure!(
        found == labels::object("c", component),
        "{}: {found:?}",
        K::kind(&())
    );
    Ok(())
}

/// Every voter, and no other pod, is behind the Service for clients.
async fn check_client_service(cluster: &Cluster) -> Result<()> {
    let slices = ListParams::default().labels("kubernetes.io/service-name=c-client");
    until("all three voters are behind c-client", MINUTE, || async {
        let slices = cluster
            .stage
            .api::<EndpointSlice>()
            .list(&slices)
            .await?
            .items;
        let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
        let ready: BTreeSet<&str> = endpoints
            .filter(|endpoint| {
                endpoint
                    .conditions
                    .as_ref()
                    .is_some_and(|c| c.ready == Some(true))
            })
            .filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.as_deref())
            .collect();
        Ok(ready == BTreeSet::from(["c-0", "c-1", "c-2"]))
    })
    .await
    .map(drop)
}
