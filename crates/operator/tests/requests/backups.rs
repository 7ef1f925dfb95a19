//! Backups: what goes over the wire for one, in which order, and what is made of a Job that ended.

use api::v1alpha1::backup::{BackupPhase, EtcdBackup, Verification};
use k8s_openapi::api::batch::v1::Job;
use kube::core::DeserializeGuard;
use operator::backup::places::Places;
use operator::backup::{self, Backups};

use super::*;

const STATUS: &str = "/apis/etcd.etcd.io/v1alpha1/namespaces/prod/etcdbackups/nightly/status?";
const JOBS: &str = "/apis/batch/v1/namespaces/prod/jobs";
const PODS: &str = "/api/v1/namespaces/prod/pods?&labelSelector=batch.kubernetes.io%2Fjob-name%3D";

fn backup(status: &Value) -> EtcdBackup {
    serde_json::from_value(json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "nightly", "namespace": "prod", "uid": "backup-uid", "generation": 1,
                     "resourceVersion": "7", "creationTimestamp": "2026-11-18T12:00:00Z"},
        "spec": {"clusterName": "db", "storageType": "S3", "serviceAccountName": "keeper",
                 "s3": {"bucket": "b", "accessKeySecret": "keys", "secretKeySecret": "keys", "caSecret": "ca"}},
        "status": status,
    }))
    .unwrap()
}

fn cluster() -> EtcdCluster {
    serde_json::from_value(json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "db", "namespace": "prod", "uid": "cluster-uid"},
        "spec": {"size": 3},
        "status": {
            "clusterID": "abc",
            "conditions": [{"type": "Available", "status": "True", "reason": "QuorumHealthy", "message": "",
                            "lastTransitionTime": "2026-11-18T12:00:00Z"}],
            "members": [{"name": "db-0", "id": "a", "ready": true, "role": "leader"},
                        {"name": "db-1", "id": "b", "ready": true, "role": "follower"}],
            "memory": {"objectUID": "cluster-uid",
                       "lineage": {"incarnation": 2, "transport": {"client": "Tls", "peer": "Tls"}}},
        },
    }))
    .unwrap()
}

struct Looked {
    asked: Vec<Recorded>,
    result: Result<(), String>,
}

async fn look(
    backup: EtcdBackup,
    jobs: Vec<Job>,
    places: u16,
    answers: Vec<(u16, Value)>,
) -> Looked {
    let (client, asked) = recorded(answers);
    let mut ctx = context(&client, vec![]);
    ctx.caches.clusters = store(vec![DeserializeGuard(Ok(cluster()))]);
    let backups = Backups {
        context: Arc::new(ctx),
        jobs: store(jobs),
        places: Arc::new(Places::new(places)),
    };
    let result = Box::pin(backup::look(&backup, &backups)).await;
    let asked = asked.lock().unwrap().clone();
    Looked {
        asked,
        result: result.map(drop).map_err(|error| error.to_string()),
    }
}

/// The status as the first look writes it.
async fn recorded_status() -> Value {
    let looked = look(
        backup(&json!({})),
        vec![],
        1,
        vec![(200, json!(backup(&json!({}))))],
    )
    .await;
    assert_eq!(looked.result, Ok(()));
    assert_eq!(
        looked.asked.len(),
        1,
        "nothing is created before it is recorded"
    );
    let (method, path, body) = looked.asked[0].clone();
    assert_eq!((method.as_str(), path.as_str()), ("PUT", STATUS));
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    body["status"].clone()
}

async fn created() -> Value {
    let known = backup(&recorded_status().await);
    let answers = vec![
        (200, json!(known)),
        (201, json!({"metadata": {"name": "job"}})),
    ];
    let looked = look(known, vec![], 1, answers).await;
    let mut posts = looked
        .asked
        .iter()
        .filter(|(method, _, _)| method == "POST");
    let (_, path, job) = posts.next_back().unwrap().clone();
    assert_eq!(path, format!("{JOBS}?"));
    job
}

