//! One member, asked directly. Every call goes to this member and to no other, once, and is over by
//! its deadline, connecting included.

use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::connect::Target;
use crate::error::{Cause, Error};
use crate::facts::{Consistency, DowngradeAction, KeyValue, MemberInfo, MemberList, Status};
use crate::pool::{Sender, Slot};
use crate::{DEFAULT_DEADLINE, proto};

/// A handle for one member; cheap to make and to clone.
#[derive(Clone)]
pub struct Member {
    pub(crate) slot: Arc<Slot>,
    pub(crate) deadline: Duration,
}

/// An RPC: the words for people, and its path.
pub(crate) type Rpc = (&'static str, &'static str);

const STATUS: Rpc = ("status", "/etcdserverpb.Maintenance/Status");
const MOVE_LEADER: Rpc = ("move leader", "/etcdserverpb.Maintenance/MoveLeader");
const DOWNGRADE: Rpc = ("downgrade", "/etcdserverpb.Maintenance/Downgrade");
const MEMBER_LIST: Rpc = ("member list", "/etcdserverpb.Cluster/MemberList");
const MEMBER_ADD: Rpc = ("member add", "/etcdserverpb.Cluster/MemberAdd");
const MEMBER_REMOVE: Rpc = ("member remove", "/etcdserverpb.Cluster/MemberRemove");
const MEMBER_UPDATE: Rpc = ("member update", "/etcdserverpb.Cluster/MemberUpdate");
const MEMBER_PROMOTE: Rpc = ("member promote", "/etcdserverpb.Cluster/MemberPromote");
const PUT: Rpc = ("put", "/etcdserverpb.KV/Put");
const RANGE: Rpc = ("get", "/etcdserverpb.KV/Range");

impl Member {
    pub(crate) fn new(slot: Arc<Slot>) -> Self {
        Self {
            slot,
            deadline: DEFAULT_DEADLINE,
        }
    }

    /// The same member with another deadline for each call.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// The pod this member runs in.
    pub fn target(&self) -> &Target {
        &self.slot.target
    }

    /// How the member is. Learners answer this, and so does a member that lost its quorum while it
    /// ran; one that started without a quorum does not serve its client port at all.
    pub async fn status(&self) -> Result<Status, Error> {
        let answer = self.call(STATUS, proto::StatusRequest {}).await?;
        Status::from_proto(answer).ok_or_else(|| self.headless(STATUS))
    }

    /// Who belongs to the cluster. Learners refuse this in either form.
    pub async fn member_list(&self, consistency: Consistency) -> Result<MemberList, Error> {
        let linearizable = consistency == Consistency::Linearizable;
        let answer = self
            .call(MEMBER_LIST, proto::MemberListRequest { linearizable })
            .await?;
        MemberList::from_proto(answer).ok_or_else(|| self.headless(MEMBER_LIST))
    }

    /// Adds a learner; its ID is in the answer.
    ///
    /// etcd makes the ID from the peer URL and the current second. So the same URL a second time
    /// within that second is refused with [`Cause::MemberExists`], later with
    /// [`Cause::PeerUrlExists`]; and with [`Cause::MemberNotFound`] if the member was added and
    /// removed within it, because a removed ID never returns.
    pub async fn member_add_learner(&self, peer_url: &str) -> Result<MemberInfo, Error> {
        let request = proto::MemberAddRequest {
            peer_urls: vec![peer_url.to_owned()],
            is_learner: true,
        };
        let answer: proto::MemberAddResponse = self.call(MEMBER_ADD, request).await?;
        let added = answer.member.map(MemberInfo::from_proto);
        added.ok_or_else(|| self.bad_answer(MEMBER_ADD, "it names no member"))
    }

    /// Removes a member, voter or learner, for good: its ID can never return.
    pub async fn member_remove(&self, id: u64) -> Result<(), Error> {
        let request = proto::MemberIdRequest { id };
        self.call(MEMBER_REMOVE, request)
            .await
            .map(|proto::Done {}| ())
    }

