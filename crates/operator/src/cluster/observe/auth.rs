//! What etcd knows of users and roles. Every question about them is an entry in its log, so that they are asked once and the
//! answer is kept: what the operator changes is followed, and what others change shows in a number among etcd's metrics,
//! which is looked at now and then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::v1alpha1::role;
use api::{EtcdCluster, Plane};
use etcd::Cause;
use futures::future::try_join_all;
use plan::Observed;
use plan::observed::{Accounts, AuthChange, RootPassword};

use super::targets;
use crate::cluster::act::members::voter;
use crate::context::Context;

const DEADLINE: Duration = Duration::from_secs(5);
/// Between two looks at the number that tells of changes by others.
const RECHECK: Duration = Duration::from_mins(1);

/// What was read of each cluster, by its UID. Losing it costs that they are read once more.
#[derive(Default)]
pub struct Noted(Mutex<BTreeMap<String, Note>>);

#[derive(Clone)]
struct Note {
    known: Result<Accounts, String>,
    checked: Instant,
}

impl Noted {
    fn get(&self, uid: &str) -> Option<Note> {
        self.lock().get(uid).cloned()
    }

    fn keep(&self, uid: &str, known: Result<Accounts, String>) {
        let checked = Instant::now();
        self.lock().insert(uid.to_owned(), Note { known, checked });
    }

    /// etcd carried out a change.
    pub(crate) fn follow(&self, uid: &str, change: &AuthChange) {
        if let Some(note) = self.lock().get_mut(uid)
            && let Ok(accounts) = &mut note.known
        {
            accounts.follow(change);
        }
    }

    /// A password is as it should be, and nothing was changed.
    pub(crate) fn confirm(&self, uid: &str, change: &AuthChange) {
        if let Some(note) = self.lock().get_mut(uid)
            && let Ok(accounts) = &mut note.known
        {
            accounts.keep_password(change);
        }
    }

    /// etcd counted another password of a root that has none.
    pub(crate) fn follow_in_vain(&self, uid: &str, change: &AuthChange) {
        if let Some(note) = self.lock().get_mut(uid)
            && let Ok(accounts) = &mut note.known
        {
            accounts.follow_in_vain(change);
        }
    }

    /// What was read is not what is there.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Authentication is off, as far as is known.
    pub(crate) fn is_off(&self, uid: &str) -> bool {
        let note = self.lock().get(uid).map(|note| note.known.clone());
        matches!(note, Some(Ok(accounts)) if !accounts.enabled)
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Note>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asked only where authentication is spoken of, or clients are to lose the certificates by which etcd may know them.
pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let intent = observed.cluster.intent.as_ref();
    let Ok(intent) = intent else {
        return;
    };
    let runs = observed.runs().client;
    let leaves = intent.tls.transport.client < runs;
    let asked = (intent.auth.is_some() && runs == Plane::Tls) || leaves;
    if !asked || !observed.can_manage_users() {
        return;
    }
    let uid = observed.cluster.uid.clone();
    let mut note = ctx.accounts.get(&uid);
    if let Some(old) = note.take_if(|note| note.checked.elapsed() >= RECHECK)
        && let Ok(accounts) = old.known
        && revision(observed, cluster, ctx).await == Some(accounts.revision)
    {
        ctx.accounts.keep(&uid, Ok(accounts));
        note = ctx.accounts.get(&uid);
    }
    if note.is_none() {
        match read(observed, cluster, ctx).await {
            Ok(Some(accounts)) => ctx.accounts.keep(&uid, Ok(accounts)),
            Ok(None) => ctx.accounts.forget(&uid),
            Err(words) => ctx.accounts.keep(&uid, Err(words)),
        }
        note = ctx.accounts.get(&uid);
    }
    match note.map(|note| note.known) {
        Some(Ok(accounts)) => observed.etcd.auth.accounts = Some(accounts),
        Some(Err(words)) => observed.etcd.auth.refused = Some(words),
        None => {}
    }
}

/// The number that rises with every change, without an entry in the log.
async fn revision(observed: &Observed, cluster: &EtcdCluster, ctx: &Context) -> Option<u64> {
    let leader = observed.leader()?;
    let list = observed.etcd.members.as_ref()?;
    let leader = list.members.iter().find(|member| member.id == leader)?;
    let dial = targets(cluster, ctx).remove(&observed.ordinal_of(leader)?)?;
    let answer = etcd::metrics(ctx.connect.as_ref(), &dial.target, &dial.security, DEADLINE).await;
    answer.ok()?.auth_revision
}

/// All users and roles. Nothing where that did not work; an error where the operator may not ask.
async fn read(
    observed: &Observed,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Result<Option<Accounts>, String> {
    let Some(member) = voter(observed, cluster, ctx) else {
        return Ok(None);
    };
    match read_all(&member.with_deadline(DEADLINE)).await {
        Ok(accounts) => Ok(Some(accounts)),
        Err(error) => {
            tracing::debug!(%error, cause = %error.cause, "users and roles cannot be read");
            match error.cause {
                Cause::PermissionDenied | Cause::UserNotFound | Cause::NoUser => {
                    Err(plan::observed::NOT_A_USER.to_owned())
                }
                _other => Ok(None),
            }
        }
    }
}

async fn read_all(member: &etcd::Member) -> Result<Accounts, etcd::Error> {
    let status = member.auth_status().await?;
    let users = member.user_list().await?;
    let roles = member.role_list().await?;
    let granted = users.into_iter().map(|user| async move {
        let roles = member.user_get(&user).await?;
        Ok::<_, etcd::Error>((user, roles.into_iter().collect()))
    });
    let allowed = roles.into_iter().map(|role| async move {
        let grants = member.role_get(&role).await?;
        Ok::<_, etcd::Error>((role, grants.into_iter().map(grant).collect()))
    });
    Ok(Accounts {
        enabled: status.enabled,
        revision: status.revision,
        users: try_join_all(granted).await?.into_iter().collect(),
        roles: try_join_all(allowed).await?.into_iter().collect(),
        root: RootPassword::Unknown,
    })
}

fn grant(permission: etcd::Permission) -> (role::Keys, role::Access) {
    let access = match permission.access {
        etcd::Access::Read => role::Access::Read,
        etcd::Access::Write => role::Access::Write,
        etcd::Access::ReadWrite => role::Access::ReadWrite,
    };
    let keys = role::Keys {
        key: permission.key,
        end: permission.range_end,
    };
    (keys, access)
}
