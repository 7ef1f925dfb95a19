//! Reads what another source has for the members. Its Secrets are not ours, so they are asked for one by one, at a calm pace,
//! and no key of them is kept: what is copied is read again then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::intent::Source;
use api::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use manifests::Owner;
use plan::Observed;
use plan::observed::{Offered, Request};

use super::given::{Checked, Given, Planes};
use super::request::{self, Seen};
use super::subjects::Subjects;
use crate::context::Context;

/// How often a source is read at most whose certificates can be used, and that has not changed for long.
const CALM: Duration = Duration::from_mins(1);
/// How often one whose certificates cannot be used: a little less than two looks at a settled cluster are apart.
const AWAITED: Duration = Duration::from_secs(9);
/// What changed a moment ago is likely to change again: it is a user who corrects a mistake, or something that renews. So a
/// source rests for this part of the time in which it was seen to stay as it is.
const PART: u32 = 10;

/// What the sources were last seen to have, by the UID of their cluster. Losing it costs a read of each.
#[derive(Default)]
pub struct Sources(Mutex<All>);

#[derive(Default)]
struct All {
    known: BTreeMap<String, Known>,
    /// Clusters with another source than cert-manager for which there is no Certificate, as was seen once.
    unasked: BTreeSet<String>,
}

struct Known {
    /// What was asked of which source.
    asked: String,
    at: Instant,
    /// Since when it has been seen to have this.
    since: Instant,
    offered: Offered,
    request: Request,
}

impl Known {
    fn told(&self) -> (Offered, Request) {
        (self.offered.clone(), self.request.clone())
    }

    /// How long it rests before it is read again.
    fn pace(&self) -> Duration {
        match self.offered {
            Offered::Usable(_) if self.request == Request::default() => {
                let unchanged = self.at.saturating_duration_since(self.since);
                (unchanged / PART).clamp(AWAITED, CALM)
            }
            Offered::Usable(_) | Offered::Own | Offered::Unusable(_) => AWAITED,
        }
    }
}

