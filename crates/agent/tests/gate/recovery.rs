//! Another cluster bootstrapped from the data of a survivor of a lost quorum.

use std::fs;

use gate::{Action, State};
use serde_json::json;

use crate::{
    etcd::{Member, binaries},
    support::{await_some, get, request},
    survivor::{BUMP, Files, Three, Tools, number},
};

#[test]
fn a_survivor_of_three_becomes_another_cluster_with_all_its_keys() {
    for etcd in binaries() {
        let mut three = Three::new(&etcd);
        let (place, old) = three.follower();
        for round in 0..3 {
            for key in 0..10 {
                three.members[0].put(&format!("key-{key}"), &format!("{key} {round}"));
            }
        }
        let deleted = json!({"key": crate::survivor::encode("key-3")});
        three.members[0].call("kv/deleterange", &deleted);
        let (keys, revision) = (three.members[place].keys(), three.members[place].revision());
        assert_eq!(keys.len(), 9);
        three.stop("KILL");
        let survivor = three.leave(place);
        let files = Files::read(&survivor.data().join("member"));

        let process = survivor.start();
        let report = survivor.grant_recovery(&old);
        let new = survivor.assert_recovered(&old, &report, &files);
        assert_eq!(survivor.keys(), keys);
        assert_eq!(survivor.revision(), revision + BUMP);
        // A client that watches from a revision of the old incarnation is told so.
        let body = json!({"key": "AA==", "revision": revision.to_string()}).to_string();
        let (_, answer) = request(survivor.client, "POST /v3/kv/range", &body).unwrap();
        assert!(
            answer.contains("required revision has been compacted"),
            "{answer}"
        );
        assert_eq!(survivor.put("later", "x"), revision + BUMP + 1);
        drop(process);

        // The grant still lies there, and so does the fence.
        let _again = survivor.start();
        survivor.await_serving();
        assert_eq!(survivor.status().cluster_id, new.cluster_id);
        assert_eq!(survivor.keys().len(), 10);
    }
}

/// So every cluster of ours has grown; without its limit of learners etcd does not get through its own log.
#[test]
fn a_survivor_that_joined_with_another_is_recovered() {
    for etcd in binaries() {
        // 3.5 takes one at a time, and knows no such flag.
        let mut parts = etcd.components();
        if parts.any(|part| part.as_os_str().to_string_lossy().starts_with("3.5.")) {
            continue;
        }
        for place in [0, 2] {
            let mut three = Three::grown(&etcd);
            three.members[0].put("kept", "x");
            let old = three.members[place].status();
            three.stop("KILL");
            let survivor = three.leave(place);
            let files = Files::read(&survivor.data().join("member"));
            let _process = survivor.start();
            let report = survivor.grant_recovery(&old);
            survivor.assert_recovered(&old, &report, &files);
            assert_eq!(survivor.keys().len(), 1);
        }
    }
}

/// A crash leaves such a log: what was appended and acknowledged to the leader, which then answered the
/// client, lies above the commit index that this member knew, and is not in its database.
#[test]
fn an_acknowledged_write_above_the_commit_index_is_not_lost() {
    for etcd in binaries() {
        let mut three = Three::new(&etcd);
        three.members[0].put("early", "x");
        three.stop("TERM");
        let databases = three
            .members
            .each_ref()
            .map(|member| fs::read(member.data().join("member/snap/db")).unwrap());
        three.start();
        let (place, old) = three.follower();
        three.members[0].put("late", "the-last-word");
        let late = || {
            await_some("the write", || {
                let bytes = fs::read(three.members[place].wal()).unwrap();
                bytes
                    .windows(13)
                    .any(|window| window == b"the-last-word")
                    .then_some(bytes)
            })
        };
        late();
        three.stop("KILL");
        let survivor = three.leave(place);
        fs::write(survivor.data().join("member/snap/db"), &databases[place]).unwrap();
        cut_after(&survivor, b"the-last-word");

        let _process = survivor.start();
        let report = survivor.grant_recovery(&old);
        let data = report.data.as_ref().unwrap();
        assert!(data.commit < data.index, "{data:?}");
        survivor.await_serving();
        assert_eq!(survivor.keys().len(), 2, "{}", survivor.pod.log());
    }
}

