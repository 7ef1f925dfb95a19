//! The lease: a conflict says that something wrote in between, not that another replica holds it.

use std::time::{Duration, Instant};

use operator::lease::{Election, Times};

use super::*;

fn times() -> Times {
    let millis = Duration::from_millis;
    Times {
        duration: millis(3000),
        renew_within: millis(2000),
        renewal: millis(10),
        retry: millis(10),
        attempt: millis(1000),
    }
}

fn lease(holder: &str, version: &str) -> (u16, Value) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "etcd-operator", "resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}});
    (200, lease)
}

/// Holds the lease until it is lost; what was asked meanwhile.
async fn hold(answers: Vec<(u16, Value)>) -> Vec<(String, Value)> {
    let (client, asked) = recorded(answers);
    let election = Election::new(&client, "default", "us").with_times(times());
    let start = Instant::now();
    election.hold(start).await;
    assert!(start.elapsed() < times().renew_within, "it ran out");
    let asked = asked.lock().unwrap().clone();
    let version = |body: &Value| body.pointer("/metadata/resourceVersion").cloned();
    asked
        .iter()
        .map(|(method, _, body)| (method.clone(), version(body).unwrap_or_default()))
        .collect()
}

fn requests(wanted: &[(&str, Option<&str>)]) -> Vec<(String, Value)> {
    let one = |(method, version): &(&str, Option<&str>)| ((*method).to_owned(), json!(version));
    wanted.iter().map(one).collect()
}

#[tokio::test]
async fn a_lease_that_something_else_wrote_to_is_read_again_and_renewed() {
    let asked = hold(vec![
        lease("us", "1"),
        refusal(409, "Conflict"),
        lease("us", "2"),
        lease("us", "3"),
        lease("another", "4"),
    ])
    .await;
    let wanted = [
        ("GET", None),
        ("PUT", Some("1")),
        ("GET", None),
        ("PUT", Some("2")),
        ("GET", None),
    ];
    assert_eq!(asked, requests(&wanted));
}

#[tokio::test]
async fn a_lease_that_another_replica_took_is_lost_at_once() {
    let asked = hold(vec![
        lease("us", "1"),
        refusal(409, "Conflict"),
        lease("another", "2"),
    ])
    .await;
    assert_eq!(
        asked,
        requests(&[("GET", None), ("PUT", Some("1")), ("GET", None)])
    );
}

#[tokio::test]
async fn a_lease_that_is_written_to_all_the_time_is_tried_for_again_within_its_time() {
    let mut answers: Vec<_> = (0..4)
        .flat_map(|_| [lease("us", "1"), refusal(409, "Conflict")])
        .collect();
    answers.extend([lease("us", "2"), lease("us", "3"), lease("another", "4")]);
    let asked = hold(answers).await;
    assert_eq!(asked.len(), 11);
}