#[tokio::test]
async fn a_backup_is_recorded_first_and_its_job_holds_no_secret_and_no_token() {
    let job = created().await;
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("EtcdBackup"), &json!("backup-uid"))
    );
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["serviceAccountName"], "keeper");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let keeper = &pod["containers"][0];
    assert_eq!(keeper["securityContext"]["readOnlyRootFilesystem"], true);
    assert!(keeper["resources"]["limits"]["memory"].is_string());
    // Each Secret of the store once, and the certificate for the member.
    let sources = pod["volumes"][0]["projected"]["sources"]
        .as_array()
        .unwrap();
    let names: Vec<&Value> = sources.iter().map(|it| &it["secret"]["name"]).collect();
    assert_eq!(names, ["keys", "ca"]);
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], "db-client-tls");
    let told: Value = serde_json::from_str(keeper["env"][0]["value"].as_str().unwrap()).unwrap();
    let member = &told["task"]["member"];
    assert_eq!(member["address"], "db-1.db-peer.prod.svc:2379");
    assert_eq!(member["serverName"], "db-1.db-peer.prod.svc");
    assert_eq!(told["task"]["timeline"]["incarnation"], 2);
    // It is none of the cluster's pods, and none of the operator's.
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/name"], "etcd-keeper");
    assert!(labels.get("app.kubernetes.io/managed-by").is_none());
    assert!(labels.get("etcd.etcd.io/cluster").is_none());
}

#[tokio::test]
async fn no_job_is_created_where_as_many_run_as_may() {
    let known = backup(&recorded_status().await);
    let looked = look(known.clone(), vec![], 0, vec![(200, json!(known))]).await;
    assert_eq!(looked.result, Ok(()));
    let (_, path, body) = &looked.asked[0];
    assert_eq!((looked.asked.len(), path.as_str()), (1, STATUS));
    assert_eq!(body["status"]["conditions"][0]["reason"], "BackupWaiting");
}

/// The Job as the API server has it, ended.
async fn ended() -> Job {
    let mut job = created().await;
    job["metadata"]["uid"] = json!("job-uid");
    job["metadata"]["name"] = json!("the-job");
    job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    serde_json::from_value(job).unwrap()
}

fn pod(message: &str) -> Value {
    json!({"items": [{"metadata": {"name": "p"}, "status": {"containerStatuses": [
        {"name": "keeper", "image": "", "imageID": "", "ready": false, "restartCount": 0,
         "state": {"terminated": {"exitCode": 0, "reason": "Completed", "message": message}}}]}}]})
}

fn made() -> String {
    json!({"result": "done", "kind": "snapshot", "pruned": 0, "newest": [],
           "base": {"id": "x", "url": "s3://b/x", "time": "2026-11-18T12:00:09Z", "revision": 9, "compactRevision": 1,
                    "storedBytes": 5, "rawBytes": 6, "etcdVersion": "3.6.16"}})
    .to_string()
}

#[tokio::test]
async fn an_answer_is_in_the_status_before_the_job_is_deleted_and_a_uid_guards_that() {
    let known = backup(&recorded_status().await);
    let job = ended().await;
    let event = (201, json!({}));
    let answers = vec![(200, pod(&made())), (200, json!(known)), event];
    let looked = look(known, vec![job.clone()], 1, answers).await;
    assert_eq!(looked.result, Ok(()));
    assert_eq!(looked.asked[0].1, format!("{PODS}the-job"));
    let (method, path, body) = &looked.asked[1];
    assert_eq!((method.as_str(), path.as_str()), ("PUT", STATUS));
    let status = &body["status"];
    assert_eq!(
        (&status["etcdRevision"], &status["backupSize"]),
        (&json!(9), &json!(5))
    );
    assert!(looked.asked.iter().all(|(method, _, _)| method != "DELETE"));
    // The next look deletes it.
    let known = backup(status);
    assert_eq!(
        known.status.clone().unwrap().phase,
        Some(BackupPhase::Completed)
    );
    let answers = vec![(200, pod(&made())), (200, json!({"metadata": {}}))];
    let looked = look(known, vec![job], 1, answers).await;
    let (method, path, body) = looked.asked.last().unwrap();
    assert_eq!(
        (method.as_str(), path.as_str()),
        ("DELETE", &*format!("{JOBS}/the-job?"))
    );
    assert_eq!(body["preconditions"]["uid"], "job-uid");
    assert_eq!(body["propagationPolicy"], "Background");
}

