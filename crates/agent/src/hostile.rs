//! What stands in the annotations of the pod and on its volume is judged and never a panic. Others can write both.

use hostile::{never_panics, never_panics_on_text};

use crate::wal::{self, tests::Writer};
use crate::{annotations, fence, judge, permit, removed};

#[test]
fn annotations_and_grants() {
    let samples = [
        "etcd.etcd.io/fence=\"2\"\netcd.etcd.io/removed=\"1f,2e\"\netcd.etcd.io/grant=\"{\\\"nonce\\\":\\\"ab\\\"}\"\n",
        "etcd.etcd.io/floors=\"db-0:1f:120,db-1:2f:7\"\nother=\"\\u00e9\\x41\"\n",
        r#"{"nonce":"ab","clusterUID":"u","incarnation":1,"action":"Join","token":"u-1","initialCluster":"c-0=http://c-0","memberID":"1f","clusterID":"2f","discard":false}"#,
        r#"{"nonce":"ab","clusterUID":"u","incarnation":1,"action":"Restore","token":"u-1","initialCluster":"c-0=http://c-0","directory":"restore-1f","trailer":"2f","skipHashCheck":false,"bumpRevision":7}"#,
        "restore-1f",
    ];
    never_panics_on_text(&samples, |text| {
        let found = annotations::find(text, "etcd.etcd.io/grant");
        let fence = fence::find(text);
        let removed = removed::parse(text);
        drop((found, fence, removed));
        drop(permit::parse_offer(text, "ab"));
        drop(permit::restore::parse_origin(text, text, false));
        let names = permit::parse_names(text).map(|names| names.len());
        (names, judge::parse_id(text))
    });
}

#[test]
fn logs() {
    let head = wal::Head {
        member_id: 0x1f,
        cluster_id: 0x2f,
    };
    let writer = || Writer::new(0, head);
    let samples = [
        writer().entry(1, 1, b"first").state(1, 1).bytes,
        writer().entry(2, 9, &[7; 300]).state(2, 9).preallocated(),
    ];
    never_panics(&samples, |input| {
        let size = u64::try_from(input.len()).unwrap_or(0);
        drop(wal::read_head(input, size));
        for newest in [true, false] {
            drop(wal::read_tail(input, size, newest, &|| false));
            drop(wal::read_end(input, size, newest));
        }
    });
}
