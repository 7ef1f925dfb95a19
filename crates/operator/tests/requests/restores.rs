//! Restores: what goes over the wire for one, and in which order.

use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::{EtcdRestore, EtcdRestoreStatus};
use kube::core::DeserializeGuard;
use operator::backoff::Attempts;
use operator::restore::{self, Restores};

use super::*;

const STATUS: &str = "/apis/etcd.etcd.io/v1alpha1/namespaces/prod/etcdrestores/back/status?";
const CLUSTERS: &str = "/apis/etcd.etcd.io/v1alpha1/namespaces/prod/etcdclusters";

fn restore(status: &Value) -> EtcdRestore {
    serde_json::from_value(json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdRestore",
        "metadata": {"name": "back", "namespace": "prod", "uid": "restore-uid", "generation": 1,
                     "resourceVersion": "7", "creationTimestamp": "2026-11-18T12:00:00Z"},
        "spec": {"backupName": "nightly", "backup": "20261118-020000-abcd", "clusterName": "db-2",
                 "identitySecret": "keys"},
        "status": status,
    }))
    .unwrap()
}

fn backup() -> EtcdBackup {
    serde_json::from_value(json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "nightly", "namespace": "prod", "uid": "backup-uid"},
        "spec": {"clusterName": "db", "storageType": "S3", "s3": {"bucket": "b"}},
    }))
    .unwrap()
}

/// One of the same name in another namespace, which lists ours.
fn elsewhere(namespace: &str) -> EtcdBackup {
    let mut backup = backup();
    backup.metadata.namespace = Some(namespace.to_owned());
    backup.spec.allowed_namespaces = vec!["prod".to_owned()];
    backup
}

/// The cluster that was made, as the API server has it.
fn made(uid: &str, status: &Value) -> Value {
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
           "metadata": {"name": "db-2", "namespace": "prod", "uid": uid,
                        "annotations": {"etcd.etcd.io/restored-by": "restore-uid"}},
           "spec": {}, "status": status})
}

struct World {
    clusters: Vec<Value>,
    /// The namespaces that the operator watches; empty: all.
    namespaces: Vec<String>,
    rejected: Attempts<String>,
}

impl World {
    fn new(clusters: Vec<Value>) -> Self {
        Self {
            clusters,
            namespaces: Vec::new(),
            rejected: Attempts::default(),
        }
    }

    /// What was asked in one look, and how it ended.
    async fn look(
        &mut self,
        restore: &EtcdRestore,
        answers: Vec<(u16, Value)>,
    ) -> (Vec<Recorded>, Result<(), String>) {
        let (client, asked) = recorded(answers);
        let mut ctx = context(&client, vec![]);
        ctx.namespaces = self.namespaces.clone();
        let clusters = self
            .clusters
            .iter()
            .map(|cluster| DeserializeGuard(Ok(serde_json::from_value(cluster.clone()).unwrap())));
        // The one that was backed up.
        let original = DeserializeGuard(Ok(cluster()));
        ctx.caches.clusters = store(clusters.chain([original]).collect());
        let backups = [backup(), elsewhere("shop")].map(|backup| DeserializeGuard(Ok(backup)));
        ctx.caches.backups = store(backups.into());
        let restores = Restores {
            context: Arc::new(ctx),
            store: store(vec![DeserializeGuard(Ok(restore.clone()))]),
            rejected: std::mem::take(&mut self.rejected),
        };
        let result = Box::pin(restore::look(restore, &restores)).await;
        self.rejected = restores.rejected;
        let asked = asked.lock().unwrap().clone();
        (asked, result.map(drop).map_err(|error| error.to_string()))
    }
}

fn words(asked: &[Recorded]) -> Vec<(&str, &str)> {
    let words = asked.iter().map(|(method, path, _)| (&**method, &**path));
    words
        .filter(|(_, path)| !path.starts_with("/apis/events"))
        .collect()
}

const EVENT: fn() -> (u16, Value) = || (201, json!({}));

fn status_of(asked: &Recorded) -> Value {
    asked.2["status"].clone()
}

