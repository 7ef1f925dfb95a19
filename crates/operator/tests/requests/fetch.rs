//! The Job that brings a backup to a volume.

use api::v1alpha1::backup::S3;
use api::v1alpha1::memory::{ReplaceMemory, RestoreMemory};
use api::v1alpha1::restore::{BackupLocation, RestoreFrom};
use plan::backup::JobState;
use plan::decision::Fetch;
use plan::observed::{FetchJob, ReplaceRequest, RestoreWish};

use super::*;

fn wish() -> RestoreWish {
    let from = RestoreFrom {
        source: Some(BackupLocation {
            s3: Some(S3 {
                bucket: "bucket".into(),
                access_key_secret: Some("keys".into()),
                secret_key_secret: Some("keys".into()),
                ..S3::default()
            }),
            cluster_name: Some("old".into()),
            ..BackupLocation::default()
        }),
        identity_secret: Some("age".into()),
        ..RestoreFrom::default()
    };
    RestoreWish::resolve(&from, "prod", None).unwrap()
}

/// A backup is to be brought to the claim of `db-0`, and no pod stands on it.
fn waiting() -> Observed {
    let mut observed = observed();
    observed.pods.clear();
    observed.cluster.latched.bootstrap = None;
    observed.cluster.latched.restore = Some(Box::new(RestoreMemory {
        wish: wish().hash,
        member: "db-0".into(),
        claim_uid: "claim-1".into(),
        ..RestoreMemory::default()
    }));
    observed.restore.wish = Some(Ok(Box::new(wish())));
    observed
}

fn brings() -> Fetch {
    Fetch {
        ordinal: 0,
        claim_uid: "claim-1".into(),
        attempt: 0,
        wish: wish(),
        check: false,
    }
}

fn fetch() -> Step {
    Step::Fetch(Box::new(brings()))
}

fn unchanged() -> (u16, Value) {
    let metadata = json!({"name": "db", "namespace": "prod", "resourceVersion": "7"});
    let kind = "PartialObjectMetadata";
    (
        200,
        json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata}),
    )
}

async fn done(
    observed: &Observed,
    step: Step,
    answers: Vec<(u16, Value)>,
) -> (Outcome, Vec<Recorded>) {
    let (client, asked) = recorded(answers);
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(&cluster(), observed, &decision(step), &ctx)).await;
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

#[tokio::test]
async fn the_job_mounts_the_volume_of_the_member_and_the_secrets_by_reference() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}});
    let (outcome, asked) = done(&waiting(), fetch(), vec![unchanged(), (201, job)]).await;
    assert_eq!(outcome, Outcome::Done);
    let (method, path, body) = &asked[1];
    assert_eq!(method, "POST");
    assert_eq!(
        path,
        "/apis/batch/v1/namespaces/prod/jobs?&fieldManager=etcd-operator"
    );
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("EtcdCluster"), &json!("u"))
    );
    let run: Value = serde_json::from_str(
        body["metadata"]["annotations"]["etcd.etcd.io/run"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        (&run["member"], &run["claimUID"]),
        (&json!("db-0"), &json!("claim-1"))
    );
    let pod = &body["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], json!(false));
    assert_eq!(body["spec"]["backoffLimit"], json!(0));
    let volumes = pod["volumes"].as_array().unwrap();
    assert_eq!(
        volumes[0]["persistentVolumeClaim"]["claimName"],
        "data-db-0"
    );
    let text = body.to_string();
    assert!(text.contains(r#""secretName":"age""#), "{text}");
    assert!(text.contains(r#""name":"keys""#), "{text}");
    let labels = &body["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        labels["app.kubernetes.io/name"], "etcd-keeper",
        "no Service selects it"
    );
}

/// An EtcdRestore names the cluster, which serves.
fn named() -> Observed {
    let mut observed = observed();
    observed.cluster.latched.cluster_id = Some(1);
    observed.cluster.latched.bootstrap = None;
    observed.cluster.latched.replace = Some(Box::new(ReplaceMemory {
        by: "restore-1".into(),
        ..ReplaceMemory::default()
    }));
    observed.restore.requests.push(ReplaceRequest {
        uid: "restore-1".into(),
        name: "back".into(),
        replaces: Some(1),
        wish: Ok(Box::new(wish())),
    });
    observed
}

fn check() -> Step {
    Step::Fetch(Box::new(Fetch {
        claim_uid: "restore-1".into(),
        check: true,
        ..brings()
    }))
}

#[tokio::test]
async fn a_job_that_only_reads_mounts_no_volume_of_a_member() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}});
    let (outcome, asked) = done(&named(), check(), vec![unchanged(), (201, job)]).await;
    assert_eq!(outcome, Outcome::Done);
    let text = asked[1].2.to_string();
    assert!(!text.contains("persistentVolumeClaim"), "{text}");
    assert!(!text.contains("into"), "{text}");
    assert!(text.contains(r#""secretName":"age""#), "{text}");
    let name = asked[1].2["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("db-check-"), "{name}");
}

#[tokio::test]
async fn no_job_is_created_for_an_object_that_names_another_cluster() {
    let mut observed = named();
    observed.restore.requests[0].replaces = Some(2);
    let (client, asked) = recorded(vec![]);
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(&cluster(), &observed, &decision(check()), &ctx)).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_job_that_is_there_already_is_as_good() {
    let (outcome, _) = done(
        &waiting(),
        fetch(),
        vec![unchanged(), refusal(409, "AlreadyExists")],
    )
    .await;
    assert_eq!(outcome, Outcome::Done);
    let (outcome, _) = done(
        &waiting(),
        fetch(),
        vec![unchanged(), refusal(403, "exceeded quota: jobs")],
    )
    .await;
    assert!(matches!(outcome, Outcome::Failed(why) if why.contains("exceeded quota")));
}

#[tokio::test]
async fn a_job_is_not_created_beside_a_pod() {
    let mut observed = waiting();
    observed.pods.insert(0, held());
    let (client, asked) = recorded(vec![]);
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(&cluster(), &observed, &decision(fetch()), &ctx)).await;
    assert!(matches!(outcome, Outcome::Failed(why) if why.contains("invariant 6")));
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_job_that_was_seen_is_deleted_with_its_pod() {
    let mut observed = waiting();
    observed.restore.job = Some(Box::new(FetchJob {
        name: "db-restore".into(),
        uid: "job-1".into(),
        wish: wish().hash,
        member: "db-0".into(),
        claim_uid: "claim-1".into(),
        attempt: 0,
        state: JobState::Lost("gone".into()),
    }));
    let end = Step::EndFetch {
        name: "db-restore".into(),
        uid: "job-1".into(),
    };
    let (outcome, asked) = done(
        &observed,
        end,
        vec![(200, json!({"kind": "Status", "apiVersion": "v1"}))],
    )
    .await;
    assert_eq!(outcome, Outcome::Done);
    let (method, path, body) = &asked[0];
    assert_eq!(
        (method.as_str(), path.as_str()),
        ("DELETE", "/apis/batch/v1/namespaces/prod/jobs/db-restore?")
    );
    assert_eq!(body["preconditions"]["uid"], "job-1");
    assert_eq!(body["propagationPolicy"], "Foreground");
}
