//! Counts requests to the Kubernetes API by what they do to which kind, and by the status code of the answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response, Uri};
use tower::{Layer, Service};

use crate::metrics::{ApiRequest, Metrics};

/// Puts the count around a client.
#[derive(Clone)]
pub struct CountLayer(pub Arc<Metrics>);

impl<S> Layer<S> for CountLayer {
    type Service = Count<S>;

    fn layer(&self, inner: S) -> Count<S> {
        Count {
            inner,
            metrics: Arc::clone(&self.0),
        }
    }
}

/// A client that counts.
#[derive(Clone)]
pub struct Count<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, Q, A> Service<Request<Q>> for Count<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, ctx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(ctx)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (verb, resource) = kind(request.method(), request.uri());
        let metrics = Arc::clone(&self.metrics);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().map_or(0, |it| it.status().as_u16());
            metrics.count_request(ApiRequest {
                verb,
                resource,
                code,
            });
            answer
        })
    }
}

/// The verb and the resource, as roles have them; no name of an object. What is no resource (`/version`) has none.
fn kind(method: &Method, uri: &Uri) -> (&'static str, String) {
    let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
    // /api/VERSION or /apis/GROUP/VERSION
    match parts.next() {
        Some("api") => drop(parts.next()),
        Some("apis") => drop((parts.next(), parts.next())),
        _other => return ("get", String::new()),
    }
    let mut parts = parts.peekable();
    let mut rest: Vec<&str> = Vec::new();
    if parts.next_if_eq(&"namespaces").is_some() {
        let namespace = parts.next();
        // Below a namespace, or one of the namespaces themselves.
        if parts.peek().is_none() {
            rest.extend(std::iter::once("namespaces").chain(namespace));
        }
    }
    rest.extend(parts);
    let resource = match (rest.first(), rest.get(2)) {
        (Some(resource), Some(part)) => format!("{resource}/{part}"),
        (Some(resource), None) => (*resource).to_owned(),
        (None, _) => String::new(),
    };
    let query = uri.query().unwrap_or_default();
    let watches = query.split('&').any(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
        key == "watch" && value != "false" && value != "0"
    });
    let verb = match *method {
        Method::GET if watches => "watch",
        Method::GET if rest.len() < 2 => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    };
    (verb, resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_by_its_verb_and_its_resource_and_by_no_name() {
        for (method, path, expected) in [
            (Method::GET, "/version", ("get", "")),
            (Method::GET, "/api/v1/pods?limit=500", ("list", "pods")),
            (Method::GET, "/api/v1/pods?watch=true", ("watch", "pods")),
            (
                Method::GET,
                "/api/v1/namespaces/prod/pods",
                ("list", "pods"),
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/prod/pods/db-0",
                ("delete", "pods"),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/prod",
                ("get", "namespaces"),
            ),
            (
                Method::PUT,
                "/apis/etcd.etcd.io/v1alpha1/namespaces/prod/etcdclusters/db/status?",
                ("update", "etcdclusters/status"),
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/prod/statefulsets/db",
                ("patch", "statefulsets"),
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/prod/events",
                ("create", "events"),
            ),
        ] {
            let (verb, resource) = kind(&method, &path.parse().unwrap());
            assert_eq!((verb, resource.as_str()), expected, "{method} {path}");
        }
    }
}
