//! Misuse is refused before anything is looked at.

use super::*;
use crate::outcome::Exit;

const GATE: &str = "gate --cluster-uid u --volume /v --annotations /p/a";

fn run(line: &str, environment: &[(&str, &str)]) -> Result<Command> {
    let words = line.split_whitespace().map(OsString::from).collect();
    let find = |name: &str| environment.iter().find(|(key, _)| *key == name);
    parse_with(words, &|name| find(name).map(|(_, value)| value.into()))
}

fn with_pod(line: &str) -> Result<Command> {
    run(line, &[("POD_UID", "p")])
}

#[test]
fn a_whole_gate_command() {
    let expected = Gate {
        cluster_uid: "u".into(),
        pod_uid: "p".into(),
        pod_name: None,
        volume: "/v".into(),
        annotations: "/p/a".into(),
        listen: "[::]:2381".parse().unwrap(),
        secure: None,
        transport: None,
        trust: None,
        termination_log: "/dev/termination-log".into(),
        etcd: "/etcd".into(),
        flags: vec!["--name=c-0".into(), "--data-dir=/v/data".into()],
    };
    let line = format!("{GATE} -- /etcd --name=c-0 --data-dir=/v/data");
    assert_eq!(with_pod(&line).unwrap(), Command::Gate(expected.into()));
    let line = format!("{GATE} --listen=127.0.0.1:1 --termination-log /t -- /etcd");
    let Ok(Command::Gate(gate)) = with_pod(&line) else {
        panic!("refused")
    };
    assert_eq!((gate.listen.port(), gate.termination_log), (1, "/t".into()));
}

#[test]
fn a_gate_with_certificates() {
    let pod = [("POD_UID", "p"), ("POD_NAME", "c-0")];
    let secure = |more: &str| match run(&format!("{GATE} --tls /t {more} -- /etcd"), &pod) {
        Ok(Command::Gate(gate)) => gate,
        other => panic!("{other:?}"),
    };
    let gate = secure("--transport client=Tls,peer=Plain");
    let expected = Secure {
        listen: "[::]:2382".parse().unwrap(),
        directory: "/t".into(),
        pod: "c-0".into(),
    };
    assert_eq!(gate.secure, Some(expected));
    assert_eq!(gate.transport.as_deref(), Some("client=Tls,peer=Plain"));
    let gate = secure("--trust-file=/t/trust --trust 3");
    let expected = Trust {
        file: "/t/trust".into(),
        generation: 3,
    };
    assert_eq!(gate.trust, Some(expected));
    for wrong in ["--trust 3", "--trust-file /t", "--trust-file /t --trust -1"] {
        let refused = run(&format!("{GATE} {wrong} -- /etcd"), &pod).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage, "{wrong}");
    }
    let gate = secure("--secure-listen=127.0.0.1:7");
    assert_eq!(gate.secure.unwrap().listen.port(), 7);
    assert_eq!(gate.transport, None);

    let line = format!("{GATE} --tls /t -- /etcd");
    for name in [None, Some(("POD_NAME", "")), Some(("POD_NAME", "../c-0"))] {
        let environment: Vec<_> = name.into_iter().chain([("POD_UID", "p")]).collect();
        let fault = run(&line, &environment).unwrap_err();
        assert_eq!(fault.exit, Exit::Usage);
        assert!(fault.message.contains("POD_NAME"), "{}", fault.message);
    }
    for more in [
        "--tls",
        "--tls=",
        "--tls /t --tls /u",
        "--tls /t --secure-listen 2382",
        "--secure-listen 127.0.0.1:7",
        "--transport",
    ] {
        let fault = run(&format!("{GATE} {more} -- /etcd"), &pod).unwrap_err();
        assert_eq!(fault.exit, Exit::Usage, "{more}");
    }
}

#[test]
fn the_other_commands() {
    assert_eq!(
        with_pod("install /a/b").unwrap(),
        Command::Install("/a/b".into())
    );
    assert_eq!(with_pod("probe").unwrap(), Command::Probe(2381));
    assert_eq!(
        with_pod("probe --listen-port 1").unwrap(),
        Command::Probe(1)
    );
}

#[test]
fn misuse_is_told_and_exits_64() {
    for line in [
        "",
        "dance",
        "install",
        "install a b",
        "install --help",
        "probe --listen-port",
        "probe --listen-port x",
        "probe --port 1",
        "gate",
        GATE,
        &format!("{GATE} --"),
        &format!("{GATE} --dance x -- /etcd"),
        &format!("{GATE} --volume /w -- /etcd"),
        &format!("{GATE} --listen -- /etcd"),
        &format!("{GATE} --listen localhost:2381 -- /etcd"),
        "gate --volume /v --annotations /a -- /etcd",
        "gate --cluster-uid= --volume /v --annotations /a -- /etcd",
        "gate --cluster-uid u --annotations /a -- /etcd",
        "gate --cluster-uid u --volume /v -- /etcd",
        &format!("{GATE} -- /etcd --data-dir=/elsewhere"),
        &format!("{GATE} -- /etcd --data-dir /v/data"),
        &format!("{GATE} -- /etcd --initial-cluster=c-0=http://c-0"),
        &format!("{GATE} -- /etcd -initial-cluster-state new"),
        &format!("{GATE} -- /etcd --initial-cluster-token=x"),
        &format!("{GATE} -- /etcd --config-file=/x"),
        &format!("{GATE} -- /etcd --wal-dir=/x"),
        &format!("{GATE} -- /etcd --force-new-cluster"),
        &format!("{GATE} -- /etcd --discovery-srv=x"),
    ] {
        let fault = with_pod(line).unwrap_err();
        assert_eq!(fault.exit, Exit::Usage, "{line}");
        assert!(fault.message.contains("usage:"), "{line}");
    }
}

#[test]
fn the_environment_cannot_lead_etcd_past_the_gate() {
    let line = format!("{GATE} -- /etcd");
    assert!(run(&line, &[]).unwrap_err().message.contains("POD_UID"));
    for name in [
        "ETCD_INITIAL_CLUSTER",
        "ETCD_WAL_DIR",
        "ETCD_CONFIG_FILE",
        "ETCD_FORCE_NEW_CLUSTER",
        "ETCD_DISCOVERY",
    ] {
        let fault = run(&line, &[("POD_UID", "p"), (name, "x")]).unwrap_err();
        assert!(fault.message.contains(name), "{}", fault.message);
    }
    assert!(run(&line, &[("POD_UID", "p"), ("ETCD_NAME", "x")]).is_ok());
}
