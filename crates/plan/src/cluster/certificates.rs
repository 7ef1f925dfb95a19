//! Certificates: issued before the pods that mount them, renewed before they expire, and never such that a member would not
//! be believed by the others. Nothing here restarts a member.

use api::intent::{Source, TlsIntent};
use api::v1alpha1::cluster::Retention;
use api::{Plane, Reason, Transport, names};

use crate::decision::{Decision, Issue, Issuer, SETTLED, SOON, Step};
use crate::observed::{Issued, Observed, Offered, Process, is_due};
use crate::why::Certificates;

/// What is missing, or cannot be used, is issued before anything else: no pod starts without it.
pub(super) fn needed(observed: &Observed) -> Option<Decision> {
    if !observed.has_tls() {
        return None;
    }
    // It changes no member: what comes of it is judged when it is there.
    if let Some(asked) = request(observed) {
        return Some(asked);
    }
    let formed = observed.cluster.latched.cluster_id.is_some();
    if !formed && let Some(refused) = cannot_begin(observed) {
        return Some(refused);
    }
    let issued = &observed.certificates;
    let free = observed.trusts_nothing();
    let authority = match &issued.authority {
        // What members trust is in their memory: `rotation` leads them to another authority.
        Issued::Missing | Issued::Altered if !free => return None,
        Issued::Missing | Issued::Altered => true,
        Issued::Recorded(ours) => free && ours.not_after.0 <= observed.now,
        Issued::Unknown | Issued::Foreign => false,
    };
    let by = if authority {
        Issuer::Newest
    } else {
        observed.issuer()?
    };
    let others = |issued: &Issued| match issued {
        Issued::Unknown | Issued::Foreign => false,
        Issued::Missing | Issued::Altered => true,
        Issued::Recorded(_) => free && (authority || is_of_another_authority(observed, issued)),
    };
    let other = issued.are_of_another_source();
    let due = others(&issued.members) || (other && issued.members.record().is_some());
    let members = due && issued.can_be_had() && (!other || free);
    // Clients are told what members show, so that comes first.
    let shown = issued.offered == Offered::Own || members || issued.members.record().is_some();
    let decision = issue(Issue {
        authority,
        members,
        clients: others(&issued.clients) && shown,
        by,
    });
    let decision = decision.filter(|_| issued.authority != Issued::Foreign);
    // Nothing begins without them. Members that run have theirs, and are repaired though a Secret cannot be written.
    decision.filter(|decision| !formed || !observed.rests(&decision.step))
}

/// cert-manager is asked once for what it is to issue, again where that changes, and no longer where another source is named.
/// Members that run, and what else there is to do, do not wait for a request that is rejected.
fn request(observed: &Observed) -> Option<Decision> {
    let name = names::issued(&observed.cluster.name);
    let target = observed.cluster.target.as_ref();
    let source = target.map(|target| &target.intent.tls.source);
    let why = match source {
        Some(Source::Operator | Source::Secrets { .. } | Source::Nowhere) => {
            Certificates::Withdrawing(name)
        }
        Some(Source::CertManager { .. }) | None => Certificates::Requesting(name),
    };
    let asked = Decision::act(Step::RequestCertificate, why);
    let due = observed.certificates.request.due && !observed.rests(&asked.step);
    due.then_some(asked)
}

/// Before there is a cluster, pods that were made for another transport are recreated first.
pub(super) fn recreated(observed: &Observed) -> Option<Decision> {
    if observed.cluster.latched.cluster_id.is_some() {
        return None;
    }
    let (ordinal, _) = observed.pods.iter().find(|(_, pod)| {
        let runs = matches!(pod.process, Process::Starting | Process::Serving(_));
        pod.transport != observed.transport() && !runs
    })?;
    let name = observed.member_name(*ordinal);
    let why = Certificates::OtherTransport(name, observed.transport());
    Some(Decision::wait(why, SOON))
}

fn issue(what: Issue) -> Option<Decision> {
    what.is_due()
        .then(|| Decision::act(Step::IssueCertificates(what), Certificates::Issuing(what)))
}

fn is_of_another_authority(observed: &Observed, issued: &Issued) -> bool {
    let ours = observed.certificates.authority.record();
    let theirs = issued.record().map(|record| &record.authorities);
    ours.is_some_and(|ours| theirs.is_some_and(|theirs| *theirs != ours.authorities))
}

/// What nothing can be begun with. A cluster that has formed goes on, and the condition tells.
fn cannot_begin(observed: &Observed) -> Option<Decision> {
    let asked = &observed.cluster.intent.as_ref().ok()?.tls;
    if asked.source == Source::Nowhere && !asked.transport.is_plain() {
        return Some(Decision::refuse(Certificates::Nowhere));
    }
    // What was copied once serves.
    let none = observed.certificates.members.record().is_none();
    if let Offered::Unusable(why) = &observed.certificates.offered
        && none
    {
        // It is expected: whatever order the parts of a cluster are written in, it begins once they are all there.
        let why = Certificates::Unusable(why.clone());
        return Some(Decision::wait(why, SETTLED));
    }
    let foreign = foreign(observed);
    (!foreign.is_empty()).then(|| Decision::refuse(Certificates::Foreign(foreign)))
}

