//! Issues certificates and writes them to their Secrets. Each Secret is created, or replaced exactly as it was seen a moment
//! ago; one of another owner is never touched. A certificate is checked as one of a stranger would be before it is written.

use api::certificates::{Record, Rotation};
use api::intent::Source;
use api::{EtcdCluster, names};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Resource, ResourceExt};
use manifests::tls::{PEER, SERVER, entry};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use plan::Observed;
use plan::decision::{Issue, Issuer};
use plan::observed::Offered;
use plan::status::Outcome;

use super::outcome_of;
use super::secrets::{OPAQUE, PAIR, find_authority, put, read_members, read_seen, write};
use crate::certificates::given::{Checked, Given};
use crate::certificates::keyring::{Authorities, Keyring};
use crate::certificates::secrets;
use crate::certificates::sources::{self, Trouble};
use crate::certificates::subjects::Subjects;
use crate::certificates::trust::Files;
use crate::cluster::observe::owner;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn issue(
    cluster: &EtcdCluster,
    observed: &Observed,
    wanted: Issue,
    ctx: &Context,
) -> Outcome {
    match issue_all(cluster, observed, wanted, ctx).await {
        Ok(()) => Outcome::Done,
        Err(outcome) => outcome,
    }
}

async fn issue_all(
    cluster: &EtcdCluster,
    observed: &Observed,
    wanted: Issue,
    ctx: &Context,
) -> Result<(), Outcome> {
    let (namespace, name) = place(cluster);
    let Some(target) = &observed.cluster.target else {
        return Ok(());
    };
    let subjects = Subjects {
        name: &name,
        namespace: &namespace,
        domain: &ctx.domain,
        tls: &target.intent.tls,
    };
    let now = observed.now;
    let keyring = if wanted.authority {
        first_authority(cluster, &subjects, now, ctx).await?
    } else {
        read_seen(&namespace, &names::authority_secret(&name), observed, ctx).await?
    };
    let authorities = keyring.issuer(wanted.by).ok_or_else(key_is_gone)?;
    if wanted.members {
        let (entries, record) = of_members(&subjects, observed, (&keyring, wanted.by), ctx).await?;
        let secret = names::member_secret(&name);
        let seen = observed.certificates.members.record();
        if let Some(seen) = seen {
            // What another operator wrote meanwhile is not overwritten.
            let live = read_members(&subjects, seen, ctx).await?;
            let version = live.metadata.resource_version;
            let place = (secret.as_str(), OPAQUE, version.as_ref());
            write(cluster, place, &entries, &record, ctx).await?;
        } else {
            write(cluster, (&secret, OPAQUE, None), &entries, &record, ctx).await?;
        }
    }
    if wanted.clients {
        let leaf = subjects.client(now);
        let shown = verifies_members(&subjects, authorities, observed, ctx).await?;
        let asked = subjects.asked_of_clients(shown.record.as_ref());
        let record = shown.noted(record(
            authorities,
            shortest(authorities, &leaf),
            asked,
            now,
        ));
        let entries = of_client(authorities, (shown.trust, &leaf), now)?;
        let secret = names::client_secret(&name);
        write(cluster, (&secret, PAIR, None), &entries, &record, ctx).await?;
    }
    Ok(())
}

