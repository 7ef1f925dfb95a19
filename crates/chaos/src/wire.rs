//! The calls of etcd that the clients and watchers make, written by hand as `crates/etcd` does, and apart from it: the
//! operator does not need them, and what judges the operator does not lean on its client.
//!
//! What must not happen here: a retry. One call is one request, and a failure says whether it may have taken effect.

mod messages;

use std::io;
use std::time::Duration;

use futures::{StreamExt, stream};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::TcpStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use self::messages as proto;
pub(crate) use self::messages::{EventType, WatchResponse};
use crate::history::{Action, Answer, Found, Key, Value};
use crate::members::Place;

/// How long one call may take, and opening a connection.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);
/// What every key begins with, and the end of the range of all of them.
const PREFIX: (&str, &str) = ("chaos/", "chaos0");
const DELETE: &str = "/etcdserverpb.KV/DeleteRange";

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It certainly changed nothing.
    Refused(String),
    Unknown(String),
}

/// Plaintext or TLS.
trait Bytes: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Bytes for T {}

/// A connection to one member.
#[derive(Clone)]
pub(crate) struct Connection {
    channel: Channel,
}

/// The database of one member at one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash {
    pub(crate) hash: u32,
    pub(crate) compacted: i64,
}

impl Connection {
    /// Nothing was sent if this fails.
    pub(crate) async fn open(place: &Place) -> Result<Self, Failure> {
        let refused = |error: &dyn std::error::Error| Failure::Refused(chain(error));
        let address = format!("{}:{}", place.address, etcd::CLIENT_PORT);
        let endpoint = Endpoint::from_shared(format!("http://{address}"));
        let endpoint = endpoint.map_err(|error| refused(&error))?;
        let login = place.login.clone();
        let connector = service_fn(move |_| {
            let (address, login) = (address.clone(), login.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok::<Box<dyn Bytes>, io::Error>(match login {
                    None => Box::new(TokioIo::new(stream)),
                    Some((login, host)) => Box::new(TokioIo::new(login.open(stream, &host).await?)),
                })
            }
        });
        let open = tokio::time::timeout(DEADLINE, endpoint.connect_with_connector(connector));
        let channel = open.await.map_err(|late| refused(&late))?;
        let channel = channel.map_err(|error| refused(&error))?;
        Ok(Self { channel })
    }

    /// One operation on one key.
    pub(crate) async fn act(&self, key: Key, action: Action) -> Result<Answer, Failure> {
        match action {
            Action::Get => self.get(key).await,
            Action::Put(value) => self.put(key, value).await,
            Action::Swap { from, to } => self.swap(key, from, to).await,
            Action::Delete => self.delete(key).await,
        }
    }

    /// The store's revision, confirmed by a quorum.
    pub(crate) async fn revision(&self) -> Result<i64, Failure> {
        self.get(0).await.map(|answer| answer.at)
    }

    /// What the member's database looks like at a revision.
    pub(crate) async fn hash(&self, revision: i64) -> Result<Hash, Failure> {
        let request = proto::HashRequest { revision };
        let path = "/etcdserverpb.Maintenance/HashKV";
        let answer: proto::HashResponse = self.call(path, request).await?;
        Ok(Hash {
            hash: answer.hash,
            compacted: answer.compact_revision,
        })
    }

    /// Every change from a revision on. A member without a leader ends it instead of being silent.
    pub(crate) async fn watch(&self, from: i64) -> Result<Streaming<WatchResponse>, Failure> {
        let create = proto::WatchRequest {
            create: Some(proto::WatchCreateRequest {
                key: PREFIX.0.into(),
                range_end: PREFIX.1.into(),
                start_revision: from,
            }),
        };
        // The watch lasts as long as this side of it is open.
        let requests = stream::iter([create]).chain(stream::pending());
        let mut request = Request::new(requests);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        let mut grpc = Grpc::new(self.channel.clone());
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let open = async {
            grpc.ready().await.map_err(|error| unknown(&error))?;
            let answer = grpc.streaming(request, path, ProstCodec::default()).await;
            answer.map_err(|status| failure(&status))
        };
        let answer = tokio::time::timeout(DEADLINE, open).await;
        Ok(answer.map_err(|late| unknown(&late))??.into_inner())
    }

    async fn get(&self, key: Key) -> Result<Answer, Failure> {
        let answer: proto::RangeResponse = self.call("/etcdserverpb.KV/Range", range(key)).await?;
        Ok(Answer {
            before: found(answer.kvs.first())?,
            wrote: false,
            at: at(answer.header.as_ref())?,
        })
    }

    async fn put(&self, key: Key, value: Value) -> Result<Answer, Failure> {
        let request = put(key, value);
        let answer: proto::PutResponse = self.call("/etcdserverpb.KV/Put", request).await?;
        Ok(Answer {
            before: found(answer.prev_kv.as_ref())?,
            wrote: true,
            at: at(answer.header.as_ref())?,
        })
    }