fn foreign(observed: &Observed) -> Vec<String> {
    let (issued, name) = (&observed.certificates, &observed.cluster.name);
    let all = [
        (&issued.authority, names::authority_secret(name)),
        (&issued.members, names::member_secret(name)),
        (&issued.clients, names::client_secret(name)),
    ];
    let foreign = all
        .into_iter()
        .filter(|(issued, _)| **issued == Issued::Foreign);
    foreign.map(|(_, name)| name).collect()
}

/// What is due, or was asked for otherwise; and then each pod is told, so that its kubelet brings it at once.
pub(super) fn renew(observed: &Observed) -> Option<Decision> {
    if !observed.has_tls() {
        return None;
    }
    let decision = issue(due(observed).unwrap_or_default());
    let awake = |decision: &Decision| !observed.rests(&decision.step);
    let decision = decision.filter(awake);
    decision.or_else(|| refresh(observed).filter(awake))
}

/// What is due, by the authority that members trust.
fn due(observed: &Observed) -> Option<Issue> {
    let issued = &observed.certificates;
    let (by, issuing) = (observed.issuer()?, observed.issuing()?);
    let due = |issued: &Issued, asked: &String| {
        let record = issued.record();
        record.is_some_and(|record| is_due(record, observed.now) || record.asked != *asked)
    };
    let members = match &issued.offered {
        Offered::Own => due(&issued.members, &issued.asked_of_members),
        Offered::Unusable(_) => false,
        Offered::Usable(offered) => {
            let copied = issued.members.record().map(|it| it.copied.as_ref());
            copied.is_some_and(|copied| copied != Some(offered))
        }
    };
    let shown = issued.offered == Offered::Own || issued.members.record().is_some();
    // An authority that has expired issues nothing: `rotation` leads members to another.
    let over = observed.issues_no_more();
    let members = members && (!over || issued.offered != Offered::Own);
    let clients = issued.clients.record();
    let other = clients.is_some_and(|record| record.authorities != *issuing);
    Some(Issue {
        authority: false,
        members: members && !issued.are_of_another_source(),
        clients: (other || due(&issued.clients, &issued.asked_of_clients)) && shown && !over,
        by,
    })
}

fn refresh(observed: &Observed) -> Option<Decision> {
    let due = observed.pods.iter().filter_map(|(ordinal, pod)| {
        let refreshed = observed.refresh_due(*ordinal)?;
        let name = observed.member_name(*ordinal);
        let why = Certificates::Refreshing(name);
        let step = Step::RefreshCertificates {
            ordinal: *ordinal,
            uid: pod.uid.clone(),
            refreshed,
        };
        Some(Decision::act(step, why))
    });
    observed.first_awake(due)
}

/// What is wrong with the certificates, and what to do about it.
pub(crate) fn complaints(observed: &Observed) -> Vec<(Reason, String)> {
    let mut all = Vec::new();
    let formed = observed.cluster.latched.cluster_id.is_some();
    if let Some(asked) = observed.cluster.intent.as_ref().ok().filter(|_| formed) {
        all.extend(not_switched_off(&asked.tls, observed.runs()));
    }
    if !observed.has_tls() {
        return all;
    }
    let foreign = foreign(observed);
    if !foreign.is_empty() && formed {
        let why = format!(
            "Secret {} has another owner: its certificates cannot be issued or renewed until it is deleted or renamed",
            foreign.join(", ")
        );
        all.push((Reason::ForeignObject, why));
    }
    if let Some(lost) = lost(observed) {
        all.push((Reason::CertificateProblem, lost));
    }
    all.extend(other_source(observed));
    all.extend(overdue(observed));
    all
}

/// No certificate that members trust can be issued, nor can they be led to another authority: what they trust is recorded
/// nowhere.
fn lost(observed: &Observed) -> Option<String> {
    let issued = &observed.certificates;
    let absent = |it: &Issued| matches!(it, Issued::Missing | Issued::Altered);
    if !absent(&issued.members) || observed.trusts_nothing() {
        return None;
    }
    let ours = issued.authority.record();
    let authority = absent(&issued.authority) || (ours.is_some() && observed.issuer().is_none());
    let name = &observed.cluster.name;
    let (authority_secret, members) = (names::authority_secret(name), names::member_secret(name));
    let (what, remedy) = if authority {
        (
            format!("the Secrets {authority_secret} and {members} were"),
            "restore both Secrets from a backup",
        )
    } else if issued.are_of_another_source() {
        (
            format!("the Secret {members} was"),
            "name the source of certificates in security.tls that it had before, until the Secret is back",
        )
    } else {
        return None;
    };
    Some(format!(
        "{what} deleted or altered, and nothing else tells what the members trust: they go on with the certificates they have, which cannot be renewed, and a pod that is recreated cannot start. To correct this, {remedy}; or {}",
        start_over(observed)
    ))
}

