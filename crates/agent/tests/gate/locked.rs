//! Members whose clients and peers use TLS, with real etcd.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use gate::State;
use pki::Authority;
use serde_json::json;

use crate::{
    etcd::{Member, binaries},
    support::{await_some, get},
    survivor::BUMP,
    tls::{Tls, authority},
};

const TRANSPORT: &str = "client=Tls,peer=Tls";
/// So many entries, and etcd sends a member that joins a snapshot (3.6 and later).
const ENTRIES: usize = 150;

fn member(etcd: &Path, name: &'static str, authority: &Authority) -> Member {
    let mut member = Member::new(etcd, name);
    member.pod = Tls::pod(authority);
    member.pod.transport = Some(TRANSPORT);
    member
}

/// What etcd answers on the secure port once it has taken it over.
fn assert_taken_over(member: &Member) {
    let tls = member.pod.tls.as_ref().unwrap();
    assert_eq!(tls.get(tls.port, "/gate").unwrap().0, 404);
    let (status, page) = tls.get(tls.port, "/metrics").unwrap();
    assert!(status == 200 && page.contains("etcd_server_has_leader"));
    assert_eq!(get(tls.port, "/metrics"), None);
}

#[test]
fn a_member_joins_over_tls_in_its_first_run() {
    for etcd in binaries() {
        let authority = authority();
        let first = member(&etcd, "m0", &authority);
        let _first = first.found();
        assert_taken_over(&first);
        for _ in 0..ENTRIES {
            first.call("kv/put", &json!({"key": "Zm9v", "value": "YmFy"}));
        }
        let second = member(&etcd, "m1", &authority);
        let _second = second.start();
        let id = first.invite(&second);
        second.await_clients();
        let log = second.pod.log();
        assert!(log.contains("the first run has ended"), "{log}");
        assert!(!log.contains("failed to publish"), "{log}");
        assert_eq!(second.status().member_id, format!("{id:x}"));
        await_some("all of it", || {
            (second.status().index >= first.status().index).then_some(())
        });
        assert_taken_over(&second);
        assert_eq!(second.pod.identity().transport.as_deref(), Some(TRANSPORT));
    }
}

#[test]
fn a_survivor_that_used_tls_is_recovered() {
    for etcd in binaries() {
        let authority = authority();
        let mut first = member(&etcd, "m0", &authority);
        let (running, second) = (first.found(), member(&etcd, "m1", &authority));
        let joined = second.start();
        let id = first.invite(&second);
        second.await_clients();
        // A voter, so that the first alone has no quorum.
        let promote = json!({"ID": id.to_string()});
        await_some("the promotion", || {
            first.try_call("cluster/member/promote", &promote)
        });
        let (old, revision) = (first.status(), first.revision());
        drop((running, joined));

        first.raise_fence();
        let _again = first.start();
        let report = first.grant_recovery(&old);
        assert_eq!(
            report.data.unwrap().identity.unwrap().transport.as_deref(),
            Some(TRANSPORT)
        );
        await_some("a recovered member", || {
            first.try_call("maintenance/status", &json!({}))
        });
        assert!(first.has_key());
        assert_eq!(first.revision(), revision + BUMP);
        assert_ne!(first.status().cluster_id, old.cluster_id);
        let identity = first.pod.identity();
        assert_eq!(
            (identity.incarnation, identity.transport.as_deref()),
            (2, Some(TRANSPORT))
        );
        let listed = first.call("cluster/member/list", &json!({}));
        assert_eq!(
            listed["members"][0]["peerURLs"][0],
            first.peer_url().as_str()
        );
        assert_eq!(listed["members"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_start_on_data_notes_how_it_speaks_where_that_changed() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        let file = member.pod.volume().join("identity.json");
        let inode = || fs::metadata(&file).unwrap().ino();
        let (plain, before) = (member.pod.identity(), inode());
        assert_eq!(plain.transport, None);
        let restart = |member: &Member| {
            let process = member.start();
            member.await_serving();
            drop(process);
        };
        restart(&member);
        assert_eq!(inode(), before, "what is so already is not written again");
        member.pod.transport = Some("client=Both,peer=Both");
        restart(&member);
        let noted = member.pod.identity();
        assert_eq!(noted.transport.as_deref(), member.pod.transport);
        let expected = gate::Identity {
            transport: noted.transport.clone(),
            ..plain.clone()
        };
        assert_eq!(noted, expected);
        // Another object that finds the data is told.
        member.pod.uid = "99999999-2222-3333-4444-555555555555";
        let process = member.start();
        let told = member
            .pod
            .await_state(State::OtherObject)
            .data
            .unwrap()
            .identity;
        assert_eq!(told, Some(noted));
        drop(process);
        member.pod.uid = crate::support::UID;
        member.pod.transport = None;
        restart(&member);
        assert_eq!(member.pod.identity(), plain);
        drop(status);
    }
}