    async fn swap(&self, key: Key, from: Option<Value>, to: Value) -> Result<Answer, Failure> {
        let request = proto::TxnRequest {
            compare: vec![holds(key, from)],
            success: vec![proto::RequestOp {
                range: None,
                put: Some(put(key, to)),
            }],
            failure: vec![proto::RequestOp {
                range: Some(range(key)),
                put: None,
            }],
        };
        let answer: proto::TxnResponse = self.call("/etcdserverpb.KV/Txn", request).await?;
        let response = answer.responses.into_iter().next().unwrap_or_default();
        let before = if answer.succeeded {
            found(response.put.unwrap_or_default().prev_kv.as_ref())?
        } else {
            found(response.range.unwrap_or_default().kvs.first())?
        };
        Ok(Answer {
            before,
            wrote: answer.succeeded,
            at: at(answer.header.as_ref())?,
        })
    }

    async fn delete(&self, key: Key) -> Result<Answer, Failure> {
        let request = proto::DeleteRequest {
            key: name(key),
            range_end: Vec::new(),
            prev_kv: true,
        };
        let answer: proto::DeleteResponse = self.call(DELETE, request).await?;
        Ok(Answer {
            before: found(answer.prev_kvs.first())?,
            wrote: answer.deleted > 0,
            at: at(answer.header.as_ref())?,
        })
    }

    /// Deletes a range of keys that are not those of the clients.
    pub(crate) async fn forget(&self, (from, end): (&str, &str)) -> Result<(), Failure> {
        let request = proto::DeleteRequest {
            key: from.into(),
            range_end: end.into(),
            prev_kv: false,
        };
        let answer: proto::DeleteResponse = self.call(DELETE, request).await?;
        at(answer.header.as_ref()).map(drop)
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        let exchange = async {
            grpc.ready().await.map_err(|error| unknown(&error))?;
            let path = PathAndQuery::from_static(path);
            let answer = grpc.unary(Request::new(request), path, ProstCodec::default());
            answer.await.map_err(|status| failure(&status))
        };
        let answer = tokio::time::timeout(DEADLINE, exchange).await;
        Ok(answer.map_err(|late| unknown(&late))??.into_inner())
    }
}

/// The number in a key of ours.
pub(crate) fn parse_key(key: &[u8]) -> Option<Key> {
    let text = std::str::from_utf8(key).ok()?;
    text.strip_prefix(PREFIX.0)?.parse().ok()
}

/// The number that is a value of ours.
pub(crate) fn parse_value(value: &[u8]) -> Option<Value> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn name(key: Key) -> Vec<u8> {
    format!("{}{key}", PREFIX.0).into_bytes()
}

fn range(key: Key) -> proto::RangeRequest {
    proto::RangeRequest { key: name(key) }
}

fn put(key: Key, value: Value) -> proto::PutRequest {
    proto::PutRequest {
        key: name(key),
        value: value.to_string().into_bytes(),
        prev_kv: true,
    }
}

/// A key that does not exist has no value to compare, but a creation at revision 0.
fn holds(key: Key, value: Option<Value>) -> proto::Compare {
    let target = match value {
        Some(_) => proto::CompareTarget::Value,
        None => proto::CompareTarget::Create,
    };
    proto::Compare {
        target: target.into(),
        key: name(key),
        create_revision: value.is_none().then_some(0),
        value: value.map(|value| value.to_string().into_bytes()),
    }
}

fn found(entry: Option<&proto::KeyValue>) -> Result<Found, Failure> {
    let Some(entry) = entry else {
        return Ok(Found {
            value: None,
            revision: 0,
        });
    };
    let odd = || Failure::Unknown(format!("an odd value: {:?}", entry.value));
    Ok(Found {
        value: Some(parse_value(&entry.value).ok_or_else(odd)?),
        revision: entry.mod_revision,
    })
}

fn at(header: Option<&proto::Header>) -> Result<i64, Failure> {
    let missing = || Failure::Unknown("an answer without a header".to_owned());
    header.map(|header| header.revision).ok_or_else(missing)
}

fn unknown(error: &dyn std::error::Error) -> Failure {
    Failure::Unknown(chain(error))
}

/// Only what a server says when it has looked at a request and not carried it out is a refusal. That there is no space
/// left is none: etcd carries out the put that fills its quota, and says so all the same.
fn failure(status: &Status) -> Failure {
    let text = match std::error::Error::source(status) {
        Some(source) => chain(source),
        None => format!("{:?}: {}", status.code(), status.message()),
    };
    let refusal = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated
    );
    // etcd 3.5 says this with the code of things that pass by themselves.
    let learner = status.message() == "etcdserver: rpc not supported for learner";
    if refusal || learner {
        Failure::Refused(text)
    } else {
        Failure::Unknown(text)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
