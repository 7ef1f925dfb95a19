//! Everything that needs no etcd: a shell stands in its place.

use std::{fs, net::TcpStream, os::unix::fs::PermissionsExt, path::Path, process::Command};

use gate::{Action, State};

use crate::support::{AGENT, Pod, await_some, get};

pub(crate) const SHELL: &str = "/bin/sh";

/// Flags that make a shell run `script`; what the gate appends becomes its arguments.
pub(crate) fn script(script: &str) -> Vec<String> {
    vec!["-c".into(), script.into(), "etcd".into()]
}

pub(crate) fn bootstrap(pod: &Pod, discard: bool) -> Action {
    let initial_cluster = "c-0=http://127.0.0.1:1".into();
    Action::Bootstrap {
        token: pod.token(),
        initial_cluster,
        discard,
    }
}

#[test]
fn an_empty_directory_waits_and_answers_on_every_path() {
    let pod = Pod::new();
    let _agent = pod.start(Path::new(SHELL), &script("exit 1"));
    let report = pod.await_state(State::Empty);
    assert_eq!(report.data, None);
    assert_eq!(get(pod.port, "/livez").unwrap().0, 200);
    assert_eq!(
        get(pod.port, "/readyz").unwrap(),
        (503, "waiting at the gate: Empty\n".into())
    );
    assert_eq!(get(pod.port, "/").unwrap().0, 404);
    assert_eq!(
        pod.await_report().nonce,
        report.nonce,
        "one wait has one nonce"
    );
    let probe = ["probe", "--listen-port", &pod.port.to_string()];
    assert_eq!(
        Command::new(AGENT).args(probe).status().unwrap().code(),
        Some(1)
    );
    assert!(
        !pod.volume().join("data").exists(),
        "nothing is written before a grant"
    );
    assert!(!pod.volume().join("identity.json").exists());
}