/// Ends the log with the record that holds these bytes.
fn cut_after(member: &Member, wanted: &[u8]) {
    let bytes = fs::read(member.wal()).unwrap();
    let (mut offset, mut end) = (0, None);
    while let Some(field) = bytes.get(offset..offset + 8) {
        let field = u64::from_le_bytes(field.try_into().unwrap());
        if field == 0 {
            break;
        }
        let padding = if field >> 63 == 1 { field >> 56 & 7 } else { 0 };
        let length = usize::try_from((field & ((1 << 56) - 1)) + padding).unwrap();
        let record = &bytes[offset + 8..offset + 8 + length];
        offset += 8 + length;
        if record.windows(wanted.len()).any(|window| window == wanted) {
            end = Some(offset);
        }
    }
    let file = fs::File::options().write(true).open(member.wal()).unwrap();
    file.set_len(u64::try_from(end.unwrap()).unwrap()).unwrap();
}

#[test]
fn the_others_are_regrown_with_their_old_data_set_aside() {
    for etcd in binaries() {
        let mut three = Three::new(&etcd);
        let (_, old) = three.follower();
        three.members[0].put("early", "x");
        let first_status = three.members[0].status();
        three.stop("KILL");
        let [first, mut second, _] = three.members;
        let first = Three::alone(first);
        let _first = first.start();
        first.grant_recovery(&first_status);
        first.await_serving();
        assert_ne!(first.status().cluster_id, old.cluster_id);

        // The second has data of the first incarnation, and comes back through the normal door.
        second = Three::alone(second);
        let files = Files::read(&second.data().join("member"));
        let _second = second.start();
        let report = second.pod.await_state(State::Fenced);
        let peer = format!("http://127.0.0.1:{}", second.peer);
        let added = first.call(
            "cluster/member/add",
            &json!({"peerURLs": [peer], "isLearner": true}),
        );
        let id = added["member"]["ID"].as_str().unwrap();
        let join = |discard| Action::Join {
            token: second.pod.token(),
            initial_cluster: format!("{},{}", first.initial_cluster(), second.initial_cluster()),
            member_id: format!("{:x}", number(&added["member"]["ID"])),
            cluster_id: first.status().cluster_id,
            discard,
        };
        second.pod.grant(&report.nonce, join(false));
        second.pod.await_detail("does not say discard");
        second.pod.grant(&report.nonce, join(true));
        // A member that clients cannot reach is not promoted.
        second.await_clients();
        await_some("a promotion", || {
            first.try_call("cluster/member/promote", &json!({"ID": id}))
        });
        second.await_serving();
        assert_eq!(second.keys(), first.keys());
        assert_eq!(second.status().cluster_id, first.status().cluster_id);
        let aside = second.pod.volume().join(format!("aside-{}", report.nonce));
        assert_eq!(Files::read(&aside.join("member")), files);
    }
}

/// etcd keeps alarms over a restore, in the name of the old member.
#[test]
fn an_alarm_of_the_old_member_is_listed_and_can_be_taken_off_by_its_id() {
    for (etcd, kind) in binaries()
        .iter()
        .flat_map(|etcd| ["NOSPACE", "CORRUPT"].map(|kind| (etcd, kind)))
    {
        let mut member = Member::new(etcd, "m0");
        let process = member.found();
        let old = member.status();
        let id = u64::from_str_radix(&old.member_id, 16).unwrap().to_string();
        let alarm = |action: &str| json!({"action": action, "memberID": id, "alarm": kind});
        member.call("maintenance/alarm", &alarm("ACTIVATE"));
        drop(process);
        member.raise_fence();
        let _process = member.start();
        member.grant_recovery(&old);
        let listed = await_some("an answer", || {
            member.try_call("maintenance/alarm", &json!({}))
        });
        assert_ne!(member.status().member_id, old.member_id);
        assert_eq!(listed["alarms"][0]["memberID"], id.as_str(), "{listed}");
        member.call("maintenance/alarm", &alarm("DEACTIVATE"));
        member.await_serving();
        member.put("later", "x");
    }
}

/// No password is needed, and no client gets in without one afterwards.
#[test]
fn users_and_roles_survive() {
    for etcd in binaries() {
        let mut member = Member::new(&etcd, "m0");
        let process = member.found();
        let old = member.status();
        let root = json!({"name": "root", "password": "secret"});
        member.call("auth/user/add", &root);
        member.call("auth/role/add", &json!({"name": "root"}));
        member.call("auth/user/grant", &json!({"user": "root", "role": "root"}));
        member.call("auth/enable", &json!({}));
        drop(process);
        member.raise_fence();
        let _process = member.start();
        member.grant_recovery(&old);
        await_some("a token", || member.try_call("auth/authenticate", &root));
        let body = json!({"key": "Zm9v"}).to_string();
        let (status, refusal) = request(member.client, "POST /v3/kv/range", &body).unwrap();
        assert_ne!(status, 200, "{refusal}");
        assert!(refusal.contains("user name is empty"), "{refusal}");
    }
}