    /// Replaces the peer URLs that a member is listed under; the member itself is not told, and need not run. The list that
    /// it has already is no error, a URL of another member is ([`Cause::PeerUrlExists`]).
    ///
    /// etcd before 3.5.31 and 3.6.12 gives a learner its vote with it: ask for voters only. No release looks at the URLs
    /// before they are in the log, where one that is none makes every member panic, whenever it starts. So only those are
    /// sent that are `http` or `https`, a host and a port ([`Cause::BadPeerUrls`]).
    pub async fn member_update(&self, id: u64, peer_urls: &[String]) -> Result<(), Error> {
        if peer_urls.is_empty() || !peer_urls.iter().all(|url| is_peer_url(url)) {
            let cause = Cause::BadPeerUrls {
                urls: peer_urls.to_vec(),
            };
            return Err(Error::new(MEMBER_UPDATE.0, self.target(), cause));
        }
        let request = proto::MemberUpdateRequest {
            id,
            peer_urls: peer_urls.to_vec(),
        };
        self.call(MEMBER_UPDATE, request)
            .await
            .map(|proto::Done {}| ())
    }

    /// Gives a learner its vote. Any voter takes this and passes it to the leader.
    pub async fn member_promote(&self, id: u64) -> Result<(), Error> {
        let request = proto::MemberIdRequest { id };
        self.call(MEMBER_PROMOTE, request)
            .await
            .map(|proto::Done {}| ())
    }

    /// Hands leadership to another voter; only the leader takes this.
    pub async fn move_leader(&self, id: u64) -> Result<(), Error> {
        let request = proto::MoveLeaderRequest { target_id: id };
        self.call(MOVE_LEADER, request)
            .await
            .map(|proto::Done {}| ())
    }

    /// Validates, enables or cancels a downgrade of the whole cluster to `target`, which is a minor
    /// (`3.5`) or a release of it (`3.5.35`); etcd drops the patch. Any voter takes this.
    ///
    /// Nothing of `target` is looked at by a cancel, which etcd 3.6 and later answer with success even
    /// when it failed: look at [`Status::downgrade`] afterwards.
    pub async fn downgrade(&self, action: DowngradeAction, target: &str) -> Result<(), Error> {
        let request = proto::DowngradeRequest {
            action: action.to_proto(),
            version: target.to_owned(),
        };
        self.call(DOWNGRADE, request).await.map(|proto::Done {}| ())
    }

    /// Reads with a quorum behind the answer, through this very member, without needing any key to
    /// exist; the revision it has reached. What succeeds here has a leader, and has applied
    /// everything that was committed when it was asked.
    pub async fn read_linearizable(&self) -> Result<i64, Error> {
        let request = proto::RangeRequest {
            // The key etcd's own health check reads.
            key: b"health".to_vec(),
            range_end: Vec::new(),
            limit: 1,
            serializable: false,
            count_only: true,
        };
        let answer: proto::RangeResponse = self.call(RANGE, request).await?;
        let header = answer.header.ok_or_else(|| self.headless(RANGE))?;
        Ok(header.revision)
    }

