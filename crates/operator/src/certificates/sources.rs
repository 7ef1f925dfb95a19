//! Reads what another source has for the members. Its Secrets are not ours, so they are asked for one by one, at a calm pace,
//! and no key of them is kept: what is copied is read again then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::intent::Source;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use plan::Observed;
use plan::observed::Offered;

use super::given::{Checked, Given, Planes};
use super::subjects::Subjects;
use crate::context::Context;

/// How often a source is read whose certificates can be used.
const CALM: Duration = Duration::from_mins(1);
/// How often one whose certificates cannot be used: a little less than two looks at a settled cluster are apart.
const AWAITED: Duration = Duration::from_secs(9);

/// What the sources were last seen to have, by the UID of their cluster. Losing it costs a read of each.
#[derive(Default)]
pub struct Sources(Mutex<BTreeMap<String, Known>>);

struct Known {
    /// What was asked of which source.
    asked: String,
    at: Instant,
    offered: Offered,
}

impl Sources {
    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    /// What is known, unless it is time to read it.
    fn fresh(&self, uid: &str, asked: &str, now: Instant) -> Option<Offered> {
        let all = self.lock();
        let known = all.get(uid).filter(|known| known.asked == asked)?;
        let pace = match known.offered {
            Offered::Usable(_) => CALM,
            Offered::Own | Offered::Unusable(_) => AWAITED,
        };
        let due = now.saturating_duration_since(known.at) >= pace;
        (!due).then(|| known.offered.clone())
    }

    fn last(&self, uid: &str, asked: &str) -> Option<Offered> {
        let all = self.lock();
        let known = all.get(uid).filter(|known| known.asked == asked)?;
        Some(known.offered.clone())
    }

    fn note(&self, uid: &str, known: Known) {
        self.lock().insert(uid.to_owned(), known);
    }

    /// It is read again at the next look.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a source could not be used.
pub(crate) enum Trouble {
    /// It has nothing that can be used.
    Unusable(String),
    /// It could not be asked, and may have what it had.
    Unasked(String),
}

/// What the source of a cluster has, read if it is time.
pub(crate) async fn look(observed: &Observed, subjects: &Subjects<'_>, ctx: &Context) -> Offered {
    let uid = &observed.cluster.uid;
    if matches!(subjects.tls.source, Source::Operator | Source::Nowhere) {
        ctx.sources.forget(uid);
        return Offered::Own;
    }
    let planes = planes(observed);
    let source = &subjects.tls.source;
    let asked = format!("{source:?} {planes:?} {}", subjects.asked_of_members());
    if let Some(offered) = ctx.sources.fresh(uid, &asked, Instant::now()) {
        return offered;
    }
    let offered = match take(subjects, planes, observed.now, ctx).await {
        Ok((_, checked)) => Offered::Usable(checked.copied),
        Err(Trouble::Unusable(why)) => Offered::Unusable(why),
        Err(Trouble::Unasked(why)) => {
            let last = ctx.sources.last(uid, &asked);
            last.unwrap_or(Offered::Unusable(why))
        }
    };
    let known = Known {
        asked,
        at: Instant::now(),
        offered: offered.clone(),
    };
    ctx.sources.note(uid, known);
    offered
}

/// Which planes are to have TLS, or have it.
pub(crate) fn planes(observed: &Observed) -> Planes {
    let intent = observed.cluster.intent.as_ref();
    let asked = intent.map(|intent| intent.tls.transport);
    let all = [
        asked.unwrap_or_default(),
        observed.transport(),
        observed.runs(),
    ];
    Planes {
        client: all.iter().any(|it| !it.client.is_plain()),
        peer: all.iter().any(|it| !it.peer.is_plain()),
    }
}

/// Reads and checks what the source has now.
pub(crate) async fn take(
    subjects: &Subjects<'_>,
    planes: Planes,
    now: Timestamp,
    ctx: &Context,
) -> Result<(Given, Checked), Trouble> {
    let given = match &subjects.tls.source {
        Source::Operator | Source::Nowhere => {
            let why = "no Secret with certificates is named".to_owned();
            return Err(Trouble::Unusable(why));
        }
        Source::Secrets {
            certificate,
            authority,
        } => {
            let namespace = subjects.namespace;
            let first = get(namespace, certificate, ctx).await?;
            let second = match authority {
                Some(authority) => Some((authority, get(namespace, authority, ctx).await?)),
                None => None,
            };
            let second = second.as_ref().map(|(name, it)| (name.as_str(), it));
            Given::read((certificate, &first), second)
        }
    };
    let given = given.map_err(Trouble::Unusable)?;
    let checked = given
        .check(subjects, planes, now)
        .map_err(Trouble::Unusable)?;
    Ok((given, checked))
}

async fn get(namespace: &str, name: &str, ctx: &Context) -> Result<Secret, Trouble> {
    // A name is part of a path.
    if !name.split('.').all(is_label) || name.len() > 253 {
        let why = format!("{name:?} is not the name of a Secret");
        return Err(Trouble::Unusable(why));
    }
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    match secrets.get_opt(name).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(Trouble::Unusable(format!(
            "Secret {name} does not exist in the namespace {namespace}"
        ))),
        Err(kube::Error::Api(status)) if matches!(status.code, 400..=428) => {
            let why = format!("Secret {name} cannot be read: {}", status.message);
            Err(Trouble::Unusable(why))
        }
        Err(error) => Err(Trouble::Unasked(format!(
            "Secret {name} cannot be read: {error}"
        ))),
    }
}

fn is_label(part: &str) -> bool {
    let inner = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
}