/// The certificates of the members, and the authorities that they trust.
async fn of_members(
    subjects: &Subjects<'_>,
    observed: &Observed,
    (keyring, by): (&Keyring, Issuer),
    ctx: &Context,
) -> Result<(Vec<(String, String)>, Record), Outcome> {
    let now = observed.now;
    let authorities = keyring.issuer(by).ok_or_else(key_is_gone)?;
    let trust = observed.trust_when_issued(by);
    let (leaves, source, record) = match subjects.tls.source {
        Source::Operator | Source::Nowhere => {
            let leaf = subjects.server(0, now);
            let asked = subjects.asked_of_members();
            let record = record(authorities, shortest(authorities, &leaf), asked, now);
            let cross = match by {
                Issuer::Newest => keyring.cross.as_deref(),
                Issuer::Previous => None,
            };
            (members(subjects, authorities, cross, now)?, None, record)
        }
        Source::Secrets { .. } | Source::CertManager { .. } => {
            copy(subjects, authorities, observed, ctx).await?
        }
    };
    let record = Record { trust, ..record };
    let kept = kept_files(subjects, observed, &record, ctx).await?;
    let files =
        kept.unwrap_or_else(|| Files::default().with(&record.trusted(), keyring, source.as_ref()));
    let mut entries = files.entries(record.generation());
    entries.extend(leaves);
    Ok((entries, record))
}

fn key_is_gone() -> Outcome {
    Outcome::NotNow("the key of the certificate authority before is gone".to_owned())
}

/// An authority for a cluster that has none.
async fn first_authority(
    cluster: &EtcdCluster,
    subjects: &Subjects<'_>,
    now: jiff::Timestamp,
    ctx: &Context,
) -> Result<Keyring, Outcome> {
    let secret = names::authority_secret(subjects.name);
    let found = find_authority(cluster, &secret, ctx).await?;
    let version = found.as_ref().and_then(|it| it.version.clone());
    let found = found.filter(|it| it.newest.client.validity().until > now);
    let keyring = if let Some(found) = found {
        // No member runs that would need the one before.
        Keyring {
            previous: None,
            ..found
        }
    } else {
        let lifetime = subjects.authority_lifetime();
        Keyring::of(Authorities::new(subjects.name, now, lifetime).map_err(failed)?)
    };
    let rotation = subjects.tls.rotate.clone().map(|asked| Rotation {
        asked: Some(asked),
        ..Rotation::default()
    });
    let record = Record {
        rotation,
        ..of_authority(&keyring.newest, now)
    };
    let version = version.as_ref();
    write(
        cluster,
        (&secret, OPAQUE, version),
        &keyring.entries(),
        &record,
        ctx,
    )
    .await?;
    Ok(keyring)
}

/// What is recorded of authorities.
pub(super) fn of_authority(authorities: &Authorities, now: jiff::Timestamp) -> Record {
    let validity = authorities.client.validity();
    record(authorities, validity, String::new(), now)
}

/// The files with authorities as they are, where no authority is added or dropped.
async fn kept_files(
    subjects: &Subjects<'_>,
    observed: &Observed,
    record: &Record,
    ctx: &Context,
) -> Result<Option<Files>, Outcome> {
    let seen = observed.certificates.members.record();
    let seen = seen.filter(|seen| record.trust.is_some() && seen.trusted() == record.trusted());
    let Some(seen) = seen else {
        return Ok(None);
    };
    let live = read_members(subjects, seen, ctx).await?;
    Ok(Files::read(&live))
}

/// What another source has, as the Secret of the members holds it. It is read and checked again, and copied only if members
/// trust it as they trust what was seen.
async fn copy(
    subjects: &Subjects<'_>,
    authorities: &Authorities,
    observed: &Observed,
    ctx: &Context,
) -> Result<(Vec<(String, String)>, Option<Given>, Record), Outcome> {
    let now = observed.now;
    let (given, checked) = take(subjects, observed, ctx).await?;
    let record = Record {
        // The source renews them; this is when it should have.
        renew_at: Time(checked.validity.renewal(checked.validity.from)),
        copied: Some(checked.copied),
        ..record(
            authorities,
            checked.validity,
            subjects.asked_of_members(),
            now,
        )
    };
    Ok((given.entries(subjects.name), Some(given), record))
}

