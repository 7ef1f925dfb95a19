//! The few messages of etcd's `rpc.proto` that we speak, written by hand. Field numbers are those of
//! etcd 3.7.3; 3.5 and 3.6 use the same and leave newer fields out. Fields that are never read are not
//! listed: protobuf skips what it does not know.

pub(crate) mod auth;
pub(crate) mod watch;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) raft_index: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) raft_term: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) raft_applied_index: u64,
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(crate) db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub(crate) is_learner: bool,
    #[prost(string, tag = "11")]
    pub(crate) storage_version: String,
    #[prost(int64, tag = "12")]
    pub(crate) db_size_quota: i64,
    #[prost(message, optional, tag = "13")]
    pub(crate) downgrade_info: Option<DowngradeInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DowngradeInfo {
    #[prost(bool, tag = "1")]
    pub(crate) enabled: bool,
    #[prost(string, tag = "2")]
    pub(crate) target_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DowngradeRequest {
    /// 0 validates, 1 enables, 2 cancels.
    #[prost(int32, tag = "1")]
    pub(crate) action: i32,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Member {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(crate) is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub(crate) linearizable: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<Member>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberAddRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) peer_urls: Vec<String>,
    #[prost(bool, tag = "2")]
    pub(crate) is_learner: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberAddResponse {
    #[prost(message, optional, tag = "2")]
    pub(crate) member: Option<Member>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberUpdateRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, repeated, tag = "2")]
    pub(crate) peer_urls: Vec<String>,
}

/// `MemberRemove` and `MemberPromote` take the same message under two names.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberIdRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MoveLeaderRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) target_id: u64,
}

/// An answer of which only its arrival matters.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Done {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// Keys below this one; a zero byte: all from `key` on.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(bool, tag = "7")]
    pub(crate) serializable: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(crate) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
}

/// Of the alarms, `action` 0 lists them and 2 takes one back.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmRequest {
    #[prost(int32, tag = "1")]
    pub(crate) action: i32,
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    /// 1 is `NOSPACE`, 2 is `CORRUPT`.
    #[prost(int32, tag = "3")]
    pub(crate) alarm: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(crate) member_id: u64,
    #[prost(int32, tag = "2")]
    pub(crate) alarm: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DefragmentRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
    /// Answer only once the old revisions are gone from the file.
    #[prost(bool, tag = "2")]
    pub(crate) physical: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HashKvRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HashKvResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(uint32, tag = "2")]
    pub(crate) hash: u32,
    #[prost(int64, tag = "3")]
    pub(crate) compact_revision: i64,
    /// 3.6 and later.
    #[prost(int64, tag = "4")]
    pub(crate) hash_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotResponse {
    #[prost(uint64, tag = "2")]
    pub(crate) remaining_bytes: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) blob: prost::bytes::Bytes,
}
