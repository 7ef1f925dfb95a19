//! The whole database of a member, as a stream of pieces. The deadline of a call cannot bound it, because it is not known how
//! large it is: each piece has a limit of its own. While it is open, the member reuses no page of its file, so a caller
//! must not let it wait.

use std::io;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use prost::bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Streaming;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use crate::connect::Target;
use crate::error::{Cause, Error};
use crate::member::{Member, Rpc};
use crate::pool::Open;
use crate::proto;
use crate::tls::Refusal;

const SNAPSHOT: Rpc = ("snapshot", "/etcdserverpb.Maintenance/Snapshot");

/// A snapshot that is being read; dropping it ends it on the member.
pub struct Snapshot {
    stream: Streaming<proto::SnapshotResponse>,
    target: Target,
    refusal: Refusal,
    idle: Duration,
}

impl Member {
    /// Opens a snapshot. Learners serve it as well. `idle` is how long the member may take for each piece.
    pub async fn snapshot(&self, idle: Duration) -> Result<Snapshot, Error> {
        let opened = self.open_snapshot(idle).await;
        opened.map_err(|cause| Error::new(SNAPSHOT.0, self.target(), cause))
    }

    async fn open_snapshot(&self, idle: Duration) -> Result<Snapshot, Cause> {
        let until = Instant::now() + self.deadline;
        let open = timeout_at(until, self.slot.connection())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(Cause::from_connect)?;
        let refusal = open.refusal.clone();
        // The header of the answer comes with the first piece, for which a large database must be opened.
        let stream = match timeout(idle, ask(open)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(status)) => return Err(meaning(&refusal, &status)),
            Err(_elapsed) => return Err(Cause::Deadline { after: idle }),
        };
        Ok(Snapshot {
            stream,
            target: self.target().clone(),
            refusal,
            idle,
        })
    }
}

impl Snapshot {
    /// The next piece; `None` at the end. That a stream ended does not say that it is whole: the hash at its end does.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let piece = match timeout(self.idle, self.stream.message()).await {
            Ok(Ok(piece)) => Ok(piece.map(|piece| piece.blob)),
            Ok(Err(status)) => Err(meaning(&self.refusal, &status)),
            Err(_elapsed) => Err(Cause::Deadline { after: self.idle }),
        };
        piece.map_err(|cause| Error::new(SNAPSHOT.0, &self.target, cause))
    }
}

async fn ask(open: Open) -> Result<Streaming<proto::SnapshotResponse>, tonic::Status> {
    let service = tower::service_fn(move |request| {
        let mut sender = open.sender.clone();
        async move { sender.send_request(request).await }
    });
    // As in every call: etcd does not look at the authority.
    let mut grpc = Grpc::with_origin(service, Uri::from_static("http://etcd"));
    let path = PathAndQuery::from_static(SNAPSHOT.1);
    let request = tonic::Request::new(proto::SnapshotRequest {});
    let codec: ProstCodec<_, _> = ProstCodec::default();
    let answer = grpc.server_streaming(request, path, codec).await?;
    Ok(answer.into_inner())
}

fn meaning(refusal: &Refusal, status: &tonic::Status) -> Cause {
    match refusal.get() {
        Some(alert) => Cause::Refused {
            alert: alert.to_owned(),
        },
        None => Cause::from_status(status),
    }
}
