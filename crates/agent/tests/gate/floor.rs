//! Data of ours that is not what its pod should have: it ends too early, or is that of another pod.

use gate::State;

use crate::etcd::{Member, binaries};

#[test]
fn a_log_that_reaches_its_floor_starts_and_a_shorter_one_waits() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        let (id, index) = (status.member_id.clone(), status.index);
        // Of itself no more than it has, of another one whatever.
        member.pod.floors = format!("{id}={index},1={}", u64::MAX);
        member.pod.annotate("");
        let process = member.start();
        member.await_serving();
        assert!(member.has_key());
        // Restarts add entries of their own, but not so many.
        let more = member.status().index + 1000;
        drop(process);

        member.pod.floors = format!("{id}={more}");
        member.pod.annotate("");
        let _process = member.start();
        let report = member.pod.await_state(State::RolledBack);
        let data = report.data.unwrap();
        assert_eq!(data.member_id, id);
        assert!(data.index >= index && data.index < more, "{data:?}");
        assert!(data.written.is_some());
        assert!(report.detail.contains("rolled back"), "{}", report.detail);
        member.pod.grant(&report.nonce, status.resume());
        assert_eq!(member.pod.await_refusal().state, State::RolledBack);
        // The way out for a user: another incarnation, bootstrapped from what is there.
        member.raise_fence();
        let fenced = member.pod.await_detail("held back by the fence");
        assert_eq!(fenced.state, State::Fenced);
        assert_ne!(fenced.nonce, report.nonce);
    }
}

#[test]
fn the_volume_of_another_pod_waits_and_starts_in_its_own() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        member.pod.name = "c-1";
        let process = member.start();
        let report = member.pod.await_state(State::Mismatch);
        assert!(report.detail.contains("that of c-0"), "{}", report.detail);
        let data = report.data.unwrap();
        assert_eq!(data.member_id, status.member_id);
        assert_eq!(data.identity.unwrap().pod.as_deref(), Some("c-0"));
        drop(process);

        member.pod.name = "c-0";
        let _process = member.start();
        member.await_serving();
        assert!(member.has_key());
    }
}
