//! Nodes whose kernel has no IPv6: the gate and etcd listen on IPv4 where the manifest says `[::]`.

use std::{fs, path::Path};

use gate::State;
use serde_json::json;

use crate::{
    alone::{SHELL, bootstrap, script},
    etcd::{Member, binaries},
    support::Pod,
};

const ANY: &str = "--listen-client-urls=http://[::]:2379,https://[::]:2379";

/// What etcd would be started with.
fn started() -> String {
    let pod = Pod::new();
    let record = pod.path("record");
    let line = format!(
        "printf '%s\\n' \"$@\" >{0}.tmp; mv {0}.tmp {0}",
        record.display()
    );
    let mut flags = script(&line);
    flags.extend([ANY.to_owned(), "--name=[::]:1".to_owned()]);
    let agent = pod.start(Path::new(SHELL), &flags);
    let report = pod.await_state(State::Empty);
    pod.grant(&report.nonce, bootstrap(&pod, false));
    assert!(agent.await_exit().success(), "{}", pod.log());
    fs::read_to_string(&record).unwrap()
}

#[test]
fn only_addresses_to_listen_on_change_and_only_without_ipv6() {
    let without = hostile::without_ipv6(started);
    let ipv4 = "--listen-client-urls=http://0.0.0.0:2379,https://0.0.0.0:2379";
    assert!(without.contains(ipv4), "{without}");
    assert!(without.contains("--name=[::]:1"), "{without}");
    let with = started();
    assert!(with.contains(ANY), "{with}");
}

#[test]
fn real_members_serve_without_ipv6() {
    for etcd in binaries() {
        hostile::without_ipv6(move || {
            let mut member = Member::new(&etcd, "m0");
            member.more = vec![
                format!("--listen-client-urls=http://[::]:{}", member.client),
                format!("--listen-peer-urls=http://[::]:{}", member.peer),
                format!("--listen-metrics-urls=http://[::]:{}", member.pod.port),
            ];
            let _process = member.start();
            let report = member.pod.await_state(State::Empty);
            member.pod.grant(&report.nonce, member.bootstrap(false));
            member.await_serving();
            member.call("kv/put", &json!({"key": "Zm9v", "value": "YmFy"}));
            assert!(member.has_key());
        });
    }
}