/// What another source has, if its authorities are those that were judged.
pub(super) async fn take(
    subjects: &Subjects<'_>,
    observed: &Observed,
    ctx: &Context,
) -> Result<(Given, Checked), Outcome> {
    let taken = sources::take(subjects, sources::planes(observed), observed.now, ctx).await;
    let uid = &observed.cluster.uid;
    let (given, checked) = match taken {
        Ok(taken) => taken,
        Err(Trouble::Unusable(why) | Trouble::Unasked(why)) => {
            ctx.sources.forget(uid);
            return Err(Outcome::NotNow(why));
        }
    };
    let seen = match &observed.certificates.offered {
        Offered::Usable(seen) => Some(&seen.trust),
        Offered::Own | Offered::Unusable(_) => None,
    };
    if seen != Some(&checked.copied.trust) {
        ctx.sources.forget(uid);
        let why = "the authorities changed in between".to_owned();
        return Err(Outcome::NotNow(why));
    }
    Ok((given, checked))
}

/// What clients verify the members by.
struct Shown {
    trust: String,
    /// What is recorded on the Secret of the members, where that is more than our own authority.
    record: Option<Record>,
}

impl Shown {
    /// The same on a certificate that is issued for clients.
    fn noted(&self, record: Record) -> Record {
        let shown = self.record.as_ref();
        Record {
            copied: shown.and_then(|shown| shown.copied.clone()),
            trust: shown.and_then(|shown| shown.trust.clone()),
            ..record
        }
    }
}

/// Where another source issued the certificates of the members, or they trust more than one authority, it is what members
/// verify clients by, as it is in their Secret now.
async fn verifies_members(
    subjects: &Subjects<'_>,
    authorities: &Authorities,
    observed: &Observed,
    ctx: &Context,
) -> Result<Shown, Outcome> {
    let own = Shown {
        trust: authorities.client.certificate().to_owned(),
        record: None,
    };
    let more = |record: &Record| record.copied.is_some() || record.trust.is_some();
    let known = observed.certificates.members.record();
    if !known.is_some_and(more) && observed.certificates.offered == Offered::Own {
        return Ok(own);
    }
    let name = names::member_secret(subjects.name);
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), subjects.namespace);
    let live = match secrets.get(&name).await {
        Ok(live) => live,
        Err(error) => return Err(outcome_of(&format!("Secret {name}"), Err::<(), _>(error))),
    };
    let written = live.annotations().get(api::labels::CERTIFICATES_ANNOTATION);
    let record = written.and_then(|written| Record::parse(written));
    let Some(record) = record.filter(more) else {
        return Ok(own);
    };
    match Files::read(&live) {
        Some(files) => Ok(Shown {
            trust: files.client().to_owned(),
            record: Some(record),
        }),
        None => Err(Outcome::NotNow(format!("Secret {name} changes"))),
    }
}

/// What a client needs.
fn of_client(
    authorities: &Authorities,
    (trust, leaf): (String, &Leaf),
    now: jiff::Timestamp,
) -> Result<[(String, String); 3], Outcome> {
    let pair = signed(&authorities.client, leaf, now)?;
    Ok([
        ("ca.crt".to_owned(), trust),
        ("tls.crt".to_owned(), pair.chain),
        ("tls.key".to_owned(), pair.key.expose().to_owned()),
    ])
}

/// The certificate of a user, in a Secret that goes with its object.
pub(super) async fn certify(
    cluster: &EtcdCluster,
    observed: &Observed,
    (object, user, by): (&str, &str, Issuer),
    ctx: &Context,
) -> Outcome {
    match certify_user(cluster, observed, (object, user, by), ctx).await {
        Ok(()) => Outcome::Done,
        Err(outcome) => outcome,
    }
}

