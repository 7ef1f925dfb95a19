//! Issues certificates and writes them to their Secrets. Each Secret is created, or replaced exactly as it was seen a moment
//! ago; one of another owner is never touched. A certificate is checked as one of a stranger would be before it is written.

use api::certificates::{Copied, Record};
use api::intent::Source;
use api::{EtcdCluster, names};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use manifests::tls::{CLIENT_AUTHORITIES, PEER, PEER_AUTHORITIES, SERVER, entry};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use plan::Observed;
use plan::decision::Issue;
use plan::observed::Offered;
use plan::status::Outcome;

use super::{changed_since, outcome_of};
use crate::certificates::sources::{self, Trouble};
use crate::certificates::subjects::Subjects;
use crate::certificates::{Authorities, secrets};
use crate::cluster::observe::owner;
use crate::cluster::place;
use crate::context::Context;

const OPAQUE: &str = "Opaque";
const PAIR: &str = "kubernetes.io/tls";

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
    let authorities = if wanted.authority {
        let found = find_authority(cluster, &names::authority_secret(&name), ctx).await?;
        let made = match found {
            Some(found) => found,
            None => Authorities::new(&name, now).map_err(failed)?,
        };
        let record = record(&made, made.client.validity(), String::new(), now);
        let secret = names::authority_secret(&name);
        write(cluster, (&secret, OPAQUE), &made.entries(), &record, ctx).await?;
        made
    } else {
        read(&namespace, &names::authority_secret(&name), ctx).await?
    };
    if wanted.members {
        let (entries, record) = match subjects.tls.source {
            Source::Operator | Source::Nowhere => {
                let leaf = subjects.server(0, now);
                let asked = subjects.asked_of_members();
                let record = record(&authorities, shortest(&authorities, &leaf), asked, now);
                (members(&subjects, &authorities, now)?, record)
            }
            Source::Secrets { .. } => copy(&subjects, &authorities, observed, ctx).await?,
        };
        let secret = names::member_secret(&name);
        write(cluster, (&secret, OPAQUE), &entries, &record, ctx).await?;
    }
    if wanted.clients {
        let leaf = subjects.client(now);
        let (trust, copied) = verifies_members(&subjects, &authorities, observed, ctx).await?;
        let asked = subjects.asked_of_clients(copied.as_ref());
        let record = Record {
            copied,
            ..record(&authorities, shortest(&authorities, &leaf), asked, now)
        };
        let entries = of_client(&authorities, (trust, &leaf), now)?;
        let secret = names::client_secret(&name);
        write(cluster, (&secret, PAIR), &entries, &record, ctx).await?;
    }
    Ok(())
}

/// What another source has, as the Secret of the members holds it. It is read and checked again, and copied only if members
/// trust it as they trust what was seen.
async fn copy(
    subjects: &Subjects<'_>,
    authorities: &Authorities,
    observed: &Observed,
    ctx: &Context,
) -> Result<(Vec<(String, String)>, Record), Outcome> {
    let now = observed.now;
    let taken = sources::take(subjects, sources::planes(observed), now, ctx).await;
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
    let own = authorities.client.certificate();
    Ok((given.entries(subjects.name, own), record))
}

/// What clients verify the members by. Where another source issued the certificates of these, it is what members verify
/// clients by, as it is in their Secret now.
async fn verifies_members(
    subjects: &Subjects<'_>,
    authorities: &Authorities,
    observed: &Observed,
    ctx: &Context,
) -> Result<(String, Option<Copied>), Outcome> {
    let own = Ok((authorities.client.certificate().to_owned(), None));
    let known = observed.certificates.members.record();
    let copied = known.is_some_and(|record| record.copied.is_some());
    if !copied && observed.certificates.offered == Offered::Own {
        return own;
    }
    let name = names::member_secret(subjects.name);
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), subjects.namespace);
    let live = match secrets.get(&name).await {
        Ok(live) => live,
        Err(error) => return Err(outcome_of(&format!("Secret {name}"), Err::<(), _>(error))),
    };
    let written = live.annotations().get(api::labels::CERTIFICATES_ANNOTATION);
    let record = written.and_then(|written| Record::parse(written));
    let Some(copied) = record.and_then(|record| record.copied) else {
        return own;
    };
    match secrets::text(&live, CLIENT_AUTHORITIES) {
        Some(trust) => Ok((trust, Some(copied))),
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
    (object, user): (&str, &str),
    ctx: &Context,
) -> Outcome {
    match certify_user(cluster, observed, (object, user), ctx).await {
        Ok(()) => Outcome::Done,
        Err(outcome) => outcome,
    }
}

