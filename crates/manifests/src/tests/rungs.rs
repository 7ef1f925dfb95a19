//! What each rung of the transport renders.

use api::{Plane, Transport};

use super::{build_objects, find, install, intent, owner, shape};
use crate::Kind;

fn words(client: Plane, peer: Plane) -> (Vec<String>, String) {
    let mut intent = intent(r#"{"version":"v3.6.16"}"#);
    intent.tls.transport = Transport { client, peer };
    let objects = build_objects(&owner(), &intent, &shape(1), &install()).unwrap();
    let template = &find(&objects, Kind::StatefulSet, "db")["spec"]["template"];
    let etcd = &template["spec"]["containers"][0];
    let list = |name: &str| -> Vec<String> {
        let words = etcd[name].as_array().unwrap().iter();
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    let annotation = &template["metadata"]["annotations"]["etcd.etcd.io/transport"];
    let annotation = annotation.as_str().unwrap_or_default().to_owned();
    let mut all = list("command");
    all.extend(list("args"));
    (all, annotation)
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|it| it == word)
}

#[test]
fn clients_are_served_by_the_schemes_of_the_rung_on_one_port() {
    for (client, urls, announced, secure) in [
        (Plane::Plain, "http://[::]:2379", "http", false),
        (
            Plane::Both,
            "http://[::]:2379,https://[::]:2379",
            "http",
            true,
        ),
        (Plane::Tls, "https://[::]:2379", "https", true),
    ] {
        let (words, annotation) = words(client, Plane::Plain);
        assert!(
            has(&words, &format!("--listen-client-urls={urls}")),
            "{words:?}"
        );
        let announced =
            format!("--advertise-client-urls={announced}://$(POD_NAME).db-peer.prod.svc:2379");
        assert!(has(&words, &announced), "{words:?}");
        for word in ["--client-cert-auth=true", "--tls"] {
            assert_eq!(has(&words, word), secure, "{client:?} {word}");
        }
        let metrics = words.iter().any(|it| it.contains("https://[::]:2382"));
        assert_eq!(metrics, secure, "{client:?}");
        let told = format!("client={client:?},peer=Plain");
        assert_eq!(annotation, if secure { told } else { String::new() });
    }
}

#[test]
fn members_listen_in_plaintext_until_the_last_rung_and_have_certificates_before() {
    for (peer, scheme, armed) in [
        (Plane::Plain, "http", false),
        (Plane::Both, "http", true),
        (Plane::Tls, "https", true),
    ] {
        let (words, _) = words(Plane::Plain, peer);
        let listens = format!("--listen-peer-urls={scheme}://[::]:2380");
        assert!(has(&words, &listens), "{words:?}");
        let announced =
            format!("--initial-advertise-peer-urls={scheme}://$(POD_NAME).db-peer.prod.svc:2380");
        assert!(has(&words, &announced), "{words:?}");
        for word in [
            "--peer-client-cert-auth=true",
            "--peer-cert-file=/etc/etcd/tls/$(POD_NAME).peer.crt",
            "--peer-cert-allowed-hostname=db-peer.prod.svc",
        ] {
            assert_eq!(has(&words, word), armed, "{peer:?} {word}");
        }
    }
}
