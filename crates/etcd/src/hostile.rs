//! What a member can answer, on either port, is understood or refused and never a panic.

use hostile::{never_panics, never_panics_on_text};
use prost::Message;

use crate::auth::Permission;
use crate::facts::{KeyValue, MemberInfo, MemberList, Status};
use crate::proto::auth;
use crate::{gate_report, metrics, proto};

fn header() -> proto::ResponseHeader {
    proto::ResponseHeader {
        cluster_id: 7,
        member_id: u64::MAX,
        revision: i64::MIN,
    }
}

fn member() -> proto::Member {
    proto::Member {
        id: 1,
        name: "db-0".to_owned(),
        peer_urls: vec!["http://db-0.db-peer.ns.svc:2380".to_owned()],
        client_urls: vec!["http://db-0.db-peer.ns.svc:2379".to_owned()],
        is_learner: true,
    }
}

#[test]
fn answers_of_etcd() {
    let status = proto::StatusResponse {
        header: Some(header()),
        version: "3.6.16".to_owned(),
        db_size: -1,
        ..proto::StatusResponse::default()
    };
    let list = proto::MemberListResponse {
        header: Some(header()),
        members: vec![member(), member()],
    };
    let added = proto::MemberAddResponse {
        member: Some(member()),
    };
    let samples = [
        status.encode_to_vec(),
        list.encode_to_vec(),
        added.encode_to_vec(),
        Vec::new(),
    ];
    never_panics(&samples, |input| {
        drop(proto::StatusResponse::decode(input).map(Status::from_proto));
        drop(proto::MemberListResponse::decode(input).map(MemberList::from_proto));
        let added = proto::MemberAddResponse::decode(input);
        drop(added.map(|added| added.member.map(MemberInfo::from_proto)));
        let range = proto::RangeResponse::decode(input).unwrap_or_default();
        drop(
            range
                .kvs
                .into_iter()
                .map(KeyValue::from_proto)
                .collect::<Vec<_>>(),
        );
        drop(proto::AlarmResponse::decode(input));
        drop(proto::HashKvResponse::decode(input));
        drop(proto::SnapshotResponse::decode(input));
    });
}

#[test]
fn answers_about_users_and_roles() {
    let permission = |access| auth::Permission {
        access,
        key: b"/registry/".to_vec(),
        range_end: b"/registry0".to_vec(),
    };
    let role = auth::RoleGetResponse {
        permissions: vec![permission(2), permission(i32::MAX)],
    };
    let names = auth::NamesResponse {
        names: vec!["root".to_owned(), String::new()],
    };
    let status = auth::StatusResponse {
        enabled: true,
        auth_revision: u64::MAX,
    };
    let samples = [
        role.encode_to_vec(),
        names.encode_to_vec(),
        status.encode_to_vec(),
        Vec::new(),
    ];
    never_panics(&samples, |input| {
        let role = auth::RoleGetResponse::decode(input).unwrap_or_default();
        let known = role.permissions.into_iter().map(Permission::from_proto);
        drop(known.collect::<Option<Vec<_>>>());
        drop(auth::NamesResponse::decode(input));
        drop(auth::StatusResponse::decode(input));
        drop(proto::Done::decode(input));
    });
}

#[test]
fn answers_of_the_gate_and_of_the_metrics() {
    let samples = [
        "# HELP etcd_disk_wal_fsync_duration_seconds x\netcd_disk_wal_fsync_duration_seconds_count 17\netcd_server_has_leader 1\n",
        "etcd_disk_backend_commit_duration_seconds_sum 1.5e-3\netcd_server_slow_apply_total NaN\n",
        r#"{"protocol":1,"state":"Empty","nonce":"0f","podUID":"u","detail":"d"}"#,
    ];
    never_panics_on_text(&samples, |text| {
        let report = gate_report::parse_report(text.as_bytes());
        (metrics::parse(text), report)
    });
}
