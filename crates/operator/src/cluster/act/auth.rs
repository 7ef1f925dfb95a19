//! Changes of users, roles and authentication. "Already so" is success; and before etcd is told to ask its callers who they
//! are, it is asked once more whether it knows the operator. Passwords are read here, and nowhere kept.

use api::EtcdCluster;
use api::v1alpha1::role;
use etcd::{Access, Cause, Error, Member, Permission};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use plan::Observed;
use plan::observed::{AuthChange, OPERATOR, Password, ROOT};
use plan::status::Outcome;

use super::members::{guarded_voter, refused};
use super::{certificates, outcome_of};
use crate::certificates::secrets::text;
use crate::cluster::place;
use crate::context::Context;

/// Key of a password in its Secret.
const PASSWORD: &str = "password";

pub(super) async fn change(
    observed: &Observed,
    change: &AuthChange,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Outcome {
    if let AuthChange::Certify { object, user, by } = change {
        return certificates::certify(cluster, observed, (object, user, *by), ctx).await;
    }
    let voter = match guarded_voter(observed, cluster, ctx).await {
        Ok(voter) => voter,
        Err(outcome) => return outcome,
    };
    let password = match (change, change.password()) {
        (_, Some(wanted)) => read(wanted, cluster, ctx).await.map(Some),
        (AuthChange::DiscardPassword { .. }, None) => unguessable().map(Some),
        (_other, None) => Ok(None),
    };
    let password = match password {
        Ok(password) => password,
        Err(outcome) => return outcome,
    };
    let uid = &observed.cluster.uid;
    match carry_out(&voter, change, password.as_deref()).await {
        Ok(Carried::Changed) => {
            ctx.accounts.follow(uid, change);
            Outcome::Done
        }
        Ok(Carried::AsItWas) => {
            ctx.accounts.confirm(uid, change);
            Outcome::Done
        }
        Ok(Carried::InVain) => {
            ctx.accounts.follow_in_vain(uid, change);
            Outcome::NotNow("user root has no password, and can be given none".to_owned())
        }
        Ok(Carried::Not(outcome)) => {
            ctx.accounts.forget(uid);
            outcome
        }
        Err(error) => {
            // Whatever was known is not so, or not any more.
            ctx.accounts.forget(uid);
            refused(&error)
        }
    }
}

/// The password in exactly the Secret that was seen.
async fn read(wanted: &Password, cluster: &EtcdCluster, ctx: &Context) -> Result<String, Outcome> {
    let (namespace, _) = place(cluster);
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), &namespace);
    let what = format!("Secret {}", wanted.secret);
    let live = match api.get(&wanted.secret).await {
        Ok(live) => live,
        Err(error) => return Err(outcome_of(&what, Err::<(), _>(error))),
    };
    let seen = &wanted.version;
    let same = live.uid().as_ref() == Some(&seen.secret_uid)
        && live.resource_version().as_ref() == Some(&seen.resource_version);
    if !same {
        return Err(Outcome::NotNow(format!("{what} changed in between")));
    }
    let password = text(&live, PASSWORD).filter(|it| !it.is_empty());
    password.ok_or_else(|| {
        Outcome::Failed(format!(
            "{what} has no password: write one under the key {PASSWORD}"
        ))
    })
}

/// A password that is told to etcd and to nothing else.
fn unguessable() -> Result<String, Outcome> {
    let (mut first, mut second) = ([0; 16], [0; 16]);
    let random = rustls::crypto::ring::default_provider().secure_random;
    let filled = random.fill(&mut first).and(random.fill(&mut second));
    let (first, second) = (u128::from_ne_bytes(first), u128::from_ne_bytes(second));
    let none = || Outcome::Failed("there is no randomness for a password".to_owned());
    filled
        .is_ok()
        .then(|| format!("{first:032x}{second:032x}"))
        .ok_or_else(none)
}

/// What became of a change.
enum Carried {
    /// etcd was changed.
    Changed,
    /// It was so already, and etcd was not changed.
    AsItWas,
    /// etcd counted it as a change, and changed nothing.
    InVain,
    /// It is not done, which is no error.
    Not(Outcome),
}