#[tokio::test]
async fn a_keeper_that_was_killed_is_told_and_counted_once() {
    let known = backup(&recorded_status().await);
    let mut killed = pod("");
    let state = &mut killed["items"][0]["status"]["containerStatuses"][0]["state"];
    *state = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let answers = vec![(200, killed.clone()), (200, json!(known)), (201, json!({}))];
    let job = ended().await;
    let looked = look(known, vec![job.clone()], 1, answers).await;
    let status = looked.asked[1].2["status"].clone();
    assert_eq!(status["failures"], 1);
    let told = status["conditions"][0]["message"].as_str().unwrap();
    assert!(told.contains("OOMKilled"), "{told}");
    let answers = vec![(200, killed), (200, json!({"metadata": {}}))];
    let looked = look(backup(&status), vec![job], 1, answers).await;
    let methods: Vec<&str> = looked.asked.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(methods, ["GET", "DELETE"]);
}

#[tokio::test]
async fn a_job_that_is_rejected_is_told_in_the_words_of_the_api_server() {
    let known = backup(&recorded_status().await);
    let forbidden =
        json!({"kind": "Status", "code": 403, "message": "exceeded quota", "reason": "Forbidden"});
    let answers = vec![
        (200, json!(known)),
        (403, forbidden),
        (200, json!(known)),
        (201, json!({})),
    ];
    let looked = look(known, vec![], 1, answers).await;
    assert_eq!(looked.result, Ok(()));
    let status = &looked.asked[2].2["status"];
    assert_eq!(status["failures"], 1);
    let told = status["conditions"][0]["message"].as_str().unwrap();
    assert!(told.contains("exceeded quota"), "{told}");
}

/// A status with a backup in the store, and its verification as the operator records it.
async fn verified_status() -> (Value, Value) {
    let mut known = backup(&json!({}));
    known.spec.verify = Some(Verification {
        identity_secret: Some("age".to_owned()),
        memory_limit: Some(api::Quantity("1Gi".to_owned())),
        ..Verification::default()
    });
    known.status = serde_json::from_value(json!({
        "completionTime": "2026-11-18T12:00:09Z",
        "memory": {"objectUID": "backup-uid", "done": "x",
                   "newest": {"id": "x", "clusterID": "abc", "time": "2026-11-18T12:00:09Z", "rawBytes": 1_048_577}},
    }))
    .unwrap();
    let spec = json!(known)["spec"].clone();
    let looked = look(known.clone(), vec![], 1, vec![(200, json!(known))]).await;
    let status = looked.asked[0].2["status"].clone();
    assert_eq!(status["memory"]["verify"]["id"], "verify-x");
    let methods: Vec<&str> = looked.asked.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(methods, ["PUT"], "recorded first");
    (spec, status)
}

fn verifying(spec: &Value, status: &Value) -> EtcdBackup {
    let mut known = json!(backup(status));
    known["spec"] = spec.clone();
    serde_json::from_value(known).unwrap()
}