#[tokio::test]
async fn the_status_is_written_then_the_cluster_is_created_then_it_is_recorded() {
    let known = restore(&json!({}));
    let answers = vec![
        (200, json!(known)),
        (201, made("cluster-uid", &json!(null))),
        (200, json!(known)),
        EVENT(),
    ];
    let (asked, result) = World::new(vec![]).look(&known, answers).await;
    assert_eq!(result, Ok(()));
    let create = format!("{CLUSTERS}?");
    let wanted = [("PUT", STATUS), ("POST", &*create), ("PUT", STATUS)];
    assert_eq!(words(&asked), wanted);
    let before = &asked[0].2;
    assert_eq!(before["metadata"]["resourceVersion"], "7");
    assert_eq!(before["status"]["phase"], "Running");
    assert!(before["status"]["startTime"].is_string());
    assert!(before["status"].get("clusterUID").is_none());
    let cluster = &asked[1].2;
    assert_eq!(
        cluster["metadata"],
        json!({"name": "db-2", "namespace": "prod", "annotations": {"etcd.etcd.io/restored-by": "restore-uid"}}),
        "it has no owner"
    );
    let restore = &cluster["spec"]["bootstrap"]["restore"];
    assert_eq!(
        *restore,
        json!({"backupName": "nightly", "backup": "20261118-020000-abcd", "identitySecret": "keys"})
    );
    assert_eq!(cluster["spec"]["size"], 1, "a copy of the original");
    assert_eq!(status_of(&asked[2])["clusterUID"], "cluster-uid");
}

/// The status after the cluster was created.
async fn recorded_status() -> Value {
    let known = restore(&json!({}));
    let cluster = (201, made("cluster-uid", &json!(null)));
    let answers = vec![(200, json!(known)), cluster, (200, json!(known)), EVENT()];
    let (asked, _) = World::new(vec![]).look(&known, answers).await;
    status_of(&asked[2])
}

#[tokio::test]
async fn a_status_that_says_nothing_new_is_written_before_a_create_and_an_old_one_stops_it() {
    let status = json!({"phase": "Failed", "startTime": "2026-11-18T12:00:00Z", "conditions": [
        {"type": "Ready", "status": "False", "reason": "RestoreInvalid", "message": "rejected",
         "lastTransitionTime": "2026-11-18T12:00:00Z"}]});
    let known = restore(&status);
    let (asked, result) = World::new(vec![])
        .look(&known, vec![refusal(409, "Conflict")])
        .await;
    assert!(result.is_err(), "it is looked at again");
    assert_eq!(words(&asked), [("PUT", STATUS)]);
    assert_eq!(asked[0].2["metadata"]["resourceVersion"], "7");
    let written: EtcdRestoreStatus = serde_json::from_value(status_of(&asked[0])).unwrap();
    assert_eq!(Some(written), known.status);
}

#[tokio::test]
async fn a_backup_elsewhere_is_in_the_cache_of_all_namespaces_or_listed_by_name_or_not_asked_for() {
    let mut known = restore(&json!({}));
    known.spec.backup_namespace = Some("shop".to_owned());
    known.spec.credentials_secret = Some("readonly".to_owned());
    let made = || {
        let cluster = (201, made("cluster-uid", &json!(null)));
        vec![(200, json!(known)), cluster, (200, json!(known)), EVENT()]
    };
    let create = format!("{CLUSTERS}?");
    let writes = [("PUT", STATUS), ("POST", &*create), ("PUT", STATUS)];
    let (asked, result) = World::new(vec![]).look(&known, made()).await;
    assert_eq!((result, words(&asked)), (Ok(()), writes.to_vec()));
    let restore = &asked[1].2["spec"]["bootstrap"]["restore"];
    assert_eq!(restore["backupNamespace"], "shop");
    assert_eq!(restore["credentialsSecret"], "readonly");
    assert!(
        asked[1].2["spec"].get("size").is_none(),
        "no copy of what runs there"
    );

    // Watches of single namespaces have caches of their own.
    let mut world = World::new(vec![]);
    world.namespaces = vec!["prod".to_owned(), "shop".to_owned()];
    let listed = json!({"metadata": {}, "items": [elsewhere("shop")]});
    let answers = [vec![(200, listed)], made()].concat();
    let (asked, result) = world.look(&known, answers).await;
    let list = "/apis/etcd.etcd.io/v1alpha1/namespaces/shop/etcdbackups?&fieldSelector=metadata.name%3Dnightly";
    let wanted = [vec![("GET", list)], writes.to_vec()].concat();
    assert_eq!((result, words(&asked)), (Ok(()), wanted));

    world.namespaces.pop();
    let (asked, result) = world.look(&known, vec![(200, json!(known))]).await;
    assert_eq!((result, words(&asked)), (Ok(()), vec![("PUT", STATUS)]));
    let said = status_of(&asked[0])["conditions"][0]["message"].clone();
    let said = said.as_str().unwrap();
    assert!(said.contains("does not watch namespace shop"), "{said}");
}