async fn certify_user(
    cluster: &EtcdCluster,
    observed: &Observed,
    (object, user): (&str, &str),
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
    let authorities = read(&namespace, &names::authority_secret(&name), ctx).await?;
    let leaf = subjects.user(user, now);
    let (trust, copied) = verifies_members(&subjects, &authorities, observed, ctx).await?;
    let asked = subjects.asked_of_user(user, copied.as_ref());
    let record = Record {
        copied,
        ..record(&authorities, shortest(&authorities, &leaf), asked, now)
    };
    let entries = of_client(&authorities, (trust, &leaf), now)?;
    let secret = names::user_secret(&name, object);
    let mut secret = secrets::build(&owner(cluster), (&secret, PAIR), &entries, &record);
    let uid = owned.uid.clone();
    secret.metadata.owner_references = Some(vec![owned]);
    put(&namespace, secret, &uid, ctx).await
}

/// What was seen may be old: nothing is issued once the object has changed. An authority of ours that can be read is never
/// replaced: it lost its label, or what was recorded on it, and gets that back.
async fn find_authority(
    cluster: &EtcdCluster,
    name: &str,
    ctx: &Context,
) -> Result<Option<Authorities>, Outcome> {
    if let Some(changed) = changed_since(cluster, ctx).await {
        return Err(changed);
    }
    let (namespace, _) = place(cluster);
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), &namespace);
    match secrets.get_opt(name).await {
        Ok(live) => Ok(live.as_ref().and_then(Authorities::read)),
        Err(error) => Err(outcome_of(&format!("Secret {name}"), Err::<(), _>(error))),
    }
}

/// The certificates of every member that there can be.
fn members(
    subjects: &Subjects<'_>,
    authorities: &Authorities,
    now: jiff::Timestamp,
) -> Result<Vec<(String, String)>, Outcome> {
    let mut all = vec![
        (
            CLIENT_AUTHORITIES.to_owned(),
            authorities.client.certificate().to_owned(),
        ),
        (
            PEER_AUTHORITIES.to_owned(),
            authorities.peer.certificate().to_owned(),
        ),
    ];
    for ordinal in Subjects::ordinals() {
        let member = names::member(subjects.name, ordinal);
        let server = signed(&authorities.client, &subjects.server(ordinal, now), now)?;
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
    let of_authority = authorities.client.validity().until;
    let of_authority = of_authority.min(authorities.peer.validity().until);
    Validity {
        until: leaf.validity.until.min(of_authority),
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
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as the argument of map_err"
)]
fn failed(error: pki::Error) -> Outcome {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    Outcome::Failed(format!("{error}: {}", source.unwrap_or_default()))
}

async fn read(namespace: &str, name: &str, ctx: &Context) -> Result<Authorities, Outcome> {
    let secrets: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let what = format!("Secret {name}");
    let secret = match secrets.get(name).await {
        Ok(secret) => secret,
        Err(error) => return Err(outcome_of(&what, Err::<(), _>(error))),
    };
    let authorities = Authorities::read(&secret);
    authorities.ok_or_else(|| Outcome::Failed(format!("{what} holds no authorities of ours")))
}

/// Writes exactly the Secret that is there, if it is ours.
async fn write(
    cluster: &EtcdCluster,
    (name, kind): (&str, &str),
    entries: &[(String, String)],
    record: &Record,
    ctx: &Context,
) -> Result<(), Outcome> {
    let (namespace, _) = place(cluster);
    let secret = secrets::build(&owner(cluster), (name, kind), entries, record);
    let uid = cluster.uid().unwrap_or_default();
    put(&namespace, secret, &uid, ctx).await
}

/// Creates a Secret, or replaces the one that has this owner.
async fn put(
    namespace: &str,
    mut secret: Secret,
    owner: &str,
    ctx: &Context,
) -> Result<(), Outcome> {
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let name = secret.name_any();
    let what = format!("Secret {name}");
    let params = PostParams {
        field_manager: Some(api::labels::OPERATOR.to_owned()),
        ..PostParams::default()
    };
    let written = match api.get_opt(&name).await {
        Err(error) => Err(error),
        Ok(None) => api.create(&params, &secret).await,
        Ok(Some(live)) => {
            let mut owners = live.owner_references().iter();
            if !owners.any(|of| of.uid == owner) {
                return Err(Outcome::Failed(format!(
                    "{what} has another owner and is left alone: delete or rename it"
                )));
            }
            secret.metadata.uid = live.uid();
            secret.metadata.resource_version = live.resource_version();
            api.replace(&name, &params, &secret).await
        }
    };
    match outcome_of(&what, written) {
        Outcome::Done => Ok(()),
        other => Err(other),
    }
}
