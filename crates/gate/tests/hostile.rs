//! What comes from a pod's port or a pod's annotation is answered and never a panic.

use gate::{Grant, Identity, Report};
use hostile::never_panics;

#[test]
fn reports_grants_and_identities() {
    let samples = [
        r#"{"protocol":1,"state":"Fenced","nonce":"0f","podUID":"u","detail":"d","failed":{"why":"w","time":7}}"#,
        r#"{"nonce":"ab","clusterUID":"u","incarnation":1,"action":"Join","token":"u-1","initialCluster":"c-0=http://c-0","memberID":"1f","clusterID":"2f","discard":false}"#,
        r#"{"nonce":"ab","clusterUID":"u","incarnation":2,"action":"Recover","token":"u-2","initialCluster":"c-0=http://c-0","memberID":"1f","clusterID":"2f","bumpRevision":1152921504606846976}"#,
        r#"{"clusterUID":"u","incarnation":1,"nonce":"0f","memberID":"1f","clusterID":"2f","pod":"c-0","transport":"client=Tls,peer=Both"}"#,
    ];
    never_panics(&samples, |input| {
        drop(serde_json::from_slice::<Report>(input));
        drop(serde_json::from_slice::<Identity>(input));
        if let Ok(grant) = serde_json::from_slice::<Grant>(input) {
            let text = serde_json::to_string(&grant).unwrap_or_default();
            assert_eq!(serde_json::from_str::<Grant>(&text).ok(), Some(grant));
        }
    });
}
