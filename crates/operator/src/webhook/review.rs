//! Admission reviews, as far as they are looked at: what the API server asks, and what it is answered. Pure.

use api::absent::Addition;
use plan::admit::Verdict;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const VERSION: &str = "admission.k8s.io/v1";
const REVIEW: &str = "AdmissionReview";

/// A question. Objects are kept as they came: what is wrong with one is answered to its author, and not to the API server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) uid: String,
    pub(super) kind: GroupVersionKind,
    pub(super) operation: String,
    #[serde(default)]
    pub(super) sub_resource: Option<String>,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    #[serde(default)]
    pub(super) object: Value,
    #[serde(default)]
    pub(super) old_object: Value,
}

/// The kind of an object.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GroupVersionKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// Why a body is no question.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// It is no JSON, or lacks something.
    #[error("this is not an AdmissionReview: {0}")]
    Json(#[source] serde_json::Error),
    /// It is something else.
    #[error(
        "this is {kind:?} of {version:?}, and only an AdmissionReview of admission.k8s.io/v1 can be answered"
    )]
    Other {
        /// What it calls itself.
        kind: String,
        /// And its version.
        version: String,
    },
    /// It asks nothing.
    #[error("this AdmissionReview holds no request with a uid")]
    NoRequest,
}

impl Request {
    /// Reads a body.
    pub(super) fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let review: Review = serde_json::from_slice(body).map_err(Unreadable::Json)?;
        if review.kind != REVIEW || review.api_version != VERSION {
            return Err(Unreadable::Other {
                kind: review.kind,
                version: review.api_version,
            });
        }
        let request = review.request.filter(|request| !request.uid.is_empty());
        request.ok_or(Unreadable::NoRequest)
    }

    /// The object itself is created.
    pub(super) fn creates(&self) -> bool {
        self.operation == "CREATE" && self.is_whole()
    }

    /// The object itself is created or updated, and is not about to go.
    pub(super) fn writes(&self) -> bool {
        let goes = self.object.pointer("/metadata/deletionTimestamp").is_some();
        (self.creates() || self.operation == "UPDATE") && self.is_whole() && !goes
    }

    fn is_whole(&self) -> bool {
        self.sub_resource.as_deref().unwrap_or_default().is_empty()
    }

    /// It is about a kind that is judged here.
    pub(super) fn is_cluster(&self) -> bool {
        let GroupVersionKind {
            group,
            version,
            kind,
        } = &self.kind;
        (group.as_str(), version.as_str(), kind.as_str())
            == ("etcd.etcd.io", "v1alpha1", "EtcdCluster")
    }

    /// How it is answered.
    pub(super) fn answer(&self, verdict: &Verdict, additions: &[Addition]) -> String {
        let allowed = verdict.refused.is_empty();
        let mut response = Map::new();
        let mut say = |name: &str, value: Value| response.insert(name.to_owned(), value);
        say("uid", json!(self.uid));
        say("allowed", json!(allowed));
        if !allowed {
            let message = verdict.refused.join("; ");
            let status = json!({"code": 422, "reason": "Invalid", "message": message});
            say("status", status);
        }
        if !verdict.warnings.is_empty() {
            say("warnings", json!(verdict.warnings));
        }
        if allowed && !additions.is_empty() {
            let add = |it: &Addition| json!({"op": "add", "path": it.path, "value": it.value});
            let patch: Vec<Value> = additions.iter().map(add).collect();
            let patch = k8s_openapi::ByteString(json!(patch).to_string().into_bytes());
            say("patchType", json!("JSONPatch"));
            say("patch", json!(patch));
        }
        json!({"apiVersion": VERSION, "kind": REVIEW, "response": response}).to_string()
    }
}
