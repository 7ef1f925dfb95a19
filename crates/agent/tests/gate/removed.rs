//! Data of members that were removed from the cluster.

use std::fs;

use gate::State;

use crate::{
    etcd::{Member, binaries},
    support::free_port,
};

#[test]
fn data_of_a_removed_member_is_set_aside_and_no_other() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        let granted = member.pod.identity();
        member.pod.removed = "1,zz,abcdef".into();
        member.pod.annotate("");
        let process = member.start();
        member.await_serving();
        assert!(member.has_key());
        drop(process);

        member.pod.removed = format!("1, {}", status.member_id.to_uppercase());
        member.pod.annotate("");
        let aside = format!("removed-{}", status.member_id);
        // A second start finds nothing more to do, and still says what happened.
        for _ in 0..2 {
            let _process = member.start();
            let report = member.pod.await_state(State::Empty);
            assert_eq!(report.data, None);
            assert!(report.detail.contains(&aside), "{}", report.detail);
            let aside = member.pod.volume().join(&aside);
            assert!(aside.join("member/snap/db").exists());
            let identity = fs::read(aside.join("identity.json")).unwrap();
            assert_eq!(identity, serde_json::to_vec(&granted).unwrap());
            assert!(!member.pod.volume().join("identity.json").exists());
        }

        // Another member in its place is not concerned. Another URL makes another ID.
        member.peer = free_port();
        let process = member.start();
        let report = member.pod.await_state(State::Empty);
        member.pod.grant(&report.nonce, member.bootstrap(false));
        member.await_serving();
        assert!(!member.has_key());
        drop(process);
        let _process = member.start();
        member.await_serving();
    }
}

#[test]
fn data_of_a_removed_member_in_the_volumes_root_is_set_aside() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        member.make_old();
        member.pod.removed.clone_from(&status.member_id);
        member.pod.annotate("");
        let _process = member.start();
        let report = member.pod.await_state(State::Empty);
        let aside = format!("removed-{}", status.member_id);
        assert!(report.detail.contains(&aside), "{}", report.detail);
        let aside = member.pod.volume().join(aside);
        assert!(aside.join("member/snap/db").exists());
        assert!(!member.pod.volume().join("member").exists());
    }
}

#[test]
fn a_member_that_is_removed_during_its_wait_is_not_resumed() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        member.pod.uid = "another";
        let process = member.start();
        let report = member.pod.await_state(State::OtherObject);
        member.pod.removed.clone_from(&status.member_id);
        member.pod.grant(&report.nonce, status.resume());
        let refusal = member.pod.await_refusal().detail;
        assert!(
            refusal.contains("was removed from the cluster"),
            "{refusal}"
        );
        drop(process);
        let _process = member.start();
        member.pod.await_state(State::Empty);
    }
}
