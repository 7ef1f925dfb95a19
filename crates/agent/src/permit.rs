//! Does this grant fit this wait? A pure function from the annotation and what was seen to a permit or
//! a refusal. The agent trusts the operator's judgement of the cluster, but never a grant that was
//! made for another wait, another object or another directory.

use gate::{Action, Grant, Identity, State};
use serde::Deserialize;

use crate::{judge::parse_id, wal::Head};

#[cfg(test)]
pub(crate) mod tests;

/// Revisions are signed 64-bit numbers, and there must be room for those to come.
const MOST_BUMP: u64 = 1 << 60;

/// What the annotation offers this wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Nothing, or something made for another wait.
    Nothing,
    /// Something that cannot be understood.
    Unreadable(String),
    /// A grant made for this wait.
    Grant(Grant),
}

/// What a grant that fits lets the gate do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Permitted {
    /// Start etcd.
    Start(Permit),
    /// Make another cluster of the data, then judge that again.
    Recover(Recovery),
}

impl Permitted {
    /// From now on the volume is that of this pod, and its etcd speaks so.
    pub(crate) fn in_pod(mut self, name: Option<&String>, transport: Option<&String>) -> Self {
        let identity = match &mut self {
            Self::Start(permit) => &mut permit.identity,
            Self::Recover(recovery) => &mut recovery.identity,
        };
        identity.pod = name.cloned();
        identity.transport = transport.cloned();
        self
    }
}

/// What to do before etcd starts, and how to start it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    /// Move the data aside first.
    pub(crate) discard: bool,
    /// To be left beside the data.
    pub(crate) identity: Identity,
    /// How etcd starts.
    pub(crate) start: Start,
}

/// How etcd starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// On the data that is there.
    OnData,
    /// From nothing, as the first member or as one that was just added.
    Fresh {
        /// As one that was just added.
        joins: bool,
        /// `--initial-cluster`.
        initial_cluster: String,
        /// `--initial-cluster-token`.
        token: String,
    },
}

/// How another cluster is made of the data that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// To be left beside the new data, once its IDs are known.
    pub(crate) identity: Identity,
    /// Who wrote the data that is there.
    pub(crate) old: Head,
    /// `--initial-cluster-token`.
    pub(crate) token: String,
    /// `--initial-cluster`.
    pub(crate) initial_cluster: String,
    /// How far the revision is raised.
    pub(crate) bump_revision: u64,
}

/// What a wait is: who waits, and what it waits with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait<'a> {
    /// UID of the `EtcdCluster` object.
    pub(crate) cluster_uid: &'a str,
    /// Incarnations before this one are held back.
    pub(crate) fence: Option<u64>,
    /// The incarnation of the data, if the identity file tells.
    pub(crate) incarnation: Option<u64>,
    /// Why it waits.
    pub(crate) state: State,
    /// Who wrote the data, if that can be read.
    pub(crate) head: Option<Head>,
}

/// Reads the annotation's value. Invariant: a grant with another nonce is nothing, whatever else it
/// says (`another_nonce_is_nothing_even_when_the_rest_is_nonsense`).
pub(crate) fn parse_offer(value: &str, nonce: &str) -> Offer {
    #[derive(Deserialize)]
    struct Addressee {
        nonce: String,
    }
    match serde_json::from_str::<Addressee>(value) {
        Ok(addressee) if addressee.nonce != nonce => Offer::Nothing,
        Ok(_) => match serde_json::from_str(value) {
            Ok(grant) => Offer::Grant(grant),
            Err(error) => Offer::Unreadable(error.to_string()),
        },
        Err(error) => Offer::Unreadable(error.to_string()),
    }
}

/// Judges a grant for this wait; the error is the reason for a refusal.
///
/// Invariant: without `discard` only an empty directory is taken, and data is resumed only under the
/// IDs it has (`every_state_takes_only_what_fits_it`). Data behind a fence never goes on under the IDs
/// it has, and no grant of an incarnation that the fence holds back is taken
/// (`no_grant_leads_behind_the_fence`).
pub(crate) fn permit(wait: Wait<'_>, grant: &Grant) -> Result<Permitted, String> {
    check_incarnation(wait, grant)?;
    let (discard, start, ids) = match &grant.action {
        Action::Bootstrap {
            token,
            initial_cluster,
            discard,
        } => {
            check_room(wait.state, *discard)?;
            if parse_names(initial_cluster)?.len() != 1 {
                return Err("a Bootstrap must name one member alone".into());
            }
            (
                *discard,
                build_fresh(grant, false, initial_cluster, token)?,
                None,
            )
        }
        Action::Join {
            token,
            initial_cluster,
            member_id,
            cluster_id,
            discard,
        } => {
            check_room(wait.state, *discard)?;
            parse_names(initial_cluster)?;
            check_ids(member_id, cluster_id)?;
            let start = build_fresh(grant, true, initial_cluster, token)?;
            (*discard, start, Some((member_id, cluster_id)))
        }
        Action::Resume {
            member_id,
            cluster_id,
        } => {
            check_data(wait, member_id, cluster_id)?;
            (false, Start::OnData, Some((member_id, cluster_id)))
        }
        Action::Recover {
            token,
            initial_cluster,
            member_id,
            cluster_id,
            bump_revision,
        } => {
            let old = check_fenced(wait, grant, (member_id, cluster_id))?;
            let recovery = build_recovery(grant, old, (token, initial_cluster), *bump_revision)?;
            return Ok(Permitted::Recover(recovery));
        }
    };
    Ok(Permitted::Start(Permit {
        discard,
        identity: build_identity(grant, ids),
        start,
    }))
}

