//! The password of the user `root`: that of a Secret which the cluster names, or none. It is for people; the operator is known
//! by its certificate and needs it for nothing, so that a wrong one locks nothing out.

use api::Reason;

use crate::observed::{Accounts, AuthChange, Declared, Made, Observed, ROOT, RootPassword};

/// What to do about a root that can have no password.
const NO_PASSWORD: &str = "etcd's user root was made without a password, and etcd can give it one only while authentication is off: take security.auth.rootPasswordSecret out; or, where clients may come in unasked for a moment, write security.auth.enabled: false, and true again once status.auth.enabled is false";

/// What is to be done about the user and its password. A `root` that is to have one is not made before its Secret is there,
/// because etcd cannot give it one later while authentication is on.
pub(super) fn due(observed: &Observed, accounts: &Accounts) -> Option<AuthChange> {
    let declared = observed.etcd.auth.declared.as_ref()?;
    let exists = accounts.users.contains_key(ROOT);
    let user = ROOT.to_owned();
    let Some(wish) = &declared.root else {
        let ours = observed.cluster.latched.made.root_password;
        let discard = ours && accounts.root != RootPassword::Discarded;
        return match (exists, discard) {
            (false, _) => Some(AuthChange::AddUser {
                user,
                password: None,
                replaces: false,
            }),
            (true, true) => Some(AuthChange::DiscardPassword { user }),
            (true, false) => None,
        };
    };
    let password = wish.password()?;
    let has = accounts.root == RootPassword::Of(password.version.clone());
    let never = accounts.root == RootPassword::Absent && accounts.enabled;
    match (exists, accounts.enabled) {
        (true, _) if has || never => None,
        (true, true) => Some(AuthChange::SetPassword {
            user,
            password,
            had_one: true,
        }),
        // Nothing tells whether it has a password, but with authentication off it can be made again.
        (exists, _) => Some(AuthChange::AddUser {
            user,
            password: Some(password),
            replaces: exists,
        }),
    }
}

/// It is to have a password that is not known yet: once authentication is on, etcd could not give it to one that has none.
pub(super) fn waits(observed: &Observed) -> bool {
    let declared = observed.etcd.auth.declared.as_ref();
    let wish = declared.and_then(|declared| declared.root.as_ref());
    wish.is_some_and(|wish| wish.password().is_none())
}

/// Whether the password is the operator's: it is to be, or was and is not replaced yet.
pub(super) fn is_ours(declared: &Declared, old: &Made, accounts: &Accounts) -> bool {
    declared.root.is_some() || (old.root_password && accounts.root != RootPassword::Discarded)
}

/// The Secret that is named is not there, or root cannot have what is in it.
pub(super) fn complaint(observed: &Observed) -> Option<(Reason, String)> {
    let asked = observed.auth_asked() == Some(true);
    let auth = &observed.etcd.auth;
    let wish = auth.declared.as_ref()?.root.as_ref().filter(|_| asked)?;
    let accounts = auth.accounts.as_ref();
    let on = accounts.filter(|accounts| accounts.enabled);
    if on.is_some_and(|accounts| accounts.root == RootPassword::Absent) {
        return Some((Reason::AuthProblem, NO_PASSWORD.to_owned()));
    }
    if wish.seen.is_some() {
        return None;
    }
    let until = match on {
        Some(_) => "until then user root keeps the password that it has",
        None => "authentication is switched on after that",
    };
    let why = format!(
        "there is no Secret {}, which security.auth.rootPasswordSecret names: create it with the password of etcd's user root under the key password; {until}",
        wish.secret
    );
    Some((Reason::AuthProblem, why))
}