    /// Writes a key and returns the revision that holds it.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<i64, Error> {
        let request = proto::PutRequest {
            key: key.to_vec(),
            value: value.to_vec(),
        };
        let answer: proto::PutResponse = self.call(PUT, request).await?;
        let header = answer.header.ok_or_else(|| self.headless(PUT))?;
        Ok(header.revision)
    }

    /// Reads a key.
    pub async fn get(
        &self,
        key: &[u8],
        consistency: Consistency,
    ) -> Result<Option<KeyValue>, Error> {
        let serializable = consistency == Consistency::Local;
        let request = proto::RangeRequest {
            key: key.to_vec(),
            range_end: Vec::new(),
            limit: 0,
            serializable,
            count_only: false,
        };
        let answer: proto::RangeResponse = self.call(RANGE, request).await?;
        Ok(answer.kvs.into_iter().next().map(KeyValue::from_proto))
    }

    /// How many keys there are, as this member has them.
    pub async fn count_keys(&self) -> Result<u64, Error> {
        let request = proto::RangeRequest {
            key: vec![0],
            range_end: vec![0],
            limit: 0,
            serializable: true,
            count_only: true,
        };
        let answer: proto::RangeResponse = self.call(RANGE, request).await?;
        u64::try_from(answer.count).map_err(|_below| self.bad_answer(RANGE, "its count is below 0"))
    }

    pub(crate) async fn call<Q, A>(&self, (call, path): Rpc, request: Q) -> Result<A, Error>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let answer = self.exchange(path, request).await;
        self.slot.calls.count(call, answer.is_ok());
        answer.map_err(|cause| Error::new(call, &self.slot.target, cause))
    }

    async fn exchange<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Cause>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let until = Instant::now() + self.deadline;
        let open = timeout_at(until, self.slot.connection())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(Cause::from_connect)?;
        let Ok(answer) = timeout_at(until, unary(open.sender, path, request)).await else {
            self.slot.forget_connection();
            return Err(Cause::Deadline {
                after: self.deadline,
            });
        };
        answer.map_err(|status| match open.refusal.get() {
            Some(alert) => Cause::Refused {
                alert: alert.to_owned(),
            },
            None => Cause::from_status(&status),
        })
    }

    pub(crate) fn headless(&self, rpc: Rpc) -> Error {
        self.bad_answer(rpc, "it has no header")
    }

    pub(crate) fn bad_answer(&self, (call, _): Rpc, detail: &str) -> Error {
        let cause = Cause::BadAnswer {
            detail: detail.to_owned(),
        };
        Error::new(call, &self.slot.target, cause)
    }
}

/// Whether etcd can read it in every release: a scheme, a host and a port, and nothing else.
pub(crate) fn is_peer_url(url: &str) -> bool {
    let schemes = ["http://", "https://"];
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some((host, port)) = rest.and_then(|rest| rest.rsplit_once(':')) else {
        return false;
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let six = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    let is_host = match six {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_plain),
    };
    is_port && is_host
}

/// One request and its answer over an open connection.
async fn unary<Q, A>(sender: Sender, path: &'static str, request: Q) -> Result<A, tonic::Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let service = tower::service_fn(move |request| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    // etcd does not look at the authority, but HTTP/2 wants one.
    let mut grpc = Grpc::with_origin(service, Uri::from_static("http://etcd"));
    let path = PathAndQuery::from_static(path);
    let answer = grpc
        .unary(tonic::Request::new(request), path, ProstCodec::default())
        .await?;
    Ok(answer.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scheme_a_host_and_a_port_are_a_peer_url() {
        for url in [
            "http://c-0.c-peer.ns.svc:2380",
            "https://c-0.c-peer.ns.svc.cluster.local:2380",
            "http://127.0.0.1:1",
            "https://[2001:db8::1]:2380",
        ] {
            assert!(is_peer_url(url), "{url}");
        }
        for url in [
            "",
            "nonsense",
            "http://",
            "http://c-0",
            "http://:2380",
            "http://c-0:",
            "http://c-0:+1",
            "http://c-0:65536",
            "http://c-0:2380/",
            "http://c-0:2380/x",
            "http://c-0:2380?x",
            "http://a@c-0:2380",
            "http://c 0:2380",
            "http://%zz:2380",
            "http://[::1:2380",
            "http://::1:2380",
            "http://[c-0]:2380",
            "unix://c-0:2380",
            "HTTP://c-0:2380",
            " http://c-0:2380",
            "http://c-0:2380,https://c-0:2380",
        ] {
            assert!(!is_peer_url(url), "{url}");
        }
    }
}