impl Sources {
    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        let mut all = self.lock();
        all.unasked.retain(|uid| keep(uid));
        all.known.retain(|uid, _| keep(uid));
    }

    /// What is known, unless it is time to read it.
    fn fresh(&self, uid: &str, asked: &str, now: Instant) -> Option<(Offered, Request)> {
        let all = self.lock();
        let known = all.known.get(uid).filter(|known| known.asked == asked)?;
        let due = now.saturating_duration_since(known.at) >= known.pace();
        (!due).then(|| known.told())
    }

    fn last(&self, uid: &str, asked: &str) -> Option<(Offered, Request)> {
        let all = self.lock();
        let known = all.known.get(uid).filter(|known| known.asked == asked)?;
        Some(known.told())
    }

    fn note(&self, uid: &str, asked: String, (offered, request): (Offered, Request), now: Instant) {
        let mut all = self.lock();
        let same = all
            .known
            .get(uid)
            .filter(|known| known.asked == asked && known.offered == offered);
        let known = Known {
            since: same.map_or(now, |known| known.since),
            at: now,
            asked,
            offered,
            request,
        };
        all.known.insert(uid.to_owned(), known);
    }

    /// It is read again at the next look.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().known.remove(uid);
    }

    fn is_unasked(&self, uid: &str) -> bool {
        self.lock().unasked.contains(uid)
    }

    fn note_unasked(&self, uid: &str, is_so: bool) {
        let mut all = self.lock();
        if is_so {
            all.unasked.insert(uid.to_owned());
        } else {
            all.unasked.remove(uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
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

/// What the source of a cluster has, and what becomes of what cert-manager was asked for.
pub(crate) async fn look(
    observed: &Observed,
    owner: &Owner,
    subjects: &Subjects<'_>,
    ctx: &Context,
) -> (Offered, Request) {
    let uid = &observed.cluster.uid;
    let is_asked = matches!(subjects.tls.source, Source::CertManager { .. });
    let due = if is_asked {
        ctx.sources.note_unasked(uid, false);
        false
    } else {
        is_left_over(uid, owner, ctx).await
    };
    let (offered, request) = offered(observed, owner, subjects, ctx).await;
    let due = due || request.due;
    (offered, Request { due, ..request })
}

/// Whether cert-manager still has a request of this cluster's, which names another source now. Asked until it is known, and
/// then not again.
async fn is_left_over(uid: &str, owner: &Owner, ctx: &Context) -> bool {
    if ctx.sources.is_unasked(uid) {
        return false;
    }
    let left = request::is_left_over(owner, ctx).await;
    ctx.sources.note_unasked(uid, left == Some(false));
    left == Some(true)
}

/// What the source has; where it is not the operator itself, read if it is time.
async fn offered(
    observed: &Observed,
    owner: &Owner,
    subjects: &Subjects<'_>,
    ctx: &Context,
) -> (Offered, Request) {
    let uid = &observed.cluster.uid;
    if matches!(subjects.tls.source, Source::Operator | Source::Nowhere) {
        ctx.sources.forget(uid);
        return (Offered::Own, Request::default());
    }
    let planes = planes(observed);
    let source = &subjects.tls.source;
    let asked = format!("{source:?} {planes:?} {}", subjects.asked_of_members());
    if let Some(known) = ctx.sources.fresh(uid, &asked, Instant::now()) {
        return known;
    }
    let (offered, request) = match read(observed, owner, (subjects, planes), ctx).await {
        Ok(read) => read,
        Err(why) => {
            let last = ctx.sources.last(uid, &asked);
            last.unwrap_or((Offered::Unusable(why), Request::default()))
        }
    };
    let told = (offered.clone(), request.clone());
    ctx.sources
        .note(uid, asked, (offered, request), Instant::now());
    told
}

/// What the source has, and what becomes of what it was asked for; an error where it could not be asked.
async fn read(
    observed: &Observed,
    owner: &Owner,
    (subjects, planes): (&Subjects<'_>, Planes),
    ctx: &Context,
) -> Result<(Offered, Request), String> {
    let seen = match &subjects.tls.source {
        Source::CertManager { issuer, .. } => {
            let wanted = subjects.request(issuer);
            request::look(owner, &wanted, observed.now, ctx).await?
        }
        Source::Operator | Source::Secrets { .. } | Source::Nowhere => Seen::default(),
    };
    let Seen { request, foreign } = seen;
    if foreign {
        let why = request.trouble.unwrap_or_default();
        return Ok((Offered::Unusable(why), Request::default()));
    }
    match take(subjects, planes, observed.now, ctx).await {
        Ok((_, checked)) => Ok((Offered::Usable(checked.copied), request)),
        Err(Trouble::Unusable(why)) => {
            let more = request.trouble.map(|trouble| format!("; {trouble}"));
            let why = format!("{why}{}", more.unwrap_or_default());
            let trouble = None;
            Ok((Offered::Unusable(why), Request { trouble, ..request }))
        }
        Err(Trouble::Unasked(why)) => Err(why),
    }
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
        } => get_both(subjects.namespace, certificate, authority.as_deref(), ctx).await?,
        Source::CertManager { authority, .. } => {
            let certificate = names::issued(subjects.name);
            get_both(subjects.namespace, &certificate, authority.as_deref(), ctx).await?
        }
    };
    let given = given.map_err(Trouble::Unusable)?;
    let checked = given
        .check(subjects, planes, now)
        .map_err(Trouble::Unusable)?;
    Ok((given, checked))
}

async fn get_both(
    namespace: &str,
    certificate: &str,
    authority: Option<&str>,
    ctx: &Context,
) -> Result<Result<Given, String>, Trouble> {
    let first = get(namespace, certificate, ctx).await?;
    let second = match authority {
        Some(authority) => Some((authority, get(namespace, authority, ctx).await?)),
        None => None,
    };
    let second = second.as_ref().map(|(name, it)| (*name, it));
    Ok(Given::read((certificate, &first), second))
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

#[cfg(test)]
mod tests {
    use api::certificates::Copied;

    use super::*;

    fn usable(leaves: &str) -> Offered {
        Offered::Usable(Copied {
            leaves: leaves.to_owned(),
            trust: String::new(),
        })
    }

    /// Reads a source every second that is due, from `begin` on, and counts.
    fn reads(sources: &Sources, offered: &Offered, begin: Instant, seconds: u64) -> usize {
        let times = (0..seconds).map(|second| begin + Duration::from_secs(second));
        times
            .filter(|now| {
                let due = sources.fresh("uid", "asked", *now).is_none();
                if due {
                    sources.note(
                        "uid",
                        "asked".to_owned(),
                        (offered.clone(), Request::default()),
                        *now,
                    );
                }
                due
            })
            .count()
    }

    #[test]
    fn a_source_that_stays_as_it_is_is_read_less_and_less_often_down_to_once_a_minute() {
        let (sources, begin) = (Sources::default(), Instant::now());
        let first = reads(&sources, &usable("a"), begin, 90);
        assert_eq!(first, 10, "every nine seconds at first");
        let hour = Duration::from_hours(1);
        reads(
            &sources,
            &usable("a"),
            begin + Duration::from_secs(90),
            3510,
        );
        let calm = reads(&sources, &usable("a"), begin + hour, 600);
        assert_eq!(calm, 10, "once a minute");
    }

    #[test]
    fn a_source_that_changed_or_cannot_be_used_is_read_at_almost_every_look() {
        let (sources, begin) = (Sources::default(), Instant::now());
        let hour = Duration::from_hours(1);
        reads(&sources, &usable("a"), begin, 3600);
        let noticed = begin + hour + CALM;
        sources.note(
            "uid",
            "asked".to_owned(),
            (usable("b"), Request::default()),
            noticed,
        );
        assert!(sources.fresh("uid", "asked", noticed).is_some());
        assert!(sources.fresh("uid", "asked", noticed + AWAITED).is_none());
        let gone = Offered::Unusable("Secret mine does not exist".to_owned());
        sources.note(
            "uid",
            "asked".to_owned(),
            (gone.clone(), Request::default()),
            noticed,
        );
        assert_eq!(reads(&sources, &gone, noticed, 3600), 399);
    }
}
