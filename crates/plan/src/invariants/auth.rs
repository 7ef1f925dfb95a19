//! Invariant 13: etcd asks its callers who they are only where each of them, and the operator first, can say so; and no user
//! or role goes that was not declared once.

use api::Plane;
use api::Transport;

use super::{Violation, ensure};
use crate::observed::{Accounts, AuthChange, Latched, Observed, Process};

/// The operator's user, and the user and role of the same name that etcd demands.
const OPERATOR: &str = "etcd-operator";
const ROOT: &str = "root";

pub(super) fn check_change(observed: &Observed, change: &AuthChange) -> Result<(), Violation> {
    let intent = observed.cluster.intent.as_ref();
    let asked = intent.ok().and_then(|intent| intent.auth);
    let accounts = observed.etcd.auth.accounts.as_ref();
    let accounts = accounts.ok_or(Violation::Unknown)?;
    if *change == AuthChange::Disable {
        return ensure(asked == Some(false), Violation::NotAskedFor);
    }
    ensure(asked == Some(true), Violation::NotAskedFor)?;
    match change {
        AuthChange::Enable => {
            let known = is_root(accounts, OPERATOR) && is_root(accounts, ROOT);
            let known = known && accounts.roles.contains_key(ROOT);
            ensure(known && all_locked(observed), Violation::LockOut)
        }
        _of_accounts => check_account(observed, change),
    }
}

fn is_root(accounts: &Accounts, user: &str) -> bool {
    let roles = accounts.users.get(user);
    roles.is_some_and(|roles| roles.iter().any(|role| role == ROOT))
}

/// The user that a change touches, or the role.
fn subject(change: &AuthChange) -> (Option<&str>, Option<&str>) {
    match change {
        AuthChange::AddUser { user, .. }
        | AuthChange::SetPassword { user, .. }
        | AuthChange::DiscardPassword { user }
        | AuthChange::Certify { user, .. }
        | AuthChange::DeleteUser { user }
        | AuthChange::GrantRole { user, .. }
        | AuthChange::RevokeRole { user, .. } => (Some(user), None),
        AuthChange::AddRole { role }
        | AuthChange::DeleteRole { role }
        | AuthChange::GrantPermission { role, .. }
        | AuthChange::RevokePermission { role, .. } => (None, Some(role)),
        AuthChange::Enable | AuthChange::Disable => (None, None),
    }
}

/// What the operator and etcd need is only ever added; all else was recorded first, and goes only once it is declared no more.
fn check_account(observed: &Observed, change: &AuthChange) -> Result<(), Violation> {
    let made = &observed.cluster.latched.made;
    let (of_user, of_role) = subject(change);
    let own_user = of_user.is_some_and(|it| it == OPERATOR || it == ROOT);
    let own_role = of_role == Some(ROOT);
    if own_user || own_role {
        return check_own(observed, change);
    }
    let recorded = of_user.is_none_or(|user| made.users.contains(user))
        && of_role.is_none_or(|role| made.roles.contains(role));
    ensure(recorded, Violation::NotAskedFor)?;
    let declared = observed.etcd.auth.declared.as_ref();
    let declared = declared.ok_or(Violation::Unknown)?;
    match change {
        AuthChange::DeleteUser { user } => {
            let mut users = declared.users.iter().map(|wish| &wish.user);
            ensure(users.all(|it| it != user), Violation::NotAskedFor)
        }
        AuthChange::DeleteRole { role } => {
            let mut roles = declared.roles.iter().map(|wish| &wish.role);
            ensure(roles.all(|it| it != role), Violation::NotAskedFor)
        }
        _other => Ok(()),
    }
}

/// Of root's password only that of the Secret which is named, and only after it was recorded whose it is. The user is made
/// again only while etcd asks no caller who it is.
fn check_own(observed: &Observed, change: &AuthChange) -> Result<(), Violation> {
    let intent = observed.cluster.intent.as_ref();
    let named = intent.ok().and_then(|intent| intent.root_password.as_ref());
    let recorded = observed.cluster.latched.made.root_password;
    let accounts = observed.etcd.auth.accounts.as_ref();
    let off = accounts.is_some_and(|accounts| !accounts.enabled);
    let fine = match change {
        AuthChange::AddRole { .. } | AuthChange::GrantRole { .. } => true,
        AuthChange::AddUser {
            user,
            password: Some(password),
            replaces,
        } => {
            let asked = user == ROOT && named == Some(&password.secret) && recorded;
            asked && (off || !replaces)
        }
        AuthChange::AddUser { replaces, .. } => !replaces,
        AuthChange::SetPassword { user, password, .. } => {
            user == ROOT && named == Some(&password.secret) && recorded
        }
        AuthChange::DiscardPassword { user } => user == ROOT && named.is_none() && recorded,
        _other => false,
    };
    ensure(fine, Violation::LockOut)
}

/// Only what is declared is recorded as the operator's to delete, and never what it needs itself.
pub(super) fn check_latch(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let (old, new) = (&observed.cluster.latched.made, &new.made);
    if old == new {
        return Ok(());
    }
    let declared = observed.etcd.auth.declared.as_ref();
    let declared = declared.ok_or(Violation::Unknown)?;
    let user = |name: &String| {
        let asked = declared.users.iter().any(|wish| wish.user == *name);
        (asked || old.users.contains(name)) && name != ROOT && name != OPERATOR
    };
    let role = |name: &String| {
        let asked = declared.roles.iter().any(|wish| wish.role == *name);
        (asked || old.roles.contains(name)) && name != ROOT
    };
    let intent = observed.cluster.intent.as_ref();
    let named = intent.is_ok_and(|intent| intent.root_password.is_some());
    let root = !new.root_password || old.root_password || named;
    let known = new.users.iter().all(user) && new.roles.iter().all(role) && root;
    ensure(known, Violation::NotAskedFor)
}
/// Every member that is listed votes, serves and demands certificates, and no template that does otherwise is proven, tried or
/// next.
fn all_locked(observed: &Observed) -> bool {
    let Some(list) = &observed.etcd.members else {
        return false;
    };
    let serves = |id: u64| {
        observed.pods.values().any(|pod| {
            let seen = match &pod.process {
                Process::Serving(serving) => serving.member_id == id && serving.leader != 0,
                _other => false,
            };
            seen && pod.transport.client == Plane::Tls && !pod.terminating
        })
    };
    let latched = &observed.cluster.latched;
    let target = observed.cluster.target.as_ref();
    let next = target.is_some_and(|target| target.intent.tls.transport.client == Plane::Tls);
    let recorded = latched.transport.map(|it| it.client) == Some(Plane::Tls);
    let pods = observed.pods.values();
    let members = list.members.iter();
    list.members.iter().all(|member| !member.learner)
        && members.map(|member| member.id).all(serves)
        && pods
            .map(|pod| pod.transport.client)
            .all(|it| it == Plane::Tls)
        && recorded
        && next
        && latched.trial().is_none()
}

/// No member begins to serve clients without certificates while etcd asks who they are.
pub(super) fn check_rung(
    observed: &Observed,
    from: Transport,
    to: Transport,
) -> Result<(), Violation> {
    let intent = observed.cluster.intent.as_ref();
    let asked = intent.is_ok_and(|intent| intent.auth == Some(true));
    let accounts = observed.etcd.auth.accounts.as_ref();
    let on = asked || accounts.is_some_and(|accounts| accounts.enabled);
    let down = from.client == Plane::Tls && to.client != Plane::Tls;
    ensure(!(on && down), Violation::LockOut)
}
