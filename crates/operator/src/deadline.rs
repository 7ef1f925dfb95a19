//! A deadline on every request to the API server. The client has none of its own, and a connection that leads nowhere
//! would hold the caller until TCP gives up, a quarter of an hour later.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Layer, Service};

/// How long the API server may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For an answer, from its first byte to its last.
    pub answer: Duration,
    /// For a page of a list, which can be large.
    pub list: Duration,
    /// Between two bytes of a watch. The API server sends a bookmark every minute.
    pub watch: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(15),
            list: Duration::from_mins(1),
            watch: Duration::from_mins(2),
        }
    }
}

/// The API server took too long. What became of the request is not known.
#[derive(Debug, Error)]
#[error("the API server did not answer within {} s", .0.as_secs())]
pub struct Late(Duration);

/// Puts the deadlines around a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadlineLayer(pub Patience);

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline {
            inner,
            patience: self.0,
        }
    }
}

/// A client with deadlines.
#[derive(Clone, Debug)]
pub struct Deadline<S> {
    inner: S,
    patience: Patience,
}

impl<S, Q, A> Service<Request<Q>> for Deadline<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<Timed<A>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, ctx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(ctx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let kind = Kind::of(&request);
        let patience = self.patience;
        let whole = match kind {
            Kind::List => patience.list,
            Kind::Watch | Kind::Upgrade | Kind::Other => patience.answer,
        };
        let until = Instant::now() + whole;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Ok(answer) = timeout_at(until, answer).await else {
                return Err(Late(whole).into());
            };
            let timer = match kind {
                // Its stream is not the body of the answer, and its reader has deadlines.
                Kind::Upgrade => None,
                Kind::Watch => Some(Timer::idle(patience.watch)),
                Kind::List | Kind::Other => Some(Timer::until(until, whole)),
            };
            let answer = answer.map_err(Into::into)?;
            Ok(answer.map(|body| Timed { body, timer }))
        })
    }
}

/// What kind of answer is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One that goes on for as long as there is news.
    Watch,
    /// A page of many objects.
    List,
    /// A stream of its own.
    Upgrade,
    /// One object.
    Other,
}

impl Kind {
    fn of<Q>(request: &Request<Q>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let asks = |key: &str| {
            let mut pairs = query.split('&').map(|pair| pair.split_once('='));
            pairs.any(|pair| pair.is_some_and(|(name, _)| name == key))
        };
        if request.headers().contains_key(http::header::UPGRADE) {
            Self::Upgrade
        } else if asks("watch") {
            Self::Watch
        } else if asks("limit") {
            Self::List
        } else {
            Self::Other
        }
    }
}

/// When a body must have ended, or gone on.
struct Timer {
    sleep: Pin<Box<Sleep>>,
    after: Duration,
    /// Every byte starts it again.
    idle: bool,
}

impl Timer {
    fn idle(after: Duration) -> Self {
        Self {
            idle: true,
            ..Self::until(Instant::now() + after, after)
        }
    }

    fn until(until: Instant, after: Duration) -> Self {
        Self {
            sleep: Box::pin(sleep_until(until)),
            after,
            idle: false,
        }
    }
}

/// The body of an answer, with a deadline.
pub struct Timed<B> {
    body: B,
    timer: Option<Timer>,
}

impl<B> Body for Timed<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(ctx) {
            if let Some(timer) = this.timer.as_mut().filter(|timer| timer.idle) {
                timer.sleep.as_mut().reset(Instant::now() + timer.after);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match &mut this.timer {
            Some(timer) => timer
                .sleep
                .as_mut()
                .poll(ctx)
                .map(|()| Some(Err(Late(timer.after).into()))),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_by_what_it_asks_for() {
        let kind = |uri: &str| Kind::of(&Request::get(uri).body(()).unwrap());
        for (uri, expected) in [
            ("/api/v1/pods?&watch=true&resourceVersion=7", Kind::Watch),
            ("/api/v1/pods?&limit=500&resourceVersion=0", Kind::List),
            ("/api/v1/namespaces/prod/pods/db-0", Kind::Other),
            ("/api/v1/namespaces/prod/pods/watch?", Kind::Other),
        ] {
            assert_eq!(kind(uri), expected, "{uri}");
        }
        let upgrade = Request::get("/").header(http::header::UPGRADE, "websocket");
        assert_eq!(Kind::of(&upgrade.body(()).unwrap()), Kind::Upgrade);
    }
}
