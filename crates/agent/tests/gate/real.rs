//! The gate in front of real etcd processes, on every minor that is supported.

use std::{
    fs,
    net::TcpStream,
    process::{Command, Stdio},
};

use gate::State;
use serde_json::json;

use crate::{
    etcd::{Member, Status, binaries},
    support::{AGENT, await_some, get},
};

fn probe(port: u16) -> Option<i32> {
    let arguments = ["probe", "--listen-port", &port.to_string()];
    Command::new(AGENT)
        .args(arguments)
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .code()
}

#[test]
fn bootstraps_once_and_then_restarts_without_a_grant() {
    for etcd in binaries() {
        let member = Member::new(&etcd, "m0");
        let mut process = member.start();
        let report = member.pod.await_state(State::Empty);
        // Served, idle and closed connections must not keep etcd from binding the same port.
        let idle: Vec<_> = (0..5)
            .map(|_| TcpStream::connect(("127.0.0.1", member.pod.port)).unwrap())
            .collect();
        for _ in 0..5 {
            assert_eq!(get(member.pod.port, "/livez").unwrap().0, 200);
        }
        member.pod.grant(&report.nonce, member.bootstrap(false));
        member.await_serving();
        drop(idle);
        let running = fs::read_link(format!("/proc/{}/exe", process.id())).unwrap();
        assert_eq!(
            running,
            fs::canonicalize(&etcd).unwrap(),
            "exec keeps the process"
        );
        assert_eq!(probe(member.pod.port), Some(0));
        member.call("kv/put", &json!({"key": "Zm9v", "value": "YmFy"}));
        let before = member.status();

        // The old grant is still there; it is not needed any more.
        for signal in ["TERM", "KILL"] {
            process.signal(signal);
            process.await_exit();
            process = member.start();
            member.await_serving();
            assert!(member.has_key());
            let now = member.status();
            assert_eq!(
                (now.cluster_id, now.member_id),
                (before.cluster_id.clone(), before.member_id.clone())
            );
        }
    }
}

#[test]
fn a_wiped_directory_waits_and_the_old_grant_does_not_count() {
    for etcd in binaries() {
        let (member, _) = Member::bootstrapped(&etcd);
        let granted = member.pod.identity();
        fs::remove_dir_all(member.pod.volume().join("data")).unwrap();
        let _process = member.start();
        let report = member.pod.await_state(State::Empty);
        assert_ne!(report.nonce, granted.nonce);
        assert!(report.detail.contains(&granted.nonce), "{}", report.detail);
        for _ in 0..5 {
            assert_eq!(member.pod.await_report(), report);
        }
    }
}

#[test]
fn data_of_another_object_tells_who_it_is_and_is_resumed() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        let granted = member.pod.identity();
        member.pod.uid = "another";
        let process = member.start();
        let report = member.pod.await_state(State::OtherObject);
        let data = report.data.clone().unwrap();
        assert_eq!(
            (&data.cluster_id, &data.member_id),
            (&status.cluster_id, &status.member_id)
        );
        assert_eq!((data.term, data.index), (status.term, status.index));
        assert!(data.commit > 0 && data.commit <= data.index, "{data:?}");
        assert_eq!(data.identity, Some(granted));

        let stranger = Status {
            member_id: "1".into(),
            ..status.clone()
        };
        member.pod.grant(&report.nonce, stranger.resume());
        assert!(
            member
                .pod
                .await_refusal()
                .detail
                .contains("it is for member 1")
        );
        member.pod.grant(&report.nonce, member.bootstrap(false));
        await_some("the next refusal", || {
            member
                .pod
                .report()?
                .detail
                .contains("does not say discard")
                .then_some(())
        });
        member.pod.grant(&report.nonce, status.resume());
        member.await_serving();
        assert!(member.has_key());
        drop(process);

        let identity = member.pod.identity();
        assert_eq!(
            (identity.cluster_uid.as_str(), identity.nonce),
            ("another", report.nonce)
        );
        assert_eq!(identity.member_id, Some(status.member_id));
        let _again = member.start();
        member.await_serving();
    }
}

#[test]
fn data_without_or_against_its_identity_waits() {
    for etcd in binaries() {
        let (member, status) = Member::bootstrapped(&etcd);
        let mut identity = member.pod.identity();
        identity.member_id = Some("abc".into());
        member.pod.write_identity(&identity);
        let process = member.start();
        let report = member.pod.await_state(State::Mismatch);
        assert_eq!(report.data.unwrap().member_id, status.member_id);
        assert!(report.detail.contains("abc"), "{}", report.detail);
        drop(process);

        fs::remove_file(member.pod.volume().join("identity.json")).unwrap();
        let _process = member.start();
        let report = member.pod.await_state(State::Unidentified);
        assert_eq!(report.data.unwrap().identity, None);
        member.pod.grant(&report.nonce, status.resume());
        member.await_serving();
        assert!(member.has_key());
    }
}

#[test]
fn joins_as_a_learner_which_is_not_ready_before_it_is_promoted() {
    for etcd in binaries() {
        let first = Member::new(&etcd, "m0");
        let _first = first.found();
        let second = Member::new(&etcd, "m1");
        let process = second.start();
        let id = first.invite(&second);
        let member_id = format!("{id:x}");
        let cluster_id = first.status().cluster_id;
        second.await_clients();
        await_some("a learner", || {
            get(second.pod.port, "/metrics")?
                .1
                .contains("\netcd_server_is_learner 1\n")
                .then_some(())
        });
        assert_eq!(probe(second.pod.port), Some(1), "a learner is not ready");
        await_some("a promotion", || {
            first.try_call("cluster/member/promote", &json!({"ID": id.to_string()}))
        });
        await_some("a voter that is ready", || {
            (probe(second.pod.port) == Some(0)).then_some(())
        });
        drop(process);

        let identity = second.pod.identity();
        assert_eq!(
            (identity.member_id, identity.cluster_id),
            (Some(member_id.clone()), Some(cluster_id))
        );
        let _again = second.start();
        second.await_serving();
        assert_eq!(second.status().member_id, member_id);
    }
}
