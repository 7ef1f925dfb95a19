//! The port that demands certificates, with a shell in etcd's place.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use gate::State;
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Pair, Validity};

use crate::{
    alone::{SHELL, bootstrap, script},
    support::{Pod, Process, await_some, get, request},
    tls::{Caller, Tls, authority, issue, put, renew, validity},
};

fn start(pod: &Pod) -> Process {
    pod.start(Path::new(SHELL), &script("exit 1"))
}

fn secure(pod: &Pod) -> u16 {
    pod.tls.as_ref().unwrap().port
}

fn caller(pair: Option<Pair>, trust: &Authority) -> Caller {
    Caller {
        pair,
        trust: trust.certificate().to_owned(),
    }
}

#[test]
fn with_certificates_the_report_is_told_on_the_secure_port_alone() {
    let mut pod = Tls::pod(&authority());
    pod.transport = Some("client=Tls,peer=Tls");
    let agent = pod.start(Path::new(SHELL), &script("exit 0"));
    let report = pod.await_state(State::Empty);
    assert_eq!(get(pod.port, "/gate").unwrap().0, 404);
    assert_eq!(get(pod.port, "/livez").unwrap().0, 200);
    assert_eq!(get(pod.port, "/health?serializable=true").unwrap().0, 200);
    let readyz = (503, "waiting at the gate: Empty\n".into());
    assert_eq!(get(pod.port, "/readyz").unwrap(), readyz);
    let tls = pod.tls.as_ref().unwrap();
    assert_eq!(tls.get(tls.port, "/livez").unwrap().0, 200);
    assert_eq!(tls.get(tls.port, "/metrics").unwrap().0, 404);

    // One that is still open does not keep the port from etcd.
    let _half_open = TcpStream::connect(("127.0.0.1", tls.port)).unwrap();
    pod.grant(&report.nonce, bootstrap(&pod, false));
    assert!(agent.await_exit().success(), "{}", pod.log());
    assert_eq!(pod.identity().transport.as_deref(), pod.transport);
}

#[test]
fn a_pod_without_certificates_says_nothing_of_transport() {
    let pod = Pod::new();
    let agent = pod.start(Path::new(SHELL), &script("exit 0"));
    pod.grant(&pod.await_state(State::Empty).nonce, bootstrap(&pod, false));
    assert!(agent.await_exit().success(), "{}", pod.log());
    let text = fs::read_to_string(pod.volume().join("identity.json")).unwrap();
    assert!(!text.contains("transport"), "{text}");
}

/// The kubelet may mount a Secret as it was a moment ago.
#[test]
fn nothing_starts_on_older_authorities_than_the_pod_was_made_for() {
    let mut pod = Pod::new();
    pod.trust = Some(3);
    fs::write(pod.path("trust"), "2").unwrap();
    let mut agent = start(&pod);
    await_some("that it tells", || {
        pod.log()
            .contains("newer certificate authorities")
            .then_some(())
    });
    assert!(agent.is_running());
    assert_eq!(pod.report(), None, "not even a wait is reported");
    fs::write(pod.path("trust"), "4\n").unwrap();
    pod.await_state(State::Empty);
}

#[test]
fn only_a_caller_with_a_right_certificate_is_told() {
    let (ours, stranger) = (authority(), authority());
    let pod = Tls::pod(&ours);
    let mut agent = start(&pod);
    let report = pod.await_state(State::Empty);
    let port = secure(&pod);
    let begin = Timestamp::now() - SignedDuration::from_hours(2);
    let expired = Validity::starting(begin, SignedDuration::from_hours(1));
    for (pair, alert) in [
        (None, "CertificateRequired"),
        (Some(issue(&stranger, &[], validity())), "UnknownCA"),
        (Some(issue(&ours, &[], expired)), "CertificateExpired"),
    ] {
        let told = caller(pair, &ours).get(port, "/gate").unwrap_err();
        assert!(told.contains(alert), "{alert}: {told}");
    }
    // A caller that does not know this pod turns away by itself.
    let pair = Some(issue(&ours, &[], validity()));
    let told = caller(pair, &stranger).get(port, "/gate").unwrap_err();
    assert!(told.contains("UnknownIssuer"), "{told}");
    // Without TLS there is no answer at all.
    assert_eq!(get(port, "/gate"), None);
    assert_eq!(request(port, "GET /livez", ""), None);

    assert_eq!(pod.report(), Some(report));
    assert!(agent.is_running());
    assert!(!pod.log().contains("cannot be served"), "{}", pod.log());
}

