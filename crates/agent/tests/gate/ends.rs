//! How the agent ends, section 6 of the contract, and how it installs itself.

use std::{
    fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Instant,
};

use gate::State;

use crate::{
    alone::{SHELL, bootstrap, script},
    support::{AGENT, Pod},
};

fn exit_code(pod: &Pod, etcd: &str) -> Option<i32> {
    pod.start(Path::new(etcd), &[]).await_exit().code()
}

fn message(pod: &Pod) -> String {
    fs::read_to_string(pod.path("termination-log")).unwrap()
}

#[test]
fn a_signal_ends_the_wait_at_once_with_success() {
    for signal in ["TERM", "INT"] {
        let pod = Pod::new();
        let agent = pod.start(Path::new(SHELL), &script("exit 1"));
        pod.await_state(State::Empty);
        let asked = Instant::now();
        agent.signal(signal);
        assert_eq!(agent.await_exit().code(), Some(0));
        assert!(asked.elapsed().as_millis() < 1000, "{:?}", asked.elapsed());
        assert!(message(&pod).contains("asked to stop"));
    }
}

#[test]
fn every_exit_code_of_the_contract_leaves_its_reason() {
    let pod = Pod::new();
    let mut command = pod.command(Path::new(SHELL), &[]);
    assert_eq!(
        command.env_remove("POD_UID").status().unwrap().code(),
        Some(64)
    );
    assert!(pod.log().contains("POD_UID"));

    let pod = Pod::new();
    fs::remove_dir_all(pod.volume()).unwrap();
    assert_eq!(exit_code(&pod, SHELL), Some(74));
    assert!(message(&pod).contains("cannot read"), "{}", message(&pod));

    let pod = Pod::new();
    fs::create_dir_all(pod.volume().join("data/member")).unwrap();
    fs::write(pod.volume().join("data/member/wal"), "no directory").unwrap();
    assert_eq!(exit_code(&pod, SHELL), Some(74));

    let pod = Pod::new();
    fs::create_dir(pod.volume().join("identity.json.tmp")).unwrap();
    let agent = pod.start(Path::new(SHELL), &[]);
    pod.grant(&pod.await_state(State::Empty).nonce, bootstrap(&pod, false));
    assert_eq!(agent.await_exit().code(), Some(73));
    assert!(
        message(&pod).contains("cannot write the identity file"),
        "{}",
        message(&pod)
    );

    let pod = Pod::new();
    assert_eq!(
        exit_code(&pod, "/no/etcd"),
        Some(126),
        "before a grant is asked for"
    );
    fs::write(pod.path("etcd"), "no program").unwrap();
    let agent = pod.start(&pod.path("etcd"), &[]);
    pod.grant(&pod.await_state(State::Empty).nonce, bootstrap(&pod, false));
    assert_eq!(agent.await_exit().code(), Some(126));
    assert!(
        message(&pod).contains("cannot execute"),
        "{}",
        message(&pod)
    );

    let pod = Pod::new();
    let _taken = TcpListener::bind(("127.0.0.1", pod.port)).unwrap();
    assert_eq!(exit_code(&pod, SHELL), Some(71));
}

#[test]
fn installs_itself_whole() {
    let pod = Pod::new();
    let path = pod.path("agent");
    for _ in 0..2 {
        assert!(
            Command::new(AGENT)
                .arg("install")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
    }
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o555
    );
    assert_eq!(fs::read(&path).unwrap(), fs::read(AGENT).unwrap());
    let missing = pod.path("no/directory/agent");
    let refused = Command::new(AGENT)
        .arg("install")
        .arg(missing)
        .status()
        .unwrap();
    assert_eq!(refused.code(), Some(73));
    assert_eq!(Command::new(&path).status().unwrap().code(), Some(64));
}
