//! Everything that happens to the keys of a member, from a revision on, in the order in which it happened. A stream has no
//! deadline; each answer has a limit of its own, and a caller that asks for progress gets one though nothing happens.

use std::io;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic_prost::ProstCodec;

use crate::connect::Target;
use crate::error::{Cause, Error};
use crate::member::{Member, Rpc};
use crate::pool::Open;
use crate::proto::watch::{
    Event, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, WatchCreateRequest,
    WatchProgressRequest, WatchRequest, WatchResponse,
};
use crate::tls::Refusal;

const WATCH: Rpc = ("watch", "/etcdserverpb.Watch/Watch");
const LEASE: Rpc = ("lease time to live", "/etcdserverpb.Lease/LeaseTimeToLive");
/// No answer is longer: a member that is asked for fragments sends little more than its largest request at once.
const LONGEST: usize = 128 << 20;
/// Requests that the member has not taken yet.
const ASKED: usize = 4;

/// A watch over all keys; dropping it ends it on the member.
pub struct Watch {
    stream: Streaming<WatchResponse>,
    requests: mpsc::Sender<WatchRequest>,
    target: Target,
    refusal: Refusal,
    idle: Duration,
}

/// What a watch brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Changes, in order. Those of one revision come together, or in parts.
    Changes {
        /// They.
        changes: Vec<Change>,
        /// The last revision of them is complete.
        is_whole: bool,
    },
    /// All changes up to this revision came.
    Progress(i64),
    /// The watch ended: what it was to bring next was compacted away, up to this revision.
    Compacted(i64),
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// It was deleted.
    pub is_delete: bool,
    /// The `KeyValue` in protobuf, as etcd sent it.
    pub key_value: Vec<u8>,
}

impl Member {
    /// Watches all keys from a revision on, which may lie ahead. `idle` is how long the member may take for each answer.
    pub async fn watch(&self, from: i64, idle: Duration) -> Result<Watch, Error> {
        let opened = self.open_watch(from, idle).await;
        opened.map_err(|cause| Error::new(WATCH.0, self.target(), cause))
    }

    async fn open_watch(&self, from: i64, idle: Duration) -> Result<Watch, Cause> {
        let until = Instant::now() + self.deadline;
        let open = timeout_at(until, self.slot.connection())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(Cause::from_connect)?;
        let refusal = open.refusal.clone();
        let (requests, asked) = mpsc::channel(ASKED);
        let create = WatchCreateRequest {
            key: vec![0],
            range_end: vec![0],
            start_revision: from,
            progress_notify: true,
            fragment: true,
        };
        let request = WatchRequest {
            create: Some(create),
            progress: None,
        };
        // There is room: nothing was asked before.
        drop(requests.try_send(request));
        let stream = match timeout_at(until, ask(open, asked)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(status)) => return Err(meaning(&refusal, &status)),
            Err(_elapsed) => {
                self.slot.forget_connection();
                return Err(Cause::Deadline {
                    after: self.deadline,
                });
            }
        };
        Ok(Watch {
            stream,
            requests,
            target: self.target().clone(),
            refusal,
            idle,
        })
    }

    /// For how many seconds a lease was granted; `None` if there is no such lease.
    pub async fn lease_granted(&self, id: i64) -> Result<Option<i64>, Error> {
        let request = LeaseTimeToLiveRequest { id };
        let answer: LeaseTimeToLiveResponse = self.call(LEASE, request).await?;
        // etcd answers a lease that it does not have with a time to live of -1.
        let is_there = answer.ttl >= 0 && answer.granted_ttl > 0;
        Ok(is_there.then_some(answer.granted_ttl))
    }
}

impl Watch {
    /// Asks for the progress. One that was asked for before and did not come yet is as good.
    pub fn ask_progress(&self) {
        let request = WatchRequest {
            create: None,
            progress: Some(WatchProgressRequest {}),
        };
        drop(self.requests.try_send(request));
    }

    /// What comes next. That the member ended the stream is an error: a watch has no end.
    pub async fn next(&mut self) -> Result<Watched, Error> {
        loop {
            let answer = match timeout(self.idle, self.stream.message()).await {
                Ok(Ok(Some(answer))) => understood(answer),
                Ok(Ok(None)) => Err(Cause::BadAnswer {
                    detail: "the member ended the watch".to_owned(),
                }),
                Ok(Err(status)) => Err(meaning(&self.refusal, &status)),
                Err(_elapsed) => Err(Cause::Deadline { after: self.idle }),
            };
            let answer = answer.map_err(|cause| Error::new(WATCH.0, &self.target, cause))?;
            if let Some(watched) = answer {
                return Ok(watched);
            }
        }
    }
}

/// What an answer says; `None` for one that only says that the watch began.
pub(crate) fn understood(answer: WatchResponse) -> Result<Option<Watched>, Cause> {
    if answer.compact_revision > 0 {
        return Ok(Some(Watched::Compacted(answer.compact_revision)));
    }
    if answer.canceled {
        let reason = answer.cancel_reason;
        let detail = format!("the member cancelled the watch: {reason}");
        return Err(Cause::BadAnswer { detail });
    }
    if answer.created {
        return Ok(None);
    }
    if answer.events.is_empty() && !answer.fragment {
        let header = answer.header.ok_or_else(|| Cause::BadAnswer {
            detail: "it has no header".to_owned(),
        })?;
        return Ok(Some(Watched::Progress(header.revision)));
    }
    let change = |event: Event| Change {
        is_delete: event.kind == 1,
        key_value: event.key_value,
    };
    Ok(Some(Watched::Changes {
        changes: answer.events.into_iter().map(change).collect(),
        is_whole: !answer.fragment,
    }))
}

async fn ask(
    open: Open,
    asked: mpsc::Receiver<WatchRequest>,
) -> Result<Streaming<WatchResponse>, tonic::Status> {
    let service = tower::service_fn(move |request| {
        let mut sender = open.sender.clone();
        async move { sender.send_request(request).await }
    });
    // As in every call: etcd does not look at the authority.
    let grpc = Grpc::with_origin(service, Uri::from_static("http://etcd"));
    let mut grpc = grpc.max_decoding_message_size(LONGEST);
    let path = PathAndQuery::from_static(WATCH.1);
    let request = tonic::Request::new(ReceiverStream::new(asked));
    let codec: ProstCodec<WatchRequest, WatchResponse> = ProstCodec::default();
    let answer = grpc.streaming(request, path, codec).await?;
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
