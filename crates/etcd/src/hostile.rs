//! What a member can answer, on either port, is understood or refused and never a panic.

use hostile::{Probe, Silent, never_panics, never_panics_on_text};
use prost::Message;

use crate::auth::Permission;
use crate::facts::{KeyValue, MemberInfo, MemberList, Status};
use crate::proto::{auth, watch};
use crate::watch::understood;
use crate::{Cause, Credentials, gate_report, metrics, proto};

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
fn answers_of_a_watch() {
    let event = |kind| watch::Event {
        kind,
        key_value: b"\x0a\x01k\x18\x05".to_vec(),
    };
    let changes = watch::WatchResponse {
        header: Some(header()),
        events: vec![event(0), event(1)],
        ..watch::WatchResponse::default()
    };
    let cancelled = watch::WatchResponse {
        canceled: true,
        compact_revision: i64::MAX,
        cancel_reason: "etcdserver: mvcc: required revision has been compacted".to_owned(),
        ..watch::WatchResponse::default()
    };
    let lease = watch::LeaseTimeToLiveResponse {
        ttl: -1,
        granted_ttl: i64::MAX,
    };
    let samples = [
        changes.encode_to_vec(),
        cancelled.encode_to_vec(),
        lease.encode_to_vec(),
        Vec::new(),
    ];
    never_panics(&samples, |input| {
        drop(watch::WatchResponse::decode(input).map(understood));
        drop(watch::LeaseTimeToLiveResponse::decode(input));
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

#[test]
fn refusals_of_etcd() {
    let samples = [
        "14 etcdserver: unhealthy cluster",
        "9 etcdserver: can only promote a learner member which is in sync with leader",
        "16 etcdserver: invalid auth token",
        "3 etcdserver: authentication failed, invalid user ID or password",
        "7 etcdserver: permission denied",
        "2 tls: first record does not look like a TLS handshake",
    ];
    never_panics_on_text(&samples, |text| {
        let (code, words) = text.split_once(' ').unwrap_or(("14", text));
        let code = tonic::Code::from_i32(code.parse().unwrap_or(-1));
        Cause::from_status(&tonic::Status::new(code, words)).to_string()
    });
}

/// What is wrong with credentials is told without a piece of the key.
#[test]
fn credentials() {
    let validity =
        pki::Validity::starting(jiff::Timestamp::now(), jiff::SignedDuration::from_hours(1));
    let authority = pki::Authority::new("c client", validity).unwrap();
    let pair = authority.issue(&pki::Leaf {
        common_name: "etcd-operator".to_owned(),
        names: Vec::new(),
        usages: vec![pki::Usage::Client],
        validity,
    });
    let pair = pair.unwrap();
    let (trust, key) = (authority.certificate(), pair.key.expose());
    let canary = key
        .lines()
        .nth(1)
        .and_then(|line| line.get(40..52))
        .unwrap();
    never_panics_on_text(&[trust, &pair.chain, key], |text| {
        // Setting one up takes long, so each input is put in one place only.
        let (trust, chain, key) = match text.len() % 4 {
            0 => (text, pair.chain.as_str(), key),
            1 => (trust, text, key),
            2 => (trust, pair.chain.as_str(), text),
            _more => (text, text, text),
        };
        let told = match Credentials::new(trust, chain, key) {
            Ok(credentials) => format!("{credentials:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!told.contains(canary), "{told}");
    });
}

#[test]
fn what_holds_a_password_cannot_be_printed() {
    for (what, prints) in [
        ("PasswordRequest", <Probe<auth::PasswordRequest>>::PRINTS),
        ("UserAddRequest", <Probe<auth::UserAddRequest>>::PRINTS),
    ] {
        assert!(!prints, "{what} has Debug");
    }
}