#[tokio::test]
async fn a_cluster_that_exists_is_found_by_another_look() {
    let known = restore(&json!({}));
    let answers = vec![(200, json!(known)), refusal(409, "AlreadyExists")];
    let (asked, result) = World::new(vec![]).look(&known, answers).await;
    assert_eq!(result, Ok(()));
    assert_eq!(asked.len(), 2);
    // The cache has heard of it, and the annotation says that it is ours.
    let known = restore(&status_of(&asked[0]));
    let cluster = made("cluster-uid", &json!(null));
    let (asked, result) = World::new(vec![cluster])
        .look(&known, vec![(200, json!(known))])
        .await;
    assert_eq!(result, Ok(()));
    assert_eq!(words(&asked), [("PUT", STATUS)]);
    assert_eq!(status_of(&asked[0])["clusterUID"], "cluster-uid");
}

#[tokio::test]
async fn a_cluster_that_the_cache_does_not_have_is_asked_for_before_it_counts_as_deleted() {
    let known = restore(&recorded_status().await);
    let read = format!("{CLUSTERS}/db-2");
    let there = (200, made("cluster-uid", &json!(null)));
    let (asked, _) = World::new(vec![])
        .look(&known, vec![there, (200, json!(known))])
        .await;
    assert_eq!(words(&asked), [("GET", &*read), ("PUT", STATUS)]);
    assert_eq!(status_of(&asked[1])["phase"], "Running");
    // Another one of that name is not it, and it is not created again.
    for answer in [
        refusal(404, "NotFound"),
        (200, made("another", &json!(null))),
    ] {
        let answers = vec![answer, (200, json!(known)), EVENT()];
        let (asked, result) = World::new(vec![]).look(&known, answers).await;
        assert_eq!(result, Ok(()));
        assert_eq!(words(&asked), [("GET", &*read), ("PUT", STATUS)]);
        assert_eq!(status_of(&asked[1])["phase"], "Failed");
    }
    // An API server that does not respond says nothing of it.
    let (asked, result) = World::new(vec![])
        .look(&known, vec![refusal(500, "InternalError")])
        .await;
    assert!(result.is_err());
    assert_eq!(words(&asked), [("GET", &*read)]);
}

#[tokio::test]
async fn a_cluster_that_serves_is_told_and_no_request_is_made_while_nothing_changes() {
    let known = restore(&recorded_status().await);
    let condition = |kind| {
        json!({"type": kind, "status": "True", "reason": "QuorumHealthy", "message": "",
               "lastTransitionTime": "2026-11-18T12:00:00Z"})
    };
    let cluster = made(
        "cluster-uid",
        &json!({"conditions": [condition("Available")],
                "restored": {"backup": "20261118-020000-abcd", "revision": 9, "bytes": 5, "url": "s3://b/x",
                             "time": "2026-11-18T02:00:00Z"}}),
    );
    let mut world = World::new(vec![cluster]);
    let answers = vec![(200, json!(known)), EVENT()];
    let (asked, result) = world.look(&known, answers).await;
    assert_eq!(result, Ok(()));
    assert_eq!(words(&asked), [("PUT", STATUS)]);
    let event = &asked[1].2;
    assert_eq!(
        (&event["reason"], &event["type"]),
        (&json!("ClusterRestored"), &json!("Normal"))
    );
    let status = status_of(&asked[0]);
    assert_eq!(status["phase"], "Completed");
    assert_eq!(
        (&status["etcdRevision"], &status["restoredSize"]),
        (&json!(9), &json!(5))
    );
    let (asked, result) = world.look(&restore(&status), vec![]).await;
    assert_eq!((asked.len(), result), (0, Ok(())));
}

#[tokio::test]
async fn a_cluster_that_is_rejected_is_told_in_the_words_of_the_api_server_and_rests() {
    for code in [400, 403, 422] {
        let known = restore(&json!({}));
        let answers = vec![
            (200, json!(known)),
            refusal(code, "spec.size: 4 is even"),
            (200, json!(known)),
            EVENT(),
        ];
        let mut world = World::new(vec![]);
        let (asked, result) = world.look(&known, answers).await;
        assert_eq!(result, Ok(()));
        let status = status_of(&asked[2]);
        assert_eq!(status["phase"], "Failed");
        assert!(status.get("clusterUID").is_none());
        let told = status["conditions"][0]["message"].as_str().unwrap();
        assert!(told.contains("4 is even"), "{told}");
        assert_eq!(asked[3].2["type"], "Warning");
        let known = restore(&status);
        let (asked, result) = world.look(&known, vec![]).await;
        assert_eq!((asked.len(), result), (0, Ok(())), "it rests");
        // Another spec does not.
        let mut known = known;
        known.metadata.generation = Some(2);
        let answers = vec![(200, json!(known)), refusal(409, "AlreadyExists")];
        let (asked, _) = world.look(&known, answers).await;
        assert_eq!(asked[1].0, "POST");
    }
}
