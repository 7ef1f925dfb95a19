//! Talks to etcd members, and to the gate in front of them, over any byte stream. One handle per
//! member, a deadline on every call, and an error that says what etcd meant.
//!
//! What must not happen here: a retry, a log line, a choice. The caller decides what an answer is
//! worth; this crate only makes sure that "refused" and "outcome unknown" cannot be mistaken for
//! each other ([`Error::outcome_is_unknown`]).
//!
//! The few RPCs are written by hand (`proto.rs`): the usual client cannot ask for a linearizable
//! member list, balances over members where we need to know who answered, and wants `protoc`.

mod auth;
mod calls;
mod connect;
mod error;
mod facts;
mod gate_report;
#[cfg(test)]
mod hostile;
mod http;
mod maintenance;
mod member;
mod metrics;
mod pool;
mod proto;
mod snapshot;
mod tls;
mod watch;

pub use auth::{Access, AuthStatus, Permission};
pub use calls::{Call, Calls};
pub use connect::{BoxFuture, BoxStream, ByteStream, Connect, DirectTcp, Target};
pub use error::{Cause, Error};
pub use facts::{Consistency, DowngradeAction, KeyValue, MemberInfo, MemberList, Status};
pub use gate_report::{GateAnswer, gate_report};
pub use maintenance::{Alarm, AlarmKind, Hash};
pub use member::Member;
pub use metrics::{Ended, Metrics, metrics};
pub use pool::{Pool, Security};
pub use snapshot::Snapshot;
pub use tls::{BadCredentials, Credentials};
pub use tonic::Code;
pub use watch::{Change, Watch, Watched};

use std::time::Duration;

/// Port on which a member serves its clients.
pub const CLIENT_PORT: u16 = 2379;
/// Default deadline of a call.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);
