//! The Certificate by which cert-manager is asked for what members show: one for all of them, on both planes. Only what it asks
//! for: what cert-manager writes is checked before it is used.

use std::net::IpAddr;

use api::intent::Issuer;
use api::names;
use serde_json::{Value, json};

use crate::{Owner, drift, object_metadata};

/// API group of cert-manager.
pub const GROUP: &str = "cert-manager.io";
/// Version of its API.
pub const VERSION: &str = "v1";
/// The kind.
pub const KIND: &str = "Certificate";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names and IP addresses.
    pub names: Vec<String>,
    /// How long it is to be valid, in seconds.
    pub lifetime: i64,
    /// Who signs it.
    pub issuer: Issuer,
}

/// The Certificate. When it is renewed is left to cert-manager, which takes two thirds of the lifetime that the issuer really
/// gave. Every field is always written, so that none is left over from an earlier request.
pub fn build(owner: &Owner, request: &Request) -> Value {
    let name = names::issued(&owner.name);
    let (addresses, hosts): (Vec<&String>, Vec<&String>) = request
        .names
        .iter()
        .partition(|name| name.parse::<IpAddr>().is_ok());
    let Issuer {
        name: by,
        kind,
        group,
    } = &request.issuer;
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": KIND,
        "metadata": object_metadata(owner, &name, "certificate"),
        "spec": {
            "secretName": name,
            "dnsNames": hosts,
            "ipAddresses": addresses,
            "usages": ["digital signature", "server auth", "client auth"],
            "duration": format!("{}s", request.lifetime),
            "privateKey": {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"},
            "issuerRef": {"name": by, "kind": kind, "group": group},
        },
    })
}

/// What a Certificate that is there asks for otherwise, as a path.
pub fn differs(wanted: &Value, live: &Value) -> Option<String> {
    let list = |key: &str| {
        let path = format!("/spec/{key}");
        // A name too many is a name for which a stranger might pass.
        (wanted.pointer(&path) != live.pointer(&path)).then(|| format!(".spec.{key}"))
    };
    let listed = ["dnsNames", "ipAddresses", "usages"];
    listed
        .into_iter()
        .find_map(list)
        .or_else(|| drift::find(wanted, live))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Value {
        let owner = Owner {
            name: "db".to_owned(),
            namespace: "prod".to_owned(),
            uid: "uid-1".to_owned(),
        };
        let names = ["db-0.db-peer.prod.svc", "localhost", "127.0.0.1", "::1"];
        let request = Request {
            names: names.map(str::to_owned).into(),
            lifetime: 7_776_000,
            issuer: Issuer {
                name: "house".to_owned(),
                kind: "ClusterIssuer".to_owned(),
                group: GROUP.to_owned(),
            },
        };
        build(&owner, &request)
    }

    #[test]
    fn a_certificate_asks_for_names_and_addresses_for_both_usages_and_a_new_key_each_time() {
        insta::assert_yaml_snapshot!("certificate", wanted());
    }

    #[test]
    fn what_asks_for_more_or_for_less_or_of_another_issuer_is_noticed() {
        let wanted = wanted();
        let mut live = wanted.clone();
        live["status"] = json!({"conditions": []});
        live["spec"]["revisionHistoryLimit"] = 1.into();
        assert_eq!(differs(&wanted, &live), None);
        for (path, value, field) in [
            ("/spec/dnsNames/0", json!("other"), ".spec.dnsNames"),
            ("/spec/ipAddresses", json!([]), ".spec.ipAddresses"),
            ("/spec/usages", json!(["any"]), ".spec.usages"),
            (
                "/spec/issuerRef/name",
                json!("other"),
                ".spec.issuerRef.name",
            ),
            ("/spec/duration", json!("1h"), ".spec.duration"),
        ] {
            let mut other = live.clone();
            *other.pointer_mut(path).unwrap() = value;
            assert_eq!(differs(&wanted, &other).as_deref(), Some(field));
        }
        let mut more = live;
        let names = more["spec"]["dnsNames"].as_array_mut().unwrap();
        names.push("stranger".into());
        assert_eq!(differs(&wanted, &more).as_deref(), Some(".spec.dnsNames"));
    }
}