#[test]
fn a_member_that_is_removed_during_its_wait_is_not_recovered() {
    for etcd in binaries() {
        let (mut member, old) = Member::bootstrapped(&etcd);
        member.raise_fence();
        let _process = member.start();
        let report = member.pod.await_state(State::Fenced);
        member.pod.removed.clone_from(&old.member_id);
        member.pod.grant(&report.nonce, member.recover(&old));
        let refusal = member.pod.await_refusal().detail;
        assert!(
            refusal.contains("was removed from the cluster"),
            "{refusal}"
        );
    }
}

#[test]
fn without_etcdutl_it_waits_and_says_so() {
    for etcd in binaries() {
        let (mut member, old) = Member::bootstrapped(&etcd);
        let tools = Tools::new(&member.pod, &etcd);
        fs::remove_file(tools.path("etcdutl")).unwrap();
        member.etcd = tools.path("etcd");
        member.raise_fence();
        let _process = member.start();
        let report = member.pod.await_state(State::Fenced);
        assert!(
            report.detail.contains("etcdutl is missing"),
            "{}",
            report.detail
        );
        member.pod.grant(&report.nonce, member.recover(&old));
        let refusal = member.pod.await_refusal();
        assert_eq!(
            (refusal.state, refusal.nonce),
            (State::Fenced, report.nonce)
        );
    }
}

#[test]
fn a_recovery_that_fails_leaves_everything_as_it_was_and_can_be_repeated() {
    for etcd in binaries() {
        let (mut member, old) = Member::bootstrapped(&etcd);
        let tools = Tools::new(&member.pod, &etcd);
        tools.write("etcdutl", "exit 3");
        member.etcd = tools.path("etcd");
        let files = Files::read(&member.data().join("member"));
        member.raise_fence();
        let _process = member.start();
        let first = member.grant_recovery(&old);
        let failed = member
            .pod
            .await_detail("the recovery failed: etcdutl failed");
        assert_eq!(failed.state, State::Fenced);
        assert_ne!(failed.nonce, first.nonce);
        assert_eq!(first.failed, None);
        let told = failed.failed.clone().unwrap();
        assert!(told.why.starts_with("etcdutl failed"), "{}", told.why);
        assert!(told.time > 1_700_000_000, "{}", told.time);
        assert!(
            failed.detail.contains("MiB of free room"),
            "{}",
            failed.detail
        );
        assert_eq!(member.leftovers(), Vec::<String>::new());
        assert_eq!(Files::read(&member.data().join("member")), files);

        let etcdutl = etcd.with_file_name("etcdutl");
        tools.write("etcdutl", &format!("exec {} \"$@\"", etcdutl.display()));
        member.pod.grant(&failed.nonce, member.recover(&old));
        member.assert_recovered(&old, &failed, &files);
        assert!(member.has_key());
    }
}

#[test]
fn while_it_works_it_answers_and_tells_how_far_it_is() {
    for etcd in binaries() {
        let (mut member, old) = Member::bootstrapped(&etcd);
        let tools = Tools::new(&member.pod, &etcd);
        member.etcd = tools.path("etcd");
        member.raise_fence();
        tools.hold("replay");
        tools.hold("restore");
        let _process = member.start_group();
        let report = member.grant_recovery(&old);
        for (point, progress) in [("replay", "2 of 4"), ("restore", "3 of 4")] {
            tools.await_point(point);
            let told = member.pod.await_detail(&format!("recovering: {progress}"));
            assert_eq!((told.state, &told.nonce), (State::Fenced, &report.nonce));
            assert_eq!(get(member.pod.port, "/livez").unwrap().0, 200);
            assert_eq!(get(member.pod.port, "/readyz").unwrap().0, 503);
            // The old members are not within its reach, and no flag comes from the environment.
            let environment = fs::read_to_string(tools.path(&format!("{point}.env"))).unwrap();
            assert!(
                environment.contains("HTTP_PROXY=http://127.0.0.1:1\n"),
                "{environment}"
            );
            assert!(!environment.contains("POD_UID"), "{environment}");
            tools.release(point);
        }
        member.await_serving();
    }
}
