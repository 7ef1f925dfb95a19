//! Secrets of certificates: what is written, and what of them is kept in the cache. Keys are never kept.

use std::collections::BTreeMap;

use api::certificates::Record;
use api::labels;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use manifests::Owner;
use sha2::{Digest as _, Sha256};

/// In the cache only: the digest of the data that a Secret had when it was seen.
const SEEN: &str = "etcd.etcd.io/seen";

/// Of a Secret only what it says of itself is kept, and the digest of what is in it.
pub(crate) fn trim(secret: &mut Secret) {
    let digest = digest(secret.data.as_ref());
    secret.data = None;
    secret.string_data = None;
    secret.annotations_mut().insert(SEEN.to_owned(), digest);
}

/// What is recorded on a trimmed Secret, if that is what is in it.
pub(crate) fn record(secret: &Secret) -> Option<Record> {
    let annotations = secret.annotations();
    let record = Record::parse(annotations.get(labels::CERTIFICATES_ANNOTATION)?)?;
    (annotations.get(SEEN) == Some(&record.data)).then_some(record)
}

/// SHA-256 over names and contents.
pub(crate) fn digest(data: Option<&BTreeMap<String, ByteString>>) -> String {
    let mut whole = Sha256::new();
    for (name, content) in data.into_iter().flatten() {
        whole.update(Sha256::digest(name));
        whole.update(Sha256::digest(&content.0));
    }
    hexadecimal(&whole.finalize())
}

/// One entry, as text.
pub(crate) fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}

/// A Secret with these entries, and nothing else yet.
pub(crate) fn with_entries(entries: &[(String, String)]) -> Secret {
    let data = entries.iter().map(|(name, content)| {
        let content = ByteString(content.clone().into_bytes());
        (name.clone(), content)
    });
    Secret {
        data: Some(data.collect()),
        ..Secret::default()
    }
}

/// The same as an object of a cluster, with what is recorded of it.
pub(crate) fn build(
    owner: &Owner,
    (name, kind): (&str, &str),
    entries: &[(String, String)],
    record: &Record,
) -> Secret {
    let mut secret = with_entries(entries);
    let record = Record {
        data: digest(secret.data.as_ref()),
        ..record.clone()
    };
    secret.metadata = manifests::object_metadata(owner, name, "certificates");
    secret
        .annotations_mut()
        .insert(labels::CERTIFICATES_ANNOTATION.to_owned(), record.to_text());
    secret.type_ = Some(kind.to_owned());
    secret
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(half.into(), 16));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn built() -> Secret {
        let owner = Owner {
            name: "db".to_owned(),
            namespace: "ns".to_owned(),
            uid: "u".to_owned(),
        };
        let time = Time(Timestamp::UNIX_EPOCH);
        let record = Record {
            authorities: "a".to_owned(),
            asked: "b".to_owned(),
            issued_at: time.clone(),
            renew_at: time.clone(),
            not_after: time,
            data: String::new(),
            copied: None,
            trust: None,
            rotation: None,
        };
        let entries = [("tls.key".to_owned(), "CANARY".to_owned())];
        build(&owner, ("db-tls", "Opaque"), &entries, &record)
    }

    #[test]
    fn the_cache_keeps_no_key_and_knows_whether_a_secret_was_edited() {
        let mut seen = built();
        trim(&mut seen);
        assert!(!format!("{seen:?}").contains("CANARY"), "{seen:?}");
        assert!(record(&seen).is_some_and(|record| record.authorities == "a"));
        let mut edited = built();
        let data = edited.data.as_mut().unwrap();
        data.insert("tls.key".to_owned(), ByteString(b"OTHER".to_vec()));
        trim(&mut edited);
        assert_eq!(record(&edited), None);
    }
}
