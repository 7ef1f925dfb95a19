//! The parts of the way from one certificate authority to another. Each writes one Secret, exactly as it was seen.

use api::certificates::{Record, Rotation, Trust, asks_to_revoke};
use api::{EtcdCluster, names};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::Observed;
use plan::decision::Rotate;
use plan::observed::Offered;
use plan::status::Outcome;

use super::certificates::{failed, of_authority, take};
use super::secrets::{OPAQUE, find_authority, read_members, read_seen, write};
use crate::certificates::given::Given;
use crate::certificates::keyring::{Authorities, Keyring};
use crate::certificates::secrets::text;
use crate::certificates::subjects::Subjects;
use crate::certificates::trust::Files;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn rotate(
    cluster: &EtcdCluster,
    observed: &Observed,
    what: Rotate,
    ctx: &Context,
) -> Outcome {
    let (namespace, name) = place(cluster);
    let Some(target) = &observed.cluster.target else {
        return Outcome::Done;
    };
    let subjects = Subjects {
        name: &name,
        namespace: &namespace,
        domain: &ctx.domain,
        tls: &target.intent.tls,
    };
    let done = match what {
        Rotate::Begin => begin(cluster, observed, &subjects, ctx).await,
        Rotate::Widen => widen(cluster, observed, &subjects, ctx).await,
        Rotate::Forget => forget(cluster, observed, &subjects, ctx).await,
        Rotate::Narrow { revoke } => narrow(cluster, observed, (&subjects, revoke), ctx).await,
    };
    done.err().unwrap_or(Outcome::Done)
}

/// A new authority beside the one before. One that can be read, and only lost what was recorded on it, is taken back instead.
async fn begin(
    cluster: &EtcdCluster,
    observed: &Observed,
    subjects: &Subjects<'_>,
    ctx: &Context,
) -> Result<(), Outcome> {
    let secret = names::authority_secret(subjects.name);
    let found = find_authority(cluster, &secret, ctx).await?;
    let now = observed.now;
    let issued = &observed.certificates;
    let new = || {
        let lifetime = subjects.authority_lifetime();
        Authorities::new(subjects.name, now, lifetime).map_err(failed)
    };
    let keyring = match (found, issued.authority.record()) {
        (Some(found), None) => found,
        (Some(found), Some(seen)) if found.newest.identity() == seen.authorities => {
            found.followed_by(new()?).map_err(failed)?
        }
        (None, None) => Keyring::of(new()?),
        (_, Some(_)) => return Err(changed()),
    };
    let shown = issued.members.record().map(|it| it.authorities.clone());
    let record = issued.authority.record();
    let before = record.and_then(|it| it.rotation.as_ref());
    let before = before.and_then(|it| it.asked.as_ref());
    let asked = subjects.tls.rotate.clone();
    // Where the authority was lost, so was what it had been asked: an annotation that still stands there revokes nothing.
    let is_new = record.is_some() && asked.as_ref() != before;
    let revokes = is_new && asked.as_deref().is_some_and(asks_to_revoke);
    let taken_back = shown.as_ref() == Some(&keyring.newest.identity());
    let rotation = Rotation {
        pending: !taken_back || keyring.previous.is_some(),
        previous: keyring.previous.as_ref().map(Authorities::identity),
        previous_until: keyring.previous.as_ref().map(|it| Time(it.until())),
        revoked: shown.filter(|_| revokes && !taken_back),
        asked,
    };
    let record = Record {
        rotation: Some(rotation),
        ..of_authority(&keyring.newest, now)
    };
    put_authority(cluster, &keyring, &record, ctx).await
}

fn changed() -> Outcome {
    Outcome::NotNow("the certificate authority changed in between".to_owned())
}

/// Members that start trust what they are to trust, beside what they trust already.
async fn widen(
    cluster: &EtcdCluster,
    observed: &Observed,
    subjects: &Subjects<'_>,
    ctx: &Context,
) -> Result<(), Outcome> {
    let Some((seen, trust)) = of_members(observed, observed.trust_widened()) else {
        return Ok(());
    };
    let (keyring, source) = both(observed, subjects, ctx).await?;
    let live = read_members(subjects, seen, ctx).await?;
    let files = Files::read(&live).unwrap_or_default();
    let files = files.with(&trust.authorities, &keyring, source.as_ref());
    rewrite(cluster, &live, &files, (seen, trust), ctx).await
}