#[test]
fn a_grant_for_this_wait_starts_etcd_with_exactly_these_flags() {
    let pod = Pod::new();
    let record = pod.path("record");
    // Builtins only for the signals: dash blocks them all while it forks, and a child would see that.
    let line = format!(
        "while read -r line; do echo \"$line\"; done </proc/$$/status >{0}.sig; ls -l /proc/$$/fd >{0}.fd; grep core /proc/$$/limits >{0}.core; printf '%s\\n' \"$@\" >{0}.tmp; mv {0}.tmp {0}",
        record.display()
    );
    let agent = pod.start(Path::new(SHELL), &script(&line));
    let report = pod.await_state(State::Empty);
    // Neither a connection that was served nor one that is still open may keep the port.
    let _half_open = TcpStream::connect(("127.0.0.1", pod.port)).unwrap();
    pod.grant(&report.nonce, bootstrap(&pod, false));
    assert!(agent.await_exit().success(), "{}", pod.log());

    let flags = fs::read_to_string(&record).unwrap();
    let data = pod.volume().join("data");
    let expected = format!(
        "--data-dir={}\n--initial-cluster-state=new\n--initial-cluster=c-0=http://127.0.0.1:1\n--initial-cluster-token={}\n",
        data.display(),
        pod.token()
    );
    assert_eq!(flags, expected);
    assert_eq!(
        fs::metadata(data).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let identity = pod.identity();
    assert_eq!(
        (identity.nonce, identity.cluster_uid),
        (report.nonce, pod.uid.to_owned())
    );
    assert_eq!((identity.member_id, identity.cluster_id), (None, None));

    let signals = fs::read_to_string(pod.path("record.sig")).unwrap();
    let mask = |field: &str| {
        let line = signals
            .lines()
            .find(|line| line.starts_with(field))
            .unwrap();
        u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk"), 0, "{signals}");
    // SIGINT, SIGPIPE and SIGTERM; the test's own environment may ignore others.
    assert_eq!(
        mask("SigIgn") & (1 << 1 | 1 << 12 | 1 << 14),
        0,
        "{signals}"
    );
    let descriptors = fs::read_to_string(pod.path("record.fd")).unwrap();
    assert!(!descriptors.contains("socket:"), "{descriptors}");
    let dumps = fs::read_to_string(pod.path("record.core")).unwrap();
    let dumps: Vec<&str> = dumps.split_whitespace().collect();
    assert_eq!(dumps, ["Max", "core", "file", "size", "1", "1", "bytes"]);
}

/// A fence may stand in them, and the IDs of members that were removed.
#[test]
fn annotations_that_cannot_be_read_hold_everything_back() {
    for broken in [false, true] {
        let pod = Pod::new();
        fs::remove_file(pod.path("podinfo/annotations")).unwrap();
        if broken {
            fs::create_dir(pod.path("podinfo/annotations")).unwrap();
        }
        let agent = pod.start(Path::new(SHELL), &script("exit 1"));
        assert_eq!(agent.await_exit().code(), Some(74), "{}", pod.log());
        let told = fs::read_to_string(pod.path("termination-log")).unwrap();
        assert!(told.contains("podinfo/annotations"), "{told}");
    }
}

#[test]
fn a_grant_for_another_wait_is_ignored() {
    let pod = Pod::new();
    pod.grant(&"0".repeat(32), bootstrap(&pod, false));
    let mut agent = pod.start(Path::new(SHELL), &script("exit 0"));
    let report = pod.await_state(State::Empty);
    pod.annotate(r#"{"nonce":"1","action":"Dance"}"#);
    // Every answer takes a tick, and every tick reads the annotations.
    for _ in 0..5 {
        assert_eq!(pod.await_report(), report);
    }
    assert!(agent.is_running());
}

#[test]
fn a_grant_that_does_not_fit_is_refused_and_told() {
    let pod = Pod::new();
    let mut agent = pod.start(Path::new(SHELL), &script("exit 0"));
    let report = pod.await_state(State::Empty);
    pod.grant(
        &report.nonce,
        Action::Resume {
            member_id: "1".into(),
            cluster_id: "2".into(),
        },
    );
    assert!(pod.await_refusal().detail.contains("no data to resume"));
    pod.annotate(&format!(
        r#"{{"nonce":"{}","action":"Dance"}}"#,
        report.nonce
    ));
    await_some("the next refusal", || {
        pod.report()?
            .detail
            .contains("cannot be read")
            .then_some(())
    });
    pod.annotate(r#"{"nonce":"1"}"#);
    await_some("no refusal", || (pod.report()? == report).then_some(()));
    assert!(agent.is_running());
    pod.grant(&report.nonce, bootstrap(&pod, false));
    assert_eq!(
        agent.await_exit().code(),
        Some(0),
        "a later, fitting grant is taken"
    );
}

#[test]
fn data_that_appears_during_the_wait_is_judged_again() {
    let pod = Pod::new();
    let _agent = pod.start(Path::new(SHELL), &script("exit 0"));
    let before = pod.await_state(State::Empty);
    let snap = pod.volume().join("data/member/snap");
    fs::create_dir_all(&snap).unwrap();
    fs::write(snap.join("db"), "x").unwrap();
    pod.grant(&before.nonce, bootstrap(&pod, false));
    let after = await_some("a new wait", || {
        pod.report().filter(|now| now.nonce != before.nonce)
    });
    assert_eq!(after.state, State::Damaged);
    assert!(!pod.volume().join("identity.json").exists());
}

#[test]
fn leftovers_are_not_data_and_an_unreadable_wal_is_damaged() {
    for (path, state) in [
        (
            "data/member/wal.tmp/0000000000000000-0000000000000000.wal",
            State::Empty,
        ),
        ("data/member/wal/0.tmp", State::Empty),
        ("data/member/snap/db.tmp.1", State::Empty),
        ("data/member/snap/db", State::Damaged),
        (
            "data/member/snap/0000000000000001-0000000000000002.snap",
            State::Damaged,
        ),
        (
            "data/member/wal/0000000000000000-0000000000000000.wal",
            State::Damaged,
        ),
        ("data/member/wal/x.wal", State::Damaged),
    ] {
        let pod = Pod::new();
        let path = pod.volume().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, [0; 100]).unwrap();
        let _agent = pod.start(Path::new(SHELL), &script("exit 1"));
        pod.await_state(state);
    }
}