async fn certify_user(
    cluster: &EtcdCluster,
    observed: &Observed,
    (object, user, by): (&str, &str, Issuer),
    ctx: &Context,
) -> Result<(), Outcome> {
    let (namespace, name) = place(cluster);
    let Some(target) = &observed.cluster.target else {
        return Ok(());
    };
    let owner_of = crate::caches::get(&ctx.caches.users, &namespace, object);
    let owner_of = owner_of.and_then(|object| object.0.as_ref().ok().cloned());
    let Some(owned) = owner_of.and_then(|it| it.controller_owner_ref(&())) else {
        return Err(Outcome::NotNow("the EtcdUser is gone".to_owned()));
    };
    let subjects = Subjects {
        name: &name,
        namespace: &namespace,
        domain: &ctx.domain,
        tls: &target.intent.tls,
    };
    let now = observed.now;
    let secret = names::authority_secret(&name);
    let keyring = read_seen(&namespace, &secret, observed, ctx).await?;
    let authorities = keyring.issuer(by).ok_or_else(key_is_gone)?;
    let leaf = subjects.user(user, now);
    let shown = verifies_members(&subjects, authorities, observed, ctx).await?;
    let asked = subjects.asked_of_user(user, shown.record.as_ref());
    let record = shown.noted(record(
        authorities,
        shortest(authorities, &leaf),
        asked,
        now,
    ));
    let entries = of_client(authorities, (shown.trust, &leaf), now)?;
    let secret = names::user_secret(&name, object);
    let mut secret = secrets::build(&owner(cluster), (&secret, PAIR), &entries, &record);
    let uid = owned.uid.clone();
    secret.metadata.owner_references = Some(vec![owned]);
    put(&namespace, secret, &uid, ctx).await
}

/// The certificates of every member that there can be. Clients are shown `cross` as well.
fn members(
    subjects: &Subjects<'_>,
    authorities: &Authorities,
    cross: Option<&str>,
    now: jiff::Timestamp,
) -> Result<Vec<(String, String)>, Outcome> {
    let mut all = Vec::new();
    for ordinal in Subjects::ordinals() {
        let member = names::member(subjects.name, ordinal);
        let mut server = signed(&authorities.client, &subjects.server(ordinal, now), now)?;
        server.chain.push_str(cross.unwrap_or_default());
        let peer = signed(&authorities.peer, &subjects.peer(ordinal, now), now)?;
        for (plane, pair) in [(SERVER, server), (PEER, peer)] {
            all.push((entry(&member, plane, false), pair.chain));
            all.push((entry(&member, plane, true), pair.key.expose().to_owned()));
        }
    }
    Ok(all)
}

/// A pair that has passed the check for which it was made.
fn signed(authority: &Authority, leaf: &Leaf, now: jiff::Timestamp) -> Result<Pair, Outcome> {
    // Clocks may differ by more than a moment, so a certificate counts from the day on which its authority does.
    let leaf = &Leaf {
        validity: Validity {
            from: authority.validity().from,
            ..leaf.validity
        },
        ..leaf.clone()
    };
    let pair = authority.issue(leaf).map_err(failed)?;
    let usages: &[Usage] = &leaf.usages;
    let wanted = pki::Wanted {
        names: &leaf.names,
        usages,
        now,
    };
    match pki::check(&pair, authority.certificate(), &wanted) {
        Ok(_facts) => Ok(pair),
        Err(flaw) => Err(Outcome::Failed(format!(
            "a certificate for {} that was just issued cannot be used: {flaw}",
            leaf.common_name
        ))),
    }
}

/// A certificate is valid no longer than its authority.
fn shortest(authorities: &Authorities, leaf: &Leaf) -> Validity {
    Validity {
        until: leaf.validity.until.min(authorities.until()),
        ..leaf.validity
    }
}

fn record(
    authorities: &Authorities,
    validity: Validity,
    asked: String,
    now: jiff::Timestamp,
) -> Record {
    Record {
        authorities: authorities.identity(),
        asked,
        issued_at: Time(now),
        renew_at: Time(validity.renewal(now)),
        not_after: Time(validity.until),
        data: String::new(),
        copied: None,
        trust: None,
        rotation: None,
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as the argument of map_err"
)]
pub(super) fn failed(error: pki::Error) -> Outcome {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    Outcome::Failed(format!("{error}: {}", source.unwrap_or_default()))
}
