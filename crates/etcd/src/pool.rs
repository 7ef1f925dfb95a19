//! Keeps one connection per pod, and only as long as it is of use: a connection is opened by the
//! call that needs it, dropped when it closes or when a call on it ran out of time, and forgotten
//! with its pod.
//!
//! This sits on hyper's HTTP/2 connection rather than on tonic's `Channel`. A channel hides when it
//! connects, so "never sent" and "sent, no answer" would look alike; and a connect that hangs
//! there stays in the way of every later call.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::body::Body;

use crate::CLIENT_PORT;
use crate::calls::Calls;
use crate::connect::{BoxStream, Connect, Target};
use crate::member::Member;
use crate::tls::{Credentials, Refusal};

/// How a connection is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    #[default]
    Plain,
    /// By TLS on both sides.
    Tls {
        /// What we present, and which authorities we trust.
        credentials: Arc<Credentials>,
        /// The name that the member must hold a certificate for: its own, so that an address that leads to another member
        /// is noticed.
        name: String,
    },
}

impl Security {
    /// Puts it around a stream on which this protocol of HTTP is spoken.
    pub(crate) async fn protect(
        &self,
        stream: BoxStream,
        protocol: &[u8],
    ) -> io::Result<(BoxStream, Refusal)> {
        match self {
            Self::Plain => Ok((stream, Refusal::default())),
            Self::Tls { credentials, name } => {
                let secured = credentials.open(stream, name, protocol).await?;
                let refusal = secured.refusal();
                let stream: BoxStream = Box::new(secured);
                Ok((stream, refusal))
            }
        }
    }
}

/// Connections to members, at most one per pod.
#[derive(Clone)]
pub struct Pool {
    connect: Arc<dyn Connect>,
    window: u32,
    calls: Calls,
    slots: Arc<Mutex<BTreeMap<Name, Arc<Slot>>>>,
}

/// Namespace and name of a pod. The address is compared, not part of the key: a pod that moved
/// replaces what was kept for it.
type Name = (String, String);

impl Pool {
    /// An empty pool that opens its connections through `connect`.
    pub fn new(connect: Arc<dyn Connect>) -> Self {
        Self {
            connect,
            window: WINDOW,
            calls: Calls::default(),
            slots: Arc::default(),
        }
    }

    /// The same for streams of much data: a member may be this many bytes ahead of the reader. With the least window that
    /// HTTP/2 knows, a round trip of a few milliseconds would be all that a stream is slow by.
    #[must_use]
    pub fn with_window(self, window: u32) -> Self {
        Self { window, ..self }
    }

    /// A handle for one member. Opens nothing yet.
    pub fn member(&self, target: &Target, security: &Security) -> Member {
        let name = (target.namespace.clone(), target.pod.clone());
        let fresh = || {
            Arc::new(Slot::new(
                Arc::clone(&self.connect),
                target.clone(),
                security.clone(),
                (self.window, self.calls.clone()),
            ))
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(name).or_insert_with(fresh);
        if slot.target != *target || slot.security != *security {
            *slot = fresh();
        }
        Member::new(Arc::clone(slot))
    }

    /// Forgets every pod that `keep` does not want kept. Calls under way are not disturbed.
    pub fn retain(&self, mut keep: impl FnMut(&Target) -> bool) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| keep(&slot.target));
    }

    /// The calls of its members, counted from now on as well.
    pub fn calls(&self) -> Calls {
        self.calls.clone()
    }

    /// How many pods are remembered.
    pub fn len(&self) -> usize {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether no pod is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One pod's place in the pool.
pub(crate) struct Slot {
    connect: Arc<dyn Connect>,
    pub(crate) target: Target,
    security: Security,
    window: u32,
    pub(crate) calls: Calls,
    /// Held while connecting, so that calls made together share one connection.
    open: tokio::sync::Mutex<Option<Open>>,
}

pub(crate) type Sender = http2::SendRequest<Body>;

/// An open connection.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) sender: Sender,
    /// Why the member ended it, where it does not accept us.
    pub(crate) refusal: Refusal,
}

impl Slot {
    fn new(
        connect: Arc<dyn Connect>,
        target: Target,
        security: Security,
        (window, calls): (u32, Calls),
    ) -> Self {
        Self {
            connect,
            target,
            security,
            window,
            calls,
            open: tokio::sync::Mutex::default(),
        }
    }

    /// The open connection, or a new one. Safe to drop at any point.
    pub(crate) async fn connection(&self) -> io::Result<Open> {
        let mut kept = self.open.lock().await;
        if let Some(open) = kept.as_ref().filter(|open| !open.sender.is_closed()) {
            return Ok(open.clone());
        }
        *kept = None;
        let open = self.open().await?;
        *kept = Some(open.clone());
        Ok(open)
    }

    async fn open(&self) -> io::Result<Open> {
        let stream = self.connect.connect(&self.target, CLIENT_PORT).await?;
        let (stream, refusal) = self.security.protect(stream, b"h2").await?;
        // Answers are a few kilobytes, but for snapshots. The smallest windows HTTP/2 knows bound what a member can
        // make us hold. No keepalive: every call has a deadline, and an idle connection may rest.
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(self.window)
            .initial_connection_window_size(self.window)
            .max_send_buf_size(SEND_BUFFER)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // Ends by itself with the last sender or with the stream. How it ended is told to the calls
        // that were under way, so nothing is lost here.
        drop(tokio::spawn(connection));
        Ok(Open { sender, refusal })
    }

    /// Drops the connection after a call on it ran out of time: it may lead to a node that is gone
    /// without a word, and then every later call on it would wait as well. If the lock is
    /// taken, a new connection is being opened already.
    pub(crate) fn forget_connection(&self) {
        if let Ok(mut kept) = self.open.try_lock() {
            *kept = None;
        }
    }
}

const WINDOW: u32 = 65_535;
const SEND_BUFFER: usize = 64 * 1024;
