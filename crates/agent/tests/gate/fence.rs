//! Data of an earlier incarnation behind the fence.

use std::fs;

use gate::{Action, State};
use serde_json::json;

use crate::{
    etcd::{Member, Status, binaries},
    support::{await_some, get},
};

#[test]
fn fenced_data_waits_and_tells_how_far_it_goes() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        let granted = member.pod.identity();
        member.raise_fence();
        let process = member.start();
        let report = member.pod.await_state(State::Fenced);
        let data = report.data.unwrap();
        assert_eq!(
            (&data.cluster_id, &data.member_id),
            (&status.cluster_id, &status.member_id)
        );
        assert_eq!((data.term, data.index), (status.term, status.index));
        assert!(data.commit > 0 && data.commit <= data.index, "{data:?}");
        assert_eq!(data.identity, Some(granted));
        assert!(report.detail.contains("incarnation 1"), "{}", report.detail);
        let readyz = (503, "waiting at the gate: Fenced\n".into());
        assert_eq!(get(member.pod.port, "/readyz"), Some(readyz));
        // Within one process a fence that was seen stands.
        member.pod.fence = None;
        member.pod.annotate("");
        member.pod.grant(&report.nonce, member.bootstrap(false));
        assert_eq!(member.pod.await_refusal().state, State::Fenced);
        drop(process);

        for fence in ["two", "2"] {
            let identity = member.pod.volume().join("identity.json");
            let text = fs::read(&identity).unwrap();
            fs::remove_file(&identity).unwrap();
            member.pod.fence = Some(fence.into());
            member.pod.annotate("");
            let process = member.start();
            let report = member.pod.await_state(State::Fenced);
            assert_eq!(report.data.unwrap().identity, None);
            drop(process);
            fs::write(identity, text).unwrap();
        }
        member.pod.fence = Some("1".into());
        member.pod.annotate("");
        let _process = member.start();
        member.await_serving();
        assert!(member.has_key());
    }
}

#[test]
fn a_fence_that_comes_during_a_wait_begins_another() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        fs::remove_file(member.pod.volume().join("identity.json")).unwrap();
        member.pod.annotate("");
        let _process = member.start();
        let before = member.pod.await_state(State::Unidentified);
        member.raise_fence();
        // Both at once, as the kubelet may deliver them.
        member.pod.incarnation = 1;
        member.pod.grant(&before.nonce, status.resume());
        let after = member.pod.await_detail("held back by the fence");
        assert_eq!(after.state, State::Fenced);
        assert_ne!(after.nonce, before.nonce);
    }
}

#[test]
fn an_empty_volume_is_empty_behind_the_fence_too() {
    for etcd in binaries() {
        let mut member = Member::new(&etcd, "m0");
        member.raise_fence();
        let _process = member.start();
        let report = member.pod.await_state(State::Empty);
        member.pod.incarnation = 1;
        member.pod.grant(&report.nonce, member.bootstrap(false));
        member.pod.await_detail("behind the fence of incarnation 2");
        member.pod.incarnation = 2;
        member.pod.grant(&report.nonce, member.bootstrap(false));
        member.await_serving();
    }
}

#[test]
fn a_grant_that_was_not_made_for_this_wait_and_this_data_is_not_obeyed() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        member.raise_fence();
        let _process = member.start();
        let report = member.pod.await_state(State::Fenced);
        let nonce = report.nonce.as_str();
        let of = |member_id: &str, cluster_id: &str| Status {
            member_id: member_id.into(),
            cluster_id: cluster_id.into(),
            ..status.clone()
        };
        let (id, cluster) = (status.member_id.as_str(), status.cluster_id.as_str());
        let join = Action::Join {
            token: member.pod.token(),
            initial_cluster: member.initial_cluster(),
            member_id: "1".into(),
            cluster_id: "2".into(),
            discard: false,
        };
        let mut stale = member.recover(&status);
        if let Action::Recover { token, .. } = &mut stale {
            *token = format!("{}-1", member.pod.uid);
        }
        for (action, why) in [
            (member.recover(&of("1", cluster)), "it is for member 1"),
            (member.recover(&of(id, "2")), "it is for cluster 2"),
            (stale, "its token is"),
            (status.resume(), "the data is held back by the fence"),
            (member.bootstrap(false), "does not say discard"),
            (join, "does not say discard"),
        ] {
            member.pod.grant(nonce, action);
            let told = member.pod.await_detail(why).detail;
            assert!(told.contains("grant refused: "), "{told}");
            // Made for another wait, it is nothing; and the refusal before it is over.
            member.pod.grant("another-wait", member.recover(&status));
            await_some("an end of the refusal", || {
                (member.pod.report()? == report).then_some(())
            });
        }
        member.pod.incarnation = 1;
        member.pod.grant(nonce, member.recover(&status));
        member.pod.await_detail("behind the fence of incarnation 2");
        assert_eq!(member.pod.await_report().nonce, nonce);
        assert_eq!(member.leftovers(), Vec::<String>::new());
        assert!(
            member
                .try_call("kv/range", &json!({"key": "Zm9v"}))
                .is_none()
        );
    }
}