/// Whether the grant is for this object and for an incarnation that the fence lets pass.
fn check_incarnation(wait: Wait<'_>, grant: &Grant) -> Result<(), String> {
    let cluster_uid = &grant.cluster_uid;
    if cluster_uid != wait.cluster_uid {
        return Err(format!(
            "it is for the EtcdCluster {cluster_uid}, this is {}",
            wait.cluster_uid
        ));
    }
    if let Some(fence) = wait.fence.filter(|fence| grant.incarnation < *fence) {
        let incarnation = grant.incarnation;
        return Err(format!(
            "it is for incarnation {incarnation}, behind the fence of incarnation {fence}"
        ));
    }
    Ok(())
}

fn build_recovery(
    grant: &Grant,
    old: Head,
    (token, initial_cluster): (&str, &str),
    bump_revision: u64,
) -> Result<Recovery, String> {
    check_token(grant, token)?;
    if parse_names(initial_cluster)?.len() != 1 {
        return Err("a Recover must name one member alone".into());
    }
    if bump_revision > MOST_BUMP {
        return Err(format!("its bumpRevision is more than {MOST_BUMP}"));
    }
    Ok(Recovery {
        identity: build_identity(grant, None),
        old,
        token: token.to_owned(),
        initial_cluster: initial_cluster.to_owned(),
        bump_revision,
    })
}

fn build_identity(grant: &Grant, ids: Option<(&String, &String)>) -> Identity {
    Identity {
        cluster_uid: grant.cluster_uid.clone(),
        incarnation: grant.incarnation,
        nonce: grant.nonce.clone(),
        pod: None,
        member_id: ids.map(|(member_id, _)| member_id.clone()),
        cluster_id: ids.map(|(_, cluster_id)| cluster_id.clone()),
        transport: None,
    }
}

fn check_ids(member_id: &str, cluster_id: &str) -> Result<(), String> {
    match [member_id, cluster_id]
        .into_iter()
        .find(|id| parse_id(id).is_none())
    {
        Some(id) => Err(format!("{id:?} is no ID")),
        None => Ok(()),
    }
}

fn build_fresh(
    grant: &Grant,
    joins: bool,
    initial_cluster: &str,
    token: &str,
) -> Result<Start, String> {
    check_token(grant, token)?;
    let (initial_cluster, token) = (initial_cluster.to_owned(), token.to_owned());
    Ok(Start::Fresh {
        joins,
        initial_cluster,
        token,
    })
}

fn check_token(grant: &Grant, token: &str) -> Result<(), String> {
    let expected = format!("{}-{}", grant.cluster_uid, grant.incarnation);
    if token != expected {
        return Err(format!("its token is {token}, not {expected}"));
    }
    Ok(())
}

/// Whether a fresh start has room, or may make it.
fn check_room(state: State, discard: bool) -> Result<(), String> {
    match state {
        State::Empty => Ok(()),
        State::OtherObject
        | State::Unidentified
        | State::Mismatch
        | State::Damaged
        | State::Fenced
        | State::RolledBack => {
            if discard {
                return Ok(());
            }
            Err("the data directory is not empty and it does not say discard".into())
        }
    }
}

/// Whether the data is what the grant says it must be.
fn check_data(wait: Wait<'_>, member_id: &str, cluster_id: &str) -> Result<(), String> {
    let head = match (wait.state, wait.head) {
        (State::Empty | State::Damaged, _) | (_, None) => {
            return Err("there is no data to resume".into());
        }
        (State::Fenced, _) => return Err("the data is held back by the fence".into()),
        (State::RolledBack, _) => return Err("the data was rolled back".into()),
        (State::OtherObject | State::Unidentified | State::Mismatch, Some(head)) => head,
    };
    check_head(head, member_id, cluster_id)
}

/// Whether the data is the fenced data that the grant was made for, of an incarnation before the grant's: the
/// token tells both incarnations, and so both cluster IDs, apart.
fn check_fenced(
    wait: Wait<'_>,
    grant: &Grant,
    (member_id, cluster_id): (&str, &str),
) -> Result<Head, String> {
    let (State::Fenced, Some(head)) = (wait.state, wait.head) else {
        return Err(format!(
            "a Recover needs fenced data, this is {:?}",
            wait.state
        ));
    };
    check_head(head, member_id, cluster_id)?;
    match wait.incarnation {
        Some(incarnation) if grant.incarnation <= incarnation => Err(format!(
            "it is for incarnation {}, which the data has seen",
            grant.incarnation
        )),
        Some(_) | None => Ok(head),
    }
}

fn check_head(head: Head, member_id: &str, cluster_id: &str) -> Result<(), String> {
    for (what, granted, found) in [
        ("member", member_id, head.member_id),
        ("cluster", cluster_id, head.cluster_id),
    ] {
        if parse_id(granted) != Some(found) {
            return Err(format!(
                "it is for {what} {granted}, the data is of {what} {found:x}"
            ));
        }
    }
    Ok(())
}

/// The distinct names in an `--initial-cluster` value; a member may have several URLs.
pub(crate) fn parse_names(initial_cluster: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    for entry in initial_cluster.split(',') {
        match entry.split_once('=') {
            Some((name, url)) if !name.is_empty() && url.contains("://") => names.push(name),
            _ => return Err(format!("{entry:?} in its initialCluster is no name=url")),
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
