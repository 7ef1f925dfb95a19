//! Declared users and roles: what is missing in etcd is made, what differs is set right, and what was made and is declared no
//! more is deleted. What others made is left alone.

use crate::cluster::root;
use crate::decision::{Decision, Step};
use crate::observed::{
    Accounts, AuthChange, Declared, Issued, Login, Made, Observed, Password, RoleWish, UserWish,
    is_due,
};
use crate::why::Auth;

/// Which users and roles are the operator's to delete is recorded before they are made, and forgotten once they are gone.
pub(super) fn record(observed: &Observed, accounts: &Accounts) -> Option<Decision> {
    let declared = observed.etcd.auth.declared.as_ref()?;
    let old = &observed.cluster.latched.made;
    let mut new = Made {
        users: declared
            .users
            .iter()
            .map(|wish| wish.user.clone())
            .collect(),
        roles: declared
            .roles
            .iter()
            .map(|wish| wish.role.clone())
            .collect(),
        root_password: root::is_ours(declared, old, accounts),
    };
    let stays = old
        .users
        .iter()
        .filter(|it| accounts.users.contains_key(*it));
    new.users.extend(stays.cloned());
    let stays = old
        .roles
        .iter()
        .filter(|it| accounts.roles.contains_key(*it));
    new.roles.extend(stays.cloned());
    (new != *old).then(|| {
        let mut latched = observed.cluster.latched.clone();
        latched.made = new;
        Decision::act(Step::Latch(latched), Auth::Recording)
    })
}

/// What is to be changed, in this order: roles before the users that have them, and what goes last of all.
pub(super) fn due(observed: &Observed, accounts: &Accounts) -> Vec<AuthChange> {
    let Some(declared) = &observed.etcd.auth.declared else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for wish in declared.roles.iter().filter(|wish| wish.twin.is_none()) {
        all.extend(of_role(wish, accounts));
    }
    for wish in declared.users.iter().filter(|wish| wish.twin.is_none()) {
        all.extend(of_certificate(observed, wish));
        all.extend(of_user(wish, accounts));
    }
    all.extend(gone(&observed.cluster.latched.made, declared, accounts));
    all
}

fn of_role(wish: &RoleWish, accounts: &Accounts) -> Vec<AuthChange> {
    let role = wish.role.clone();
    let Some(has) = accounts.roles.get(&role) else {
        return vec![AuthChange::AddRole { role }];
    };
    let missing = wish
        .grants
        .iter()
        .filter(|(keys, access)| has.get(keys) != Some(access));
    let missing = missing.map(|(keys, access)| AuthChange::GrantPermission {
        role: role.clone(),
        keys: keys.clone(),
        access: *access,
    });
    let extra = has.keys().filter(|keys| !wish.grants.contains_key(*keys));
    let extra = extra.map(|keys| AuthChange::RevokePermission {
        role: role.clone(),
        keys: keys.clone(),
    });
    missing.chain(extra).collect()
}

fn of_user(wish: &UserWish, accounts: &Accounts) -> Vec<AuthChange> {
    let user = &wish.user;
    let Some(has) = accounts.users.get(user) else {
        return add(wish, false).into_iter().collect();
    };
    let login = match &wish.login {
        Login::Password { .. } => set_password(wish),
        Login::Certificate { .. } => wish.applied.as_ref().and_then(|_| add(wish, true)),
    };
    // A role that does not exist cannot be granted.
    let missing = wish
        .roles
        .iter()
        .filter(|role| !has.contains(*role) && accounts.roles.contains_key(*role));
    let missing = missing.map(|role| AuthChange::GrantRole {
        user: user.clone(),
        role: role.clone(),
    });
    let extra = has.iter().filter(|role| !wish.roles.contains(*role));
    let extra = extra.map(|role| AuthChange::RevokeRole {
        user: user.clone(),
        role: role.clone(),
    });
    extra.chain(login).chain(missing).collect()
}

/// Nothing while its password is not there.
fn add(wish: &UserWish, replaces: bool) -> Option<AuthChange> {
    let password = match &wish.login {
        Login::Password { .. } => Some(password(wish)?),
        Login::Certificate { .. } => None,
    };
    Some(AuthChange::AddUser {
        user: wish.user.clone(),
        password,
        replaces,
    })
}

fn password(wish: &UserWish) -> Option<Password> {
    match &wish.login {
        Login::Password { secret, seen } => Some(Password {
            secret: secret.clone(),
            version: seen.clone()?,
        }),
        Login::Certificate { .. } => None,
    }
}

fn set_password(wish: &UserWish) -> Option<AuthChange> {
    let password = password(wish)?;
    let other = wish.applied.as_ref() != Some(&password.version);
    other.then(|| AuthChange::SetPassword {
        user: wish.user.clone(),
        password,
        had_one: wish.applied.is_some(),
    })
}

/// Its Secret is missing, was altered, is due, or is of another authority than the one that issues. One of another owner is left
/// alone.
fn of_certificate(observed: &Observed, wish: &UserWish) -> Option<AuthChange> {
    let Login::Certificate { issued, asked } = &wish.login else {
        return None;
    };
    let (by, issuing) = (observed.issuer()?, observed.issuing()?);
    let due = match issued {
        Issued::Missing | Issued::Altered => true,
        Issued::Unknown | Issued::Foreign => false,
        Issued::Recorded(record) => {
            is_due(record, observed.now) || record.asked != *asked || record.authorities != *issuing
        }
    };
    due.then(|| AuthChange::Certify {
        object: wish.object.clone(),
        user: wish.user.clone(),
        by,
    })
}

/// Users before their roles.
fn gone(made: &Made, declared: &Declared, accounts: &Accounts) -> Vec<AuthChange> {
    let users = made
        .users
        .iter()
        .filter(|user| !declared.has_user(user) && accounts.users.contains_key(*user));
    let users = users.map(|user| AuthChange::DeleteUser { user: user.clone() });
    let roles = made
        .roles
        .iter()
        .filter(|role| !declared.has_role(role) && accounts.roles.contains_key(*role));
    let roles = roles.map(|role| AuthChange::DeleteRole { role: role.clone() });
    users.chain(roles).collect()
}