/// The key of the authority before is needed no more.
async fn forget(
    cluster: &EtcdCluster,
    observed: &Observed,
    subjects: &Subjects<'_>,
    ctx: &Context,
) -> Result<(), Outcome> {
    let Some(seen) = observed.certificates.authority.record() else {
        return Ok(());
    };
    let name = names::authority_secret(subjects.name);
    let keyring = read_seen(subjects.namespace, &name, observed, ctx).await?;
    let keyring = Keyring {
        previous: None,
        ..keyring
    };
    let rotation = Rotation {
        pending: false,
        previous: None,
        previous_until: None,
        ..seen.rotation.clone().unwrap_or_default()
    };
    keep_authority(cluster, seen, (&keyring, rotation), ctx).await
}

/// Members that start trust nothing but what they are to trust.
async fn narrow(
    cluster: &EtcdCluster,
    observed: &Observed,
    (subjects, revoke): (&Subjects<'_>, bool),
    ctx: &Context,
) -> Result<(), Outcome> {
    let Some((seen, trust)) = of_members(observed, observed.trust_narrowed(revoke)) else {
        return Ok(());
    };
    let (keyring, source) = both(observed, subjects, ctx).await?;
    // Clients that know only the one before are led on, unless it is to count no longer.
    let crossed = revoke && keyring.cross.is_some();
    let keyring = Keyring {
        cross: keyring.cross.filter(|_| !revoke),
        ..keyring
    };
    if let Some(ours) = observed.certificates.authority.record().filter(|_| crossed) {
        let rotation = ours.rotation.clone().unwrap_or_default();
        keep_authority(cluster, ours, (&keyring, rotation), ctx).await?;
    }
    let live = read_members(subjects, seen, ctx).await?;
    let files = Files::default().with(&trust.authorities, &keyring, source.as_ref());
    rewrite(cluster, &live, &files, (seen, trust), ctx).await
}

fn of_members(observed: &Observed, trust: Option<Trust>) -> Option<(&Record, Trust)> {
    observed.certificates.members.record().zip(trust)
}

/// The authorities, and what another source has.
async fn both(
    observed: &Observed,
    subjects: &Subjects<'_>,
    ctx: &Context,
) -> Result<(Keyring, Option<Given>), Outcome> {
    let name = names::authority_secret(subjects.name);
    let keyring = read_seen(subjects.namespace, &name, observed, ctx).await?;
    let source = match &observed.certificates.offered {
        Offered::Own | Offered::Unusable(_) => None,
        Offered::Usable(_) => Some(take(subjects, observed, ctx).await?.0),
    };
    Ok((keyring, source))
}

/// The Secret of the authorities with another content, and the same dates.
async fn keep_authority(
    cluster: &EtcdCluster,
    seen: &Record,
    (keyring, rotation): (&Keyring, Rotation),
    ctx: &Context,
) -> Result<(), Outcome> {
    let record = Record {
        rotation: Some(rotation),
        ..seen.clone()
    };
    put_authority(cluster, keyring, &record, ctx).await
}

/// The Secret of the authorities, exactly as it was read.
async fn put_authority(
    cluster: &EtcdCluster,
    keyring: &Keyring,
    record: &Record,
    ctx: &Context,
) -> Result<(), Outcome> {
    let (_, name) = place(cluster);
    let secret = names::authority_secret(&name);
    let place = (secret.as_str(), OPAQUE, keyring.version.as_ref());
    write(cluster, place, &keyring.entries(), record, ctx).await
}

/// The Secret of the members with other authorities, and the same certificates.
async fn rewrite(
    cluster: &EtcdCluster,
    live: &Secret,
    files: &Files,
    (seen, trust): (&Record, Trust),
    ctx: &Context,
) -> Result<(), Outcome> {
    let (_, name) = place(cluster);
    let mut entries = files.entries(trust.generation);
    let keys = live.data.iter().flat_map(|data| data.keys());
    for key in keys.filter(|key| !Files::is_one(key)) {
        entries.extend(text(live, key).map(|content| (key.clone(), content)));
    }
    let record = Record {
        trust: Some(trust),
        ..seen.clone()
    };
    let secret = names::member_secret(&name);
    let version = live.metadata.resource_version.as_ref();
    write(cluster, (&secret, OPAQUE, version), &entries, &record, ctx).await
}
