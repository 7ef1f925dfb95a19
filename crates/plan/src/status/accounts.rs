//! What the objects of users and roles are told.

use api::certificates::for_clients;
use api::v1alpha1::user::SecretVersion;
use api::{Reason, names};

use crate::decision::{Decision, Step};
use crate::observed::{Accounts, AuthChange, Issued, Login, Observed, RoleWish, UserWish};
use crate::status::Outcome;

/// What one object is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its name.
    pub object: String,
    /// Generation of its spec.
    pub generation: i64,
    /// All is as it asks.
    pub ready: bool,
    /// In one word.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
    /// The password that the user has.
    pub password: Option<SecretVersion>,
}

/// Nothing while too little is known: then each keeps what it was told last.
pub fn tell_users(observed: &Observed, decision: &Decision, outcome: &Outcome) -> Vec<Told> {
    let Some(declared) = &observed.etcd.auth.declared else {
        return Vec::new();
    };
    let told = declared.users.iter().filter_map(|wish| {
        let verdict = general(observed, wish.twin.as_ref()).or_else(|| {
            let accounts = observed.etcd.auth.accounts.as_ref()?;
            let failed = failure(observed, decision, outcome, |it| {
                it.user() == Some(&wish.user)
            });
            Some(failed.unwrap_or_else(|| of_user(observed, wish, accounts)))
        });
        let (ready, reason, message) = verdict?;
        Some(Told {
            object: wish.object.clone(),
            generation: wish.generation,
            ready,
            reason,
            message,
            password: applied(observed, wish, decision, outcome),
        })
    });
    told.collect()
}

/// The same for roles.
pub fn tell_roles(observed: &Observed, decision: &Decision, outcome: &Outcome) -> Vec<Told> {
    let Some(declared) = &observed.etcd.auth.declared else {
        return Vec::new();
    };
    let told = declared.roles.iter().filter_map(|wish| {
        let verdict = general(observed, wish.twin.as_ref()).or_else(|| {
            let accounts = observed.etcd.auth.accounts.as_ref()?;
            let failed = failure(observed, decision, outcome, |it| {
                it.role() == Some(&wish.role)
            });
            Some(failed.unwrap_or_else(|| of_role(wish, accounts)))
        });
        let (ready, reason, message) = verdict?;
        Some(Told {
            object: wish.object.clone(),
            generation: wish.generation,
            ready,
            reason,
            message,
            password: None,
        })
    });
    told.collect()
}

type Verdict = (bool, Reason, String);

/// What stands in the way of every user and role, or of this one before etcd is asked.
fn general(observed: &Observed, twin: Option<&String>) -> Option<Verdict> {
    let name = &observed.cluster.name;
    if let Some(twin) = twin {
        let why = format!(
            "the older object {twin} declares the same name in etcd: delete one of them, or choose another name"
        );
        return Some((false, Reason::AuthProblem, why));
    }
    if observed.auth_asked() != Some(true) {
        let why = format!(
            "authentication is not asked for: write security.auth.enabled: true in the EtcdCluster {name}"
        );
        return Some((false, Reason::AuthProblem, why));
    }
    let refused = observed.etcd.auth.refused.clone()?;
    Some((false, Reason::AuthProblem, refused))
}

/// A change for it that failed.
fn failure(
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
    about: impl Fn(&AuthChange) -> bool,
) -> Option<Verdict> {
    let words = match (&decision.step, outcome) {
        (Step::ChangeAuth(change), Outcome::Failed(words)) if about(change) => Some(words),
        _other => observed
            .failed
            .iter()
            .find_map(|failed| match &failed.step {
                Step::ChangeAuth(change) if about(change) && failed.lasts(observed.now) => {
                    Some(&failed.words)
                }
                _other => None,
            }),
    };
    words
        .filter(|words| !words.is_empty())
        .map(|words| (false, Reason::StepFailed, words.clone()))
}

fn pending(why: String) -> Verdict {
    (false, Reason::ConfiguringAuth, why)
}

fn problem(why: String) -> Verdict {
    (false, Reason::AuthProblem, why)
}

/// What is to be said of its password or certificate; `None` where that is as it should be.
fn of_login(observed: &Observed, wish: &UserWish) -> Option<Verdict> {
    let why = match &wish.login {
        Login::Password { secret, seen: None } => problem(format!(
            "there is no Secret {secret}: create it with the password under the key password"
        )),
        Login::Password { seen, .. } if *seen != wish.applied => {
            pending("the password is being set".to_owned())
        }
        Login::Certificate {
            issued: Issued::Foreign,
            ..
        } => problem("a Secret with the name that the certificate needs has another owner: delete or rename it".to_owned()),
        Login::Certificate { issued, .. } if issued.record().is_none() => {
            pending("the certificate is being issued".to_owned())
        }
        Login::Certificate { issued, .. } if is_revoked(observed, issued) => {
            let secret = names::user_secret(&observed.cluster.name, &wish.object);
            problem(format!(
                "the certificate in the Secret {secret} is of an authority that was revoked: members reject it until it is issued again"
            ))
        }
        Login::Password { .. } | Login::Certificate { .. } => return None,
    };
    Some(why)
}

fn of_user(observed: &Observed, wish: &UserWish, accounts: &Accounts) -> Verdict {
    if let Some(verdict) = of_login(observed, wish) {
        return verdict;
    }
    let Some(has) = accounts.users.get(&wish.user) else {
        return pending("the user is being added".to_owned());
    };
    let unknown: Vec<&str> = wish
        .roles
        .iter()
        .filter(|role| !accounts.roles.contains_key(*role))
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        return problem(format!(
            "etcd has no role {}: create an EtcdRole for it",
            unknown.join(", ")
        ));
    }
    if *has != wish.roles {
        return pending("roles are being granted".to_owned());
    }
    let why = if accounts.enabled {
        format!("user {} is in etcd", wish.user)
    } else {
        format!(
            "user {} is in etcd; authentication is being switched on",
            wish.user
        )
    };
    (
        accounts.enabled,
        if accounts.enabled {
            Reason::AsExpected
        } else {
            Reason::ConfiguringAuth
        },
        why,
    )
}

/// Members that start do not trust what issued it.
fn is_revoked(observed: &Observed, issued: &Issued) -> bool {
    let members = observed.certificates.members.record();
    members.zip(issued.record()).is_some_and(|(members, own)| {
        let clients = for_clients(&own.authorities);
        let told = members.trusted();
        !told.contains(&own.authorities) && !told.contains(&clients)
    })
}

fn of_role(wish: &RoleWish, accounts: &Accounts) -> Verdict {
    if accounts.roles.get(&wish.role) == Some(&wish.grants) {
        let why = format!("role {} is in etcd", wish.role);
        (true, Reason::AsExpected, why)
    } else {
        let why = "permissions are being granted".to_owned();
        (false, Reason::ConfiguringAuth, why)
    }
}

/// The password that a user has now, as far as is known.
fn applied(
    observed: &Observed,
    wish: &UserWish,
    decision: &Decision,
    outcome: &Outcome,
) -> Option<SecretVersion> {
    if let (Step::ChangeAuth(change), Outcome::Done) = (&decision.step, outcome)
        && change.user() == Some(&wish.user)
    {
        match change {
            AuthChange::AddUser { .. } | AuthChange::SetPassword { .. } => {
                return change.password().map(|password| password.version.clone());
            }
            _other => {}
        }
    }
    let accounts = observed.etcd.auth.accounts.as_ref();
    let absent = accounts.is_some_and(|accounts| !accounts.users.contains_key(&wish.user));
    wish.applied.clone().filter(|_| !absent)
}
