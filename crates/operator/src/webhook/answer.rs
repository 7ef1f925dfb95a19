//! From a request to its answer. Nothing that is sent here can end the operator: a body that is no review is answered with
//! 400, an object that cannot be read with a refusal that says why.

use std::sync::Arc;

use api::EtcdCluster;
use api::absent::Addition;
use http::StatusCode;
use kube::Client;
use plan::admit::{Verdict, judge};
use serde_json::Value;

use super::facts;
use super::review::Request;
use crate::metrics::Metrics;

/// What is needed to answer.
pub struct Answers {
    /// The Kubernetes API.
    pub client: Client,
    /// Where answers are counted.
    pub metrics: Arc<Metrics>,
}

/// The two questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// What to add to a new object.
    Mutate,
    /// Whether a spec can be had.
    Validate,
}

impl Asked {
    /// By the path of the request.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/mutate" => Some(Self::Mutate),
            "/validate" => Some(Self::Validate),
            _other => None,
        }
    }
}

/// An object and the one before, both as they can be read.
type Pair = (Option<EtcdCluster>, EtcdCluster);

/// A body, once it was read.
enum Read {
    /// It needs nothing else.
    Answered(Answer),
    /// A spec is to be judged.
    Judge(Box<Request>, Box<Pair>),
}

/// What is answered, and how it is counted.
struct Answer {
    status: StatusCode,
    text: String,
    word: &'static str,
}

impl Answer {
    fn to(request: &Request, verdict: &Verdict, additions: &[Addition]) -> Self {
        let allowed = verdict.refused.is_empty();
        Self {
            status: StatusCode::OK,
            text: request.answer(verdict, additions),
            word: if allowed { "allowed" } else { "refused" },
        }
    }
}

impl Answers {
    /// Answers a body.
    pub(super) async fn answer(&self, asked: Asked, body: &[u8]) -> (StatusCode, String) {
        let answer = match read(asked, body) {
            Read::Answered(answer) => answer,
            Read::Judge(request, pair) => {
                let namespace = request.namespace.as_deref().unwrap_or_default();
                let (old, new) = (pair.0.as_ref(), &pair.1);
                let facts = facts::read(&self.client, namespace, (old, new)).await;
                Answer::to(&request, &judge(old, new, &facts), &[])
            }
        };
        self.metrics.count_review(answer.word);
        (answer.status, answer.text)
    }
}

fn read(asked: Asked, body: &[u8]) -> Read {
    let request = match Request::read(body) {
        Ok(request) => request,
        Err(unreadable) => {
            return Read::Answered(Answer {
                status: StatusCode::BAD_REQUEST,
                text: unreadable.to_string(),
                word: "unreadable",
            });
        }
    };
    let (verdict, additions) = match (asked, judged(&request)) {
        (Asked::Mutate, _) => (Verdict::default(), additions(&request)),
        (Asked::Validate, Err(verdict)) => (verdict, Vec::new()),
        (Asked::Validate, Ok(pair)) => return Read::Judge(Box::new(request), Box::new(pair)),
    };
    Read::Answered(Answer::to(&request, &verdict, &additions))
}

fn additions(request: &Request) -> Vec<Addition> {
    if request.is_cluster() && request.creates() {
        api::absent::of_cluster(&request.object)
    } else {
        Vec::new()
    }
}

/// What is to be judged, or the verdict where nothing is.
fn judged(request: &Request) -> Result<Pair, Verdict> {
    if !request.is_cluster() {
        let kind = &request.kind.kind;
        return Err(Verdict {
            warnings: vec![format!(
                "this release of the etcd operator does not check objects of kind {kind}"
            )],
            ..Verdict::default()
        });
    }
    if !request.writes() {
        return Err(Verdict::default());
    }
    let new = parse(&request.object).map_err(|error| Verdict {
        refused: vec![format!("the EtcdCluster cannot be read: {error}")],
        ..Verdict::default()
    })?;
    // One that cannot be read proves nothing, and must not keep its owner from correcting it.
    Ok((parse(&request.old_object).ok(), new))
}

fn parse(object: &Value) -> serde_json::Result<EtcdCluster> {
    serde::Deserialize::deserialize(object)
}

#[cfg(test)]
mod tests;