async fn carry_out(
    voter: &Member,
    change: &AuthChange,
    password: Option<&str>,
) -> Result<Carried, Error> {
    match change {
        AuthChange::AddRole { role } => {
            already(voter.role_add(role).await, &[is_role_there])?;
        }
        AuthChange::DeleteRole { role } => {
            already(voter.role_delete(role).await, &[is_role_gone])?;
        }
        AuthChange::GrantPermission { role, keys, access } => {
            voter
                .role_grant_permission(role, &permission(keys, *access))
                .await?;
        }
        AuthChange::RevokePermission { role, keys } => {
            let revoked = voter.role_revoke_permission(role, &keys.key, &keys.end);
            already(revoked.await, &[is_permission_gone])?;
        }
        AuthChange::AddUser { user, replaces, .. } => {
            if *replaces {
                already(voter.user_delete(user).await, &[is_user_gone])?;
            }
            already(voter.user_add(user, password).await, &[is_user_there])?;
        }
        AuthChange::SetPassword { user, had_one, .. } => {
            let password = password.unwrap_or_default();
            return set_password(voter, (user, *had_one), password).await;
        }
        AuthChange::DiscardPassword { user } => {
            let password = password.unwrap_or_default();
            voter.user_change_password(user, password).await?;
        }
        AuthChange::DeleteUser { user } => {
            already(voter.user_delete(user).await, &[is_user_gone])?;
        }
        AuthChange::GrantRole { user, role } => voter.user_grant_role(user, role).await?,
        AuthChange::RevokeRole { user, role } => {
            already(voter.user_revoke_role(user, role).await, &[is_role_taken])?;
        }
        AuthChange::Enable => return enable(voter).await,
        AuthChange::Disable => voter.auth_disable().await?,
        AuthChange::Certify { .. } => {}
    }
    Ok(Carried::Changed)
}

/// A password that the user has is not set again, which would void its tokens. One that was made without a password takes
/// none: it is made again, and its roles are granted by the next looks.
async fn set_password(
    voter: &Member,
    (user, had_one): (&str, bool),
    password: &str,
) -> Result<Carried, Error> {
    match voter.authenticate(user, password).await {
        Ok(()) => return Ok(Carried::AsItWas),
        Err(error) if matches!(error.cause, Cause::AuthFailed | Cause::AuthNotEnabled) => {}
        Err(error) => return Err(error),
    }
    if had_one {
        voter.user_change_password(user, password).await?;
        return match user {
            ROOT => has_taken(voter, password).await,
            _other => Ok(Carried::Changed),
        };
    }
    already(voter.user_delete(user).await, &[is_user_gone])?;
    Ok(Carried::Not(Outcome::NotNow(
        "the user is added again, with its password".to_owned(),
    )))
}

/// etcd says that it has set the password of a user that was made without one, and does not. While authentication is on, it
/// does not let user root be deleted.
async fn has_taken(voter: &Member, password: &str) -> Result<Carried, Error> {
    match voter.authenticate(ROOT, password).await {
        Ok(()) => Ok(Carried::Changed),
        Err(error) if matches!(error.cause, Cause::AuthNotEnabled) => Ok(Carried::Changed),
        Err(error) if matches!(error.cause, Cause::AuthFailed) => Ok(Carried::InVain),
        Err(error) => Err(error),
    }
}

/// Looks once more whether etcd knows the operator.
async fn enable(voter: &Member) -> Result<Carried, Error> {
    for user in [OPERATOR, ROOT] {
        let roles = voter.user_get(user).await?;
        if !roles.iter().any(|role| role == ROOT) {
            let why = format!("user {user} does not have role {ROOT} by now");
            return Ok(Carried::Not(Outcome::NotNow(why)));
        }
    }
    voter.auth_enable().await?;
    Ok(Carried::Changed)
}

fn permission(keys: &role::Keys, access: role::Access) -> Permission {
    Permission {
        access: match access {
            role::Access::Read => Access::Read,
            role::Access::Write => Access::Write,
            role::Access::ReadWrite => Access::ReadWrite,
        },
        key: keys.key.clone(),
        range_end: keys.end.clone(),
    }
}

/// What shows that a change was carried out before.
type Already = fn(&Cause) -> bool;

fn is_role_there(cause: &Cause) -> bool {
    matches!(cause, Cause::RoleExists)
}

fn is_role_gone(cause: &Cause) -> bool {
    matches!(cause, Cause::RoleNotFound)
}

fn is_permission_gone(cause: &Cause) -> bool {
    matches!(cause, Cause::PermissionNotGranted)
}

fn is_user_there(cause: &Cause) -> bool {
    matches!(cause, Cause::UserExists)
}

fn is_user_gone(cause: &Cause) -> bool {
    matches!(cause, Cause::UserNotFound)
}

fn is_role_taken(cause: &Cause) -> bool {
    matches!(cause, Cause::RoleNotGranted)
}

fn already(done: Result<(), Error>, so: &[Already]) -> Result<(), Error> {
    match done {
        Err(error) if so.iter().any(|so| so(&error.cause)) => Ok(()),
        other => other,
    }
}