#[test]
fn a_leaf_that_is_renewed_is_used_at_once() {
    let (first, second) = (authority(), authority());
    let pod = Tls::pod(&first);
    let _agent = start(&pod);
    let report = pod.await_state(State::Empty);
    renew(&pod, &second, &first);
    let pair = || Some(issue(&first, &[], validity()));
    let (old, new) = (caller(pair(), &first), caller(pair(), &second));
    let told = old.get(secure(&pod), "/gate").unwrap_err();
    assert!(told.contains("UnknownIssuer"), "{told}");
    let (status, body) = new.get(secure(&pod), "/gate").unwrap();
    assert_eq!(
        (status, serde_json::from_str(&body).ok()),
        (200, Some(report))
    );
    // And so are other authorities of callers.
    renew(&pod, &second, &second);
    let told = new.get(secure(&pod), "/gate").unwrap_err();
    assert!(told.contains("UnknownCA"), "{told}");
}

#[test]
fn files_that_cannot_be_used_close_connections_and_the_wait_goes_on() {
    let ours = authority();
    let pod = Tls::pod(&ours);
    let directory = pod.path("tls");
    let other = issue(&ours, &[], validity());
    let mut agent = start(&pod);
    pod.await_state(State::Empty);
    let caller = &pod.tls.as_ref().unwrap().caller;
    let breaks: [&dyn Fn(); 7] = [
        &|| fs::remove_dir_all(&directory).unwrap(),
        &|| fs::remove_file(directory.join("c-0.server.key")).unwrap(),
        &|| put(&directory, "c-0.server.key", other.key.expose()),
        &|| put(&directory, "c-0.server.key", "-----BEGIN SECRET"),
        &|| put(&directory, "c-0.server.crt", ""),
        &|| put(&directory, "client-ca.crt", "none"),
        &|| {
            fs::remove_file(directory.join("client-ca.crt")).unwrap();
            fs::create_dir(directory.join("client-ca.crt")).unwrap();
        },
    ];
    for broken in breaks {
        broken();
        for _again in 0..20 {
            caller.get(secure(&pod), "/gate").unwrap_err();
        }
        assert_eq!(get(pod.port, "/livez").unwrap().0, 200);
        drop(fs::remove_dir_all(&directory));
        fs::create_dir(&directory).unwrap();
        renew(&pod, &ours, &ours);
        pod.await_report();
    }
    assert!(agent.is_running());
    let log = pod.log();
    let lines = log.matches("the secure port cannot be served").count();
    assert!(
        (1..=7).contains(&lines),
        "{lines} of 140 connections\n{log}"
    );
    assert!(!log.contains("PRIVATE") && !log.contains("SECRET"), "{log}");
    let key = fs::read_to_string(directory.join("c-0.server.key")).unwrap();
    let secret = key.lines().nth(1).unwrap();
    assert!(!log.contains(secret), "{log}");
}

#[test]
fn a_flood_holds_up_neither_the_operator_nor_the_kubelet() {
    let pod = Tls::pod(&authority());
    let _agent = start(&pod);
    pod.await_state(State::Empty);
    let flood: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(("127.0.0.1", secure(&pod))).unwrap())
        .collect();
    let begun = Instant::now();
    assert_eq!(get(pod.port, "/livez").unwrap().0, 200);
    assert!(pod.report().is_some());
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    drop(flood);
}

#[test]
fn a_handshake_that_does_not_end_is_ended() {
    let pod = Tls::pod(&authority());
    let _agent = start(&pod);
    pod.await_state(State::Empty);
    // A first record of TLS that announces more than comes, one byte after the other, or nothing at all.
    for trickle in [&b"\x16\x03\x01\x02\x00\x01"[..], b""] {
        let mut stream = TcpStream::connect(("127.0.0.1", secure(&pod))).unwrap();
        let begun = Instant::now();
        for byte in trickle {
            stream.write_all(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut rest = Vec::new();
        // Closed, with an alert or without, or reset.
        drop(stream.read_to_end(&mut rest));
        let took = begun.elapsed();
        assert!(
            took > Duration::from_secs(1) && took < Duration::from_secs(5),
            "{took:?}"
        );
    }
    // One that goes on for ever is no different.
    let mut stream = TcpStream::connect(("127.0.0.1", secure(&pod))).unwrap();
    stream
        .write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc")
        .unwrap();
    let begun = Instant::now();
    await_some("the end of an endless handshake", || {
        std::thread::sleep(Duration::from_millis(50));
        stream.write_all(b"\x00").is_err().then_some(())
    });
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    assert!(pod.report().is_some());
}

#[test]
fn without_its_name_a_pod_has_no_certificate() {
    let pod = Tls::pod(&authority());
    let mut command = pod.command(Path::new(SHELL), &[]);
    let status = command.env_remove("POD_NAME").status().unwrap();
    assert_eq!(status.code(), Some(64));
    assert!(pod.log().contains("POD_NAME"), "{}", pod.log());
}
