//! Does this grant fit this wait? A pure function from the annotation and what was seen to a permit or
//! a refusal. The agent trusts the operator's judgement of the cluster, but never a grant that was
//! made for another wait, another object or another directory.

use gate::{Action, Grant, Identity, State};
use serde::Deserialize;

use crate::{judge::parse_id, wal::Head};

pub(crate) mod restore;
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
    /// Make another cluster of the data or of a snapshot, then judge that again.
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

/// How another cluster is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// What it is made of.
    pub(crate) origin: Origin,
    /// To be left beside the new data, once its IDs are known.
    pub(crate) identity: Identity,
    /// Who wrote the data that is there and makes way, if there is any.
    pub(crate) old: Option<Head>,
    /// `--initial-cluster-token`.
    pub(crate) token: String,
    /// `--initial-cluster`.
    pub(crate) initial_cluster: String,
    /// How far the revision is raised.
    pub(crate) bump_revision: u64,
}

/// What another cluster is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Of the data that is there.
    Data,
    /// Of a snapshot that was brought to the volume.
    Snapshot(Snapshot),
}

impl Origin {
    /// What it is called to make one of it.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Data => "recovery",
            Self::Snapshot(_) => "restore",
        }
    }

    /// What is being done while one is made of it.
    pub(crate) fn doing(&self) -> &'static str {
        match self {
            Self::Data => "recovering",
            Self::Snapshot(_) => "restoring",
        }
    }
}

/// A snapshot on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Name of the directory that holds it; [`restore::is_directory`].
    pub(crate) directory: String,
    /// The last 32 bytes of the file, in lower-case hexadecimal digits.
    pub(crate) trailer: String,
    /// The hash at its end is not compared with its contents.
    pub(crate) skip_hash_check: bool,
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
/// Invariant: without `discard` a fresh start takes only an empty directory, and data is resumed only under the
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
            check_alone("Bootstrap", initial_cluster)?;
            let start = build_fresh(grant, false, initial_cluster, token)?;
            (*discard, start, None)
        }
        Action::Join {
            token,
            initial_cluster,
            member_id,
            cluster_id,
            discard,
        } => {
            check_room(wait.state, *discard)?;
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
            let of = (Origin::Data, Some(old));
            return build_recovery(grant, of, (token, initial_cluster), *bump_revision);
        }
        Action::Restore {
            token,
            initial_cluster,
            directory,
            trailer,
            skip_hash_check,
            bump_revision,
        } => {
            let old = restore::check_state(wait, grant)?;
            let of = restore::parse_origin(directory, trailer, *skip_hash_check)?;
            return build_recovery(grant, (of, old), (token, initial_cluster), *bump_revision);
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
    (origin, old): (Origin, Option<Head>),
    (token, initial_cluster): (&str, &str),
    bump_revision: u64,
) -> Result<Permitted, String> {
    check_token(grant, token)?;
    let action = match origin {
        Origin::Data => "Recover",
        Origin::Snapshot(_) => "Restore",
    };
    check_alone(action, initial_cluster)?;
    if bump_revision > MOST_BUMP {
        return Err(format!("its bumpRevision is more than {MOST_BUMP}"));
    }
    Ok(Permitted::Recover(Recovery {
        origin,
        identity: build_identity(grant, None),
        old,
        token: token.to_owned(),
        initial_cluster: initial_cluster.to_owned(),
        bump_revision,
    }))
}

/// Whether a cluster of one is asked for.
fn check_alone(action: &str, initial_cluster: &str) -> Result<(), String> {
    match parse_names(initial_cluster)?.len() {
        1 => Ok(()),
        _several => Err(format!("a {action} must name one member alone")),
    }
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
    parse_names(initial_cluster)?;
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

/// Whether the data is the fenced data that the grant was made for, of an incarnation before the grant's.
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
    check_unseen(wait, grant)?;
    Ok(head)
}

/// Whether the data is of an incarnation before the grant's: the token tells both incarnations, and so both cluster IDs,
/// apart.
fn check_unseen(wait: Wait<'_>, grant: &Grant) -> Result<(), String> {
    match wait.incarnation {
        Some(incarnation) if grant.incarnation <= incarnation => Err(format!(
            "it is for incarnation {}, which the data has seen",
            grant.incarnation
        )),
        Some(_) | None => Ok(()),
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