/// What is wrong with the certificates of another source.
fn other_source(observed: &Observed) -> Option<(Reason, String)> {
    let issued = &observed.certificates;
    let goes_on = match issued.members.record() {
        Some(record) => format!(
            "; the members keep the certificates that they have, which expire at {}",
            record.not_after.0
        ),
        None => String::new(),
    };
    let why = match &issued.offered {
        Offered::Own => return None,
        Offered::Unusable(why) => why,
        Offered::Usable(_) => issued.request.trouble.as_ref()?,
    };
    let why = format!("{why}{goes_on}");
    Some((Reason::CertificateProblem, why))
}

/// How to begin with another authority and the same data.
fn start_over(observed: &Observed) -> String {
    let intent = observed.cluster.intent.as_ref();
    let deletes = intent.is_ok_and(|it| it.storage.when_stopped == Retention::Delete);
    let first = if deletes {
        "first set spec.storage.claimPolicy.whenStopped to Retain, or the data is deleted; then "
    } else {
        ""
    };
    format!(
        "{first}set spec.size to 0, wait until the cluster is stopped, and set it back to what it was: it then starts with a new authority and the same data"
    )
}

/// Certificates that should have been renewed long ago, because of a pause for instance.
fn overdue(observed: &Observed) -> Option<(Reason, String)> {
    let issued = [
        (
            &observed.certificates.members,
            names::member_secret(&observed.cluster.name),
        ),
        (
            &observed.certificates.clients,
            names::client_secret(&observed.cluster.name),
        ),
    ];
    issued.into_iter().find_map(|(issued, secret)| {
        let record = issued.record()?;
        let (renewal, end) = (record.renew_at.0, record.not_after.0);
        let late = renewal.checked_add(end.duration_since(renewal) / 2).ok()?;
        (observed.now >= late).then(|| {
            let next = if record.copied.is_some() && secret == names::member_secret(&observed.cluster.name) {
                ": renew them where they were copied from"
            } else {
                ""
            };
            let why = format!(
                "the certificates in the Secret {secret} should have been renewed at {renewal} and expire at {end}{next}"
            );
            (Reason::CertificateProblem, why)
        })
    })
}

/// A plane that has TLS, is to have none, and is not switched.
fn not_switched_off(asked: &TlsIntent, runs: Transport) -> Option<(Reason, String)> {
    let goal = asked.goal(runs);
    let stays = |asked: Plane, goal: Plane| asked.is_plain() && !goal.is_plain();
    // Of clients that are known by their certificates another sentence is said.
    let clients = stays(asked.transport.client, goal.client) && !asked.locked;
    let peers = stays(asked.transport.peer, goal.peer);
    let whose = match (clients, peers) {
        (true, true) => "for clients and between themselves",
        (true, false) => "for clients",
        (false, true) => "between themselves",
        (false, false) => return None,
    };
    let why = format!(
        "security.tls asks for plaintext, but the members run TLS {whose}: to switch it off, for one member after another, write security.tls.liveSwitch: true beside enabled: false; or write the former settings again"
    );
    Some((Reason::ChangeRefused, why))
}

/// Where what runs is not what is asked for, and that is no fault: an earlier operator stored TLS in the objects of clusters
/// that it ran in plaintext, and retained data goes on as it was stopped.
pub(super) fn remark(observed: &Observed) -> &'static str {
    let Some(asked) = observed.cluster.intent.as_ref().ok().map(|it| &it.tls) else {
        return "";
    };
    let goal = asked.goal(observed.runs());
    let stays = |asked: Plane, goal: Plane| !asked.is_plain() && goal.is_plain();
    let clients = stays(asked.transport.client, goal.client);
    let stays = clients || stays(asked.transport.peer, goal.peer);
    if stays && asked.source == Source::Nowhere {
        ", but without the TLS that security.tls asks for: the data was run without it before, and no source of certificates is named; leave out caSecret, and autoTLS out or true, or write certManager or certificateSecret, and write security.tls.liveSwitch: true, to switch it on"
    } else if stays {
        ", but without the TLS that security.tls asks for: the data was run without it before; write security.tls.liveSwitch: true to switch it on, for one member after another, or security.tls.enabled: false to stay with plaintext"
    } else if observed.lacks_certificates() {
        ", but without the TLS that security.tls asks for: it is switched on once its certificates are issued"
    } else {
        ""
    }
}
