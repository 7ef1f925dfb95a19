//! What one member answers while all is well, without a quorum, and after a restart.

use std::path::PathBuf;
use std::time::Duration;

use etcd::Consistency::{Linearizable, Local};
use etcd::{Cause, Error, GateAnswer, Security};

use crate::cluster::{Pair, eventually, handles, serving};
use crate::process::{Loopback, Seat, minor};

pub(crate) async fn a_lone_member_tells_who_it_is(binary: PathBuf) {
    let seat = Seat::new("c-0");
    let _process = seat.start_alone(&binary);
    let [member] = handles([&seat]);
    serving(&member).await;

    let revision = member.put(b"key", b"value").await.unwrap();
    let read = member.get(b"key", Linearizable).await.unwrap().unwrap();
    assert_eq!(
        (read.value.as_slice(), read.mod_revision),
        (&b"value"[..], revision)
    );
    assert_eq!((read.create_revision, read.version), (revision, 1));
    assert_eq!(member.get(b"none", Local).await.unwrap(), None);
    assert_eq!(member.read_linearizable().await.unwrap(), revision);

    let status = member.status().await.unwrap();
    assert!(binary.ends_with(format!("{}/etcd", status.version)));
    assert_eq!(
        (status.leader, status.revision),
        (status.member_id, revision)
    );
    assert!(status.raft_term > 0 && status.raft_applied_index > 0);
    assert!(status.raft_index >= status.raft_applied_index);
    assert!(status.db_size >= status.db_size_in_use && status.db_size_in_use > 0);
    assert_eq!((status.is_learner, status.errors), (false, vec![]));
    let is_newer = !status.version.starts_with("3.5.");
    assert_eq!(status.db_size_quota, is_newer.then_some(2 << 30));
    assert_eq!(status.downgrade, None);
    // 3.7 may say 3.5.0 for an instant after it was bootstrapped.
    eventually("the storage version is that of the binary", async || {
        let found = member.status().await.unwrap().storage_version;
        let expected = is_newer.then(|| format!("{}.0", minor(&binary)));
        (found == expected).then_some(())
    })
    .await;

    let list = member.member_list(Linearizable).await.unwrap();
    assert_eq!(
        (list.cluster_id, list.answered_by),
        (status.cluster_id, status.member_id)
    );
    let [alone] = list.members.try_into().unwrap();
    assert_eq!((alone.id, alone.name.as_str()), (status.member_id, "c-0"));
    assert_eq!(
        (alone.peer_urls, alone.is_learner),
        (vec![seat.peer_url()], false)
    );
    assert_eq!(alone.client_urls.len(), 1);
}

pub(crate) async fn without_a_quorum_only_local_answers_remain(binary: PathBuf) {
    let Pair {
        members: [survivor, _],
        processes: [_alive, dead],
        ..
    } = Pair::new(&binary).await;
    drop(dead);

    let refused = survivor
        .member_add_learner("http://127.0.0.1:1")
        .await
        .unwrap_err();
    assert!(
        matches!(refused.cause, Cause::UnhealthyCluster),
        "{refused:?}"
    );
    assert!(!refused.outcome_is_unknown());

    let hasty = survivor.clone().with_deadline(Duration::from_millis(300));
    let unanswered = hasty.member_list(Linearizable).await.unwrap_err();
    assert!(unanswered.outcome_is_unknown(), "{unanswered:?}");
    let unanswered = hasty.read_linearizable().await.unwrap_err();
    assert!(unanswered.outcome_is_unknown(), "{unanswered:?}");
    let list = survivor.member_list(Local).await.unwrap();
    assert_eq!(list.members.len(), 2);
    eventually("the survivor misses its leader", async || {
        survivor
            .status()
            .await
            .ok()
            .filter(|status| status.leader == 0)
    })
    .await;
}

pub(crate) async fn a_handle_survives_the_restart_of_its_member(binary: PathBuf) {
    let seat = Seat::new("c-0");
    let process = seat.start_alone(&binary);
    let [member] = handles([&seat]);
    serving(&member).await;
    let revision = member.put(b"key", b"value").await.unwrap();

    drop(process);
    let down = eventually("the member is gone", async || match member.status().await {
        Err(Error {
            cause: Cause::Connect { source },
            ..
        }) => Some(source),
        _ => None,
    })
    .await;
    assert_eq!(down.kind(), std::io::ErrorKind::ConnectionRefused);

    let _process = seat.start_alone(&binary);
    serving(&member).await;
    let read = member.get(b"key", Linearizable).await.unwrap().unwrap();
    assert_eq!(read.mod_revision, revision);
}

pub(crate) async fn etcd_answers_on_the_port_of_the_gate(binary: PathBuf) {
    let seat = Seat::new("c-0");
    let _process = seat.start_alone(&binary);
    let (connect, target) = (Loopback::new(&[&seat]), seat.target());
    let answer = eventually("etcd's metrics port answers", async || {
        etcd::gate_report(&connect, &target, &Security::Plain, Duration::from_secs(2))
            .await
            .ok()
    })
    .await;
    assert_eq!(answer, GateAnswer::Running);
}
