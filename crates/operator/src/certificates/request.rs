//! What becomes of what cert-manager was asked for. Its kinds may not be there, so nothing of it is watched: its objects are
//! asked for by name, at the pace at which the Secrets of another source are read.

use api::names;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject};
use kube::core::Status;
use kube::{Api, ResourceExt};
use manifests::Owner;
use manifests::certificate::{self, GROUP, KIND, VERSION};
use plan::observed::Request;
use serde_json::Value;

use crate::context::Context;

/// A renewal that takes longer than this is told of.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// What was seen of the Certificate.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) request: Request,
    /// It has another owner, and so does what comes of it.
    pub(crate) foreign: bool,
}

impl Seen {
    fn trouble(why: String) -> Self {
        let trouble = Some(why);
        let request = Request {
            due: false,
            trouble,
        };
        let foreign = false;
        Self { request, foreign }
    }
}

/// One of cert-manager's kinds.
fn api(kind: &str, plural: &str, namespace: &str, ctx: &Context) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: format!("{GROUP}/{VERSION}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::namespaced_with(ctx.client.clone(), namespace, &resource)
}

/// Certificates of a namespace.
pub(crate) fn certificates(namespace: &str, ctx: &Context) -> Api<DynamicObject> {
    api(KIND, "certificates", namespace, ctx)
}

/// Whether an answer says that there is no object of this name, and not that there is no such kind.
pub(crate) fn is_absent(status: &Status, name: &str) -> bool {
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|details| details.name == name)
}

/// The Certificate is this cluster's.
pub(crate) fn is_ours(live: &DynamicObject, owner: &Owner) -> bool {
    live.owner_references()
        .iter()
        .any(|it| it.controller == Some(true) && it.uid == owner.uid)
}

/// Whether a Certificate of this cluster's is there though another source is named now; `None` where that cannot be known yet.
/// Without the kind, or the right to read it, there is none that we could have made.
pub(crate) async fn is_left_over(owner: &Owner, ctx: &Context) -> Option<bool> {
    let name = names::issued(&owner.name);
    match certificates(&owner.namespace, ctx).get(&name).await {
        Ok(live) => Some(is_ours(&live, owner)),
        Err(kube::Error::Api(status)) if matches!(status.code, 400..=428) => Some(false),
        Err(error) => {
            tracing::debug!(name, %error, "a Certificate cannot be read");
            None
        }
    }
}

/// Looks at the Certificate; an error where the API server could not be asked.
pub(crate) async fn look(
    owner: &Owner,
    wanted: &certificate::Request,
    now: Timestamp,
    ctx: &Context,
) -> Result<Seen, String> {
    let name = names::issued(&owner.name);
    let live = match certificates(&owner.namespace, ctx).get(&name).await {
        Ok(live) => live,
        Err(kube::Error::Api(status)) if is_absent(&status, &name) => {
            let mut seen = Seen::default();
            seen.request.due = true;
            return Ok(seen);
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Ok(Seen::trouble(NOT_INSTALLED.to_owned()));
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400..=428) => {
            let message = &status.message;
            let why = format!("the Certificate {name} cannot be read: {message}");
            return Ok(Seen::trouble(why));
        }
        Err(error) => return Err(format!("the Certificate {name} cannot be read: {error}")),
    };
    if !is_ours(&live, owner) {
        let why = format!(
            "the Certificate {name} has another owner and is left alone: delete or rename it, or give the EtcdCluster another name"
        );
        let foreign = true;
        return Ok(Seen {
            foreign,
            ..Seen::trouble(why)
        });
    }
    let live = serde_json::to_value(&live).map_err(|error| error.to_string())?;
    let due = certificate::differs(&certificate::build(owner, wanted), &live).is_some();
    let trouble = trouble(owner, &live, wanted, now, ctx).await;
    let request = Request { due, trouble };
    let foreign = false;
    Ok(Seen { request, foreign })
}

const NOT_INSTALLED: &str = "cert-manager is not installed: the API server knows no kind Certificate of cert-manager.io/v1. Install it, which is noticed within ten seconds, or name another source of certificates in security.tls";

/// Why nothing comes of it, in cert-manager's own words.
async fn trouble(
    owner: &Owner,
    live: &Value,
    wanted: &certificate::Request,
    now: Timestamp,
    ctx: &Context,
) -> Option<String> {
    let name = names::issued(&owner.name);
    let (ready, issuing) = (Condition::of(live, "Ready"), Condition::of(live, "Issuing"));
    let Some(ready) = ready else {
        return Some(format!(
            "cert-manager has said nothing of the Certificate {name} yet: see whether it runs"
        ));
    };
    let slow = issuing.filter(|it| it.is("True") && it.lasts(now) >= PATIENCE);
    let failed = issuing.filter(|it| it.is("False") && it.reason != "Issued");
    if ready.is("True") && slow.is_none() && failed.is_none() {
        return None;
    }
    let said = failed.or(slow).unwrap_or(ready).message;
    let mut why = format!("cert-manager says of the Certificate {name}: {said:?}");
    if failed.is_none()
        && let Some((request, words)) = of_request(owner, live, ctx).await
    {
        why = format!("{why}, and of the CertificateRequest {request}: {words:?}");
    }
    let issuer = &wanted.issuer;
    Some(format!(
        "{why}. See to the {} {}, or name another issuer in security.tls.certManager.issuerRef",
        issuer.kind, issuer.name
    ))
}

/// What is said of the request that is under way. Its name is the Certificate's with the number of the next revision, since
/// cert-manager 1.13; an earlier one is asked for in vain, and told of without these words.
async fn of_request(owner: &Owner, live: &Value, ctx: &Context) -> Option<(String, String)> {
    let revision = live.pointer("/status/revision").and_then(Value::as_i64);
    let next = revision.unwrap_or(0).checked_add(1)?;
    let name = format!("{}-{next}", names::issued(&owner.name));
    let requests = api(
        "CertificateRequest",
        "certificaterequests",
        &owner.namespace,
        ctx,
    );
    let request = match requests.get(&name).await {
        Ok(request) => serde_json::to_value(&request).ok()?,
        Err(error) => {
            tracing::debug!(name, %error, "a CertificateRequest cannot be read");
            return None;
        }
    };
    let denied = Condition::of(&request, "Denied").filter(|it| it.is("True"));
    let ready = Condition::of(&request, "Ready").filter(|it| !it.is("True"));
    let words = denied.or(ready)?.message.to_owned();
    Some((name, words))
}

/// One condition of an object.
#[derive(Clone, Copy)]
struct Condition<'a> {
    status: &'a str,
    reason: &'a str,
    message: &'a str,
    since: Option<Timestamp>,
}

impl<'a> Condition<'a> {
    fn of(object: &'a Value, kind: &str) -> Option<Self> {
        let all = object.pointer("/status/conditions")?.as_array()?;
        let text = |it: &'a Value, key: &str| it.get(key).and_then(Value::as_str);
        let found = all.iter().find(|it| text(it, "type") == Some(kind))?;
        Some(Self {
            status: text(found, "status")?,
            reason: text(found, "reason").unwrap_or_default(),
            message: text(found, "message").unwrap_or_default(),
            since: text(found, "lastTransitionTime").and_then(|at| at.parse().ok()),
        })
    }

    fn is(&self, status: &str) -> bool {
        self.status == status
    }

    fn lasts(&self, now: Timestamp) -> SignedDuration {
        self.since
            .map_or(SignedDuration::ZERO, |since| now.duration_since(since))
    }
}
