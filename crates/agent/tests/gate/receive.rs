//! The first run of a member that joins.

use std::{fs, net::TcpListener, path::Path};

use gate::{Action, State};
use serde_json::json;

use crate::{
    alone::{SHELL, script},
    etcd::{Member, binaries},
    support::{Pod, await_some, free_port, get},
};

/// So many entries, and etcd sends a member that joins a snapshot (3.6 and later).
const ENTRIES: usize = 150;

#[test]
fn who_gets_a_snapshot_need_not_announce_itself_in_vain() {
    for etcd in binaries() {
        let first = Member::new(&etcd, "m0");
        let _first = first.found();
        for _ in 0..ENTRIES {
            first.call("kv/put", &json!({"key": "Zm9v", "value": "YmFy"}));
        }
        let second = Member::new(&etcd, "m1");
        let _second = second.start();
        let id = first.invite(&second);
        second.await_clients();
        let log = second.pod.log();
        assert!(log.contains("the first run has ended"), "{log}");
        // What etcd says after it has waited for seven seconds.
        assert!(!log.contains("failed to publish"), "{log}");
        assert_eq!(second.status().member_id, format!("{id:x}"));
        await_some("all of it", || {
            (second.status().index >= first.status().index).then_some(())
        });
    }
}

fn join(pod: &Pod) -> Action {
    Action::Join {
        token: pod.token(),
        initial_cluster: "c-0=http://127.0.0.1:1,c-1=http://127.0.0.1:2".into(),
        member_id: "a1".into(),
        cluster_id: "b1".into(),
        discard: false,
    }
}

#[test]
fn a_stop_ends_the_first_run() {
    let pod = Pod::new();
    let record = pod.path("process");
    let line = format!("echo $$ > {}; exec sleep 60", record.display());
    let agent = pod.start(Path::new(SHELL), &script(&line));
    pod.grant(&pod.await_state(State::Empty).nonce, join(&pod));
    let child = await_some("the first run", || {
        let id = fs::read_to_string(&record).ok()?;
        id.trim().parse::<u32>().ok()
    });
    agent.signal("TERM");
    assert_eq!(agent.await_exit().code(), Some(0));
    assert!(!Path::new(&format!("/proc/{child}")).exists());
}

#[test]
fn the_first_run_tells_how_much_it_has_received() {
    let pod = Pod::new();
    let snap = pod.volume().join("data/member/snap");
    let go_on = pod.path("go-on");
    // As etcd does: a snapshot comes under another name, and is renamed when it is complete.
    let line = format!(
        "mkdir -p {0} {0}/../wal; touch {0}/../wal/0.wal; printf 12345 > {0}/tmp1; until test -e {1}; do sleep 0.05; done; \
         printf 67890 >> {0}/tmp1; mv {0}/tmp1 {0}/1.snap.db; exec sleep 60",
        snap.display(),
        go_on.display()
    );
    let _agent = pod.start(Path::new(SHELL), &script(&line));
    let waits = pod.await_state(State::Empty);
    assert_eq!(waits.received_bytes, None);
    pod.grant(&waits.nonce, join(&pod));
    let await_bytes = |bytes| {
        await_some("received bytes", || {
            pod.report()
                .filter(|report| report.received_bytes == Some(bytes))
        })
    };
    let report = await_bytes(5);
    // Still the granted wait, so that an operator that knows nothing of bytes waits on.
    assert_eq!((report.nonce, report.state), (waits.nonce, State::Empty));
    assert_eq!(get(pod.port, "/livez").unwrap().0, 200);
    assert_eq!(get(pod.port, "/readyz").unwrap().0, 503);
    fs::write(go_on, "").unwrap();
    await_bytes(10);
}

/// It opens its database, and then asks the others who they are: a member that is added before they have answered ends it
/// ("member count is unequal"), and its ID is spent.
#[test]
fn a_first_run_that_still_asks_the_others_reports_as_the_wait_that_was_granted() {
    for etcd in binaries() {
        let member = Member::new(&etcd, "m1");
        let _agent = member.start();
        let waits = member.pod.await_state(State::Empty);
        // It is connected to, and never answers.
        let peer = free_port();
        let silent = TcpListener::bind(("127.0.0.1", peer)).unwrap();
        let initial_cluster = format!("m0=http://127.0.0.1:{peer},{}", member.initial_cluster());
        let join = Action::Join {
            token: member.pod.token(),
            initial_cluster,
            member_id: "a1".into(),
            cluster_id: "b1".into(),
            discard: false,
        };
        member.pod.grant(&waits.nonce, join);
        let _asked = silent.accept().unwrap();
        let database = member.data().join("member/snap/db");
        await_some("a database", || fs::metadata(&database).ok());
        let report = member.pod.report().unwrap();
        assert_eq!(report.received_bytes, None, "{report:?}");
        assert_eq!((&report.nonce, report.state), (&waits.nonce, State::Empty));
        assert!(
            report.detail.contains("asks the other members"),
            "{report:?}"
        );
    }
}

#[test]
fn the_first_run_serves_no_client_that_others_know() {
    let pod = Pod::new();
    let record = pod.path("flags");
    let line = format!("printf '%s\\n' \"$@\" end > {}; exit 7", record.display());
    let mut flags = script(&line);
    flags.push("--listen-client-urls=http://0.0.0.0:2379".into());
    let agent = pod.start(Path::new(SHELL), &flags);
    pod.grant(&pod.await_state(State::Empty).nonce, join(&pod));
    agent.await_exit();
    let flags = fs::read_to_string(&record).unwrap();
    // Of a repeated flag etcd takes the last.
    let last = flags
        .lines()
        .rfind(|flag| flag.starts_with("--listen-client-urls="));
    let url = last.unwrap().split_once('=').unwrap().1;
    assert!(url.starts_with("http://127.0.0.1:"), "{flags}");
    assert!(!url.ends_with(":2379"), "{flags}");
    // The gate's port stays the agent's.
    assert!(
        flags.contains("--listen-metrics-urls=http://127.0.0.1:"),
        "{flags}"
    );
    let state = flags
        .lines()
        .find(|flag| flag.starts_with("--initial-cluster-state="));
    assert_eq!(state, Some("--initial-cluster-state=existing"));
}

#[test]
fn the_end_of_etcd_is_the_end_of_the_agent() {
    for (what, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let pod = Pod::new();
        let agent = pod.start(Path::new(SHELL), &script(what));
        pod.grant(&pod.await_state(State::Empty).nonce, join(&pod));
        assert_eq!(agent.await_exit().code(), Some(code));
        // The last words are etcd's.
        assert_eq!(fs::read_to_string(pod.path("termination-log")).unwrap(), "");
    }
}