#[tokio::test]
async fn a_verification_runs_the_clusters_etcd_with_the_keeper_copied_in() {
    let (spec, status) = verified_status().await;
    let known = verifying(&spec, &status);
    let answers = vec![
        (200, json!(known)),
        (201, json!({"metadata": {"name": "job"}})),
    ];
    let looked = look(known.clone(), vec![], 1, answers.clone()).await;
    let mut posts = looked.asked.iter().filter(|it| it.0 == "POST");
    let (_, path, job) = posts.next_back().unwrap().clone();
    assert_eq!(path, format!("{JOBS}?"));
    assert_eq!(job["metadata"]["name"], "nightly-verify-x-0");
    assert!(job["metadata"]["annotations"]["etcd.etcd.io/verifies"].is_string());
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let (copy, keeper) = (&pod["initContainers"][0], &pod["containers"][0]);
    assert_eq!(copy["image"], "operator:1");
    assert_eq!(copy["command"][1], "install");
    assert_eq!(keeper["image"], "quay.io/coreos/etcd:v3.5.35");
    assert_eq!(keeper["command"][0], copy["command"][2]);
    assert_eq!(keeper["resources"]["limits"]["memory"], "1Gi");
    for container in [copy, keeper] {
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(
            container["securityContext"]["allowPrivilegeEscalation"],
            false
        );
        assert!(container["resources"]["limits"]["memory"].is_string());
    }
    // Four of its mebibytes, rounded up, and a gibibyte.
    assert_eq!(pod["volumes"][0]["emptyDir"]["sizeLimit"], "1028Mi");
    let names: Vec<&Value> = pod["volumes"].as_array().unwrap().iter().collect();
    assert!(names.iter().any(|it| it["secret"]["secretName"] == "age"));
    let told: Value = serde_json::from_str(keeper["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(told["task"]["kind"], "verify");
    assert_eq!(told["task"]["place"]["clusterId"], "abc");
    assert_eq!(
        (&told["task"]["id"], &told["task"]["run"]),
        (&json!("x"), &json!("verify-x"))
    );

    // Its places are those of backups.
    let looked = look(known, vec![], 0, answers).await;
    assert!(looked.asked.iter().all(|it| it.0 != "POST"));
}

#[tokio::test]
async fn the_job_of_a_verification_is_not_taken_for_that_of_a_backup() {
    let (spec, status) = verified_status().await;
    let known = verifying(&spec, &status);
    let answers = vec![
        (200, json!(known)),
        (201, json!({"metadata": {"name": "job"}})),
    ];
    let looked = look(known.clone(), vec![], 1, answers).await;
    let mut job = looked.asked.last().unwrap().2.clone();
    job["metadata"]["uid"] = json!("job-uid");
    job["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    let job: Job = serde_json::from_value(job).unwrap();
    let said = json!({"result": "failed", "cause": "Damaged", "message": "its hash differs"});
    let answers = vec![
        (200, pod(&said.to_string())),
        (200, json!(known)),
        (201, json!({})),
    ];
    let looked = look(known, vec![job.clone()], 1, answers).await;
    assert_eq!(looked.result, Ok(()));
    let status = looked.asked[1].2["status"].clone();
    assert_eq!(status["memory"]["damage"]["id"], "x");
    let conditions = status["conditions"].as_array().unwrap();
    let verified = conditions
        .iter()
        .find(|it| it["type"] == "Verified")
        .unwrap();
    assert_eq!(
        (&verified["status"], &verified["reason"]),
        (&json!("False"), &json!("BackupDamaged"))
    );
    let event = &looked.asked[2].2;
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("BackupDamaged"))
    );
    // The next look deletes it.
    let known = verifying(&spec, &status);
    let answers = vec![
        (200, pod(&said.to_string())),
        (200, json!(known)),
        (200, json!({"metadata": {}})),
    ];
    let looked = look(known, vec![job], 1, answers).await;
    let (method, path, _) = looked.asked.last().unwrap();
    assert_eq!(
        (method.as_str(), path.as_str()),
        ("DELETE", &*format!("{JOBS}/nightly-verify-x-0?"))
    );
}
