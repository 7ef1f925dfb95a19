//! Authentication of etcd: the users that it needs, and the switch itself. It is switched on only where every member knows its
//! callers by their certificates, and after the operator is one of its users: nothing here may lock anyone out who was not
//! meant to be. No member is disturbed, so that this is done while others are waited for.

use api::{Plane, Reason};

use crate::cluster::{accounts, root};
use crate::decision::{Decision, LATER, Step};
use crate::observed::{Accounts, AuthChange, OPERATOR, Observed, ROOT};
use crate::why::Auth;

/// Where nothing else is to be done now, users are made; and where nothing else is to be done at all, authentication is
/// switched on.
pub(super) fn meanwhile(observed: &Observed, decision: Option<Decision>) -> Option<Decision> {
    let idle = decision.as_ref().is_none_or(|decision| {
        let step = &decision.step;
        matches!(step, Step::Wait | Step::Refuse | Step::Nothing)
    });
    if !idle {
        return decision;
    }
    let at_rest = decision
        .as_ref()
        .is_none_or(|decision| decision.step == Step::Refuse);
    if let Some(latch) = recorded(observed) {
        return Some(latch);
    }
    let changes = due(observed, at_rest).into_iter().map(|change| {
        let why = Auth::Changing(change.clone());
        Decision::act(Step::ChangeAuth(change), why)
    });
    let mut awake = changes.filter(|change| !observed.rests(&change.step));
    match awake.next() {
        Some(change) => Some(Decision {
            forbidden: decision.and_then(|decision| decision.forbidden),
            ..change
        }),
        None => decision.or_else(|| pending(observed)),
    }
}

/// Nothing is made before it is recorded whose it is.
fn recorded(observed: &Observed) -> Option<Decision> {
    let asked = observed.auth_asked() == Some(true) && observed.runs().client == Plane::Tls;
    let accounts = observed.etcd.auth.accounts.as_ref().filter(|_| asked)?;
    accounts::record(observed, accounts)
}

/// What is to be changed, in this order.
fn due(observed: &Observed, at_rest: bool) -> Vec<AuthChange> {
    let Some(accounts) = &observed.etcd.auth.accounts else {
        return Vec::new();
    };
    match observed.auth_asked() {
        None => Vec::new(),
        Some(false) => {
            let on = accounts.enabled.then_some(AuthChange::Disable);
            on.into_iter().collect()
        }
        Some(true) if observed.runs().client != Plane::Tls => Vec::new(),
        Some(true) => {
            let mut all = identity(observed, accounts);
            let whole = accounts.has(ROOT, ROOT) && accounts.has(OPERATOR, ROOT);
            let ready = whole
                && all.is_empty()
                && at_rest
                && observed.demands_certificates()
                && !root::waits(observed);
            // Those who are declared are known from the first moment, unless something stands in their way.
            all.extend(accounts::due(observed, accounts));
            all.extend((ready && !accounts.enabled).then_some(AuthChange::Enable));
            all
        }
    }
}

/// What the operator needs in order to be known, and etcd in order to switch authentication on.
fn identity(observed: &Observed, accounts: &Accounts) -> Vec<AuthChange> {
    let mut all = Vec::new();
    let role = ROOT.to_owned();
    if !accounts.roles.contains_key(ROOT) {
        all.push(AuthChange::AddRole { role: role.clone() });
    }
    if !accounts.users.contains_key(OPERATOR) {
        all.push(AuthChange::AddUser {
            user: OPERATOR.to_owned(),
            password: None,
            replaces: false,
        });
    }
    let grant = |user: &str| {
        let (user, role) = (user.to_owned(), role.clone());
        (!accounts.has(&user, ROOT)).then_some(AuthChange::GrantRole { user, role })
    };
    all.extend(grant(OPERATOR));
    let root = root::due(observed, accounts);
    let there = root.is_some() || accounts.users.contains_key(ROOT);
    all.extend(root);
    all.extend(grant(ROOT).filter(|_| there));
    all
}

/// It is asked for, and not so yet.
fn pending(observed: &Observed) -> Option<Decision> {
    let asked = observed.auth_asked()?;
    let auth = &observed.etcd.auth;
    let known = auth.accounts.as_ref().map(|accounts| accounts.enabled);
    if known == Some(asked) || auth.refused.is_some() || misses_tls(observed).is_some() {
        return None;
    }
    let why = match (known, asked) {
        (Some(_), true) => Auth::AwaitingMembers,
        (Some(_), false) => Auth::SwitchingOff,
        // Members that were always plaintext were never asked.
        (None, false) if observed.runs().client == Plane::Plain => return None,
        (None, _) => Auth::Reading,
    };
    Some(Decision::wait(why, LATER))
}

/// What keeps authentication from being what is asked for, and what to do about it.
pub(crate) fn complaints(observed: &Observed) -> Vec<(Reason, String)> {
    let mut all = Vec::new();
    if observed.cluster.latched.cluster_id.is_none() {
        return all;
    }
    if let Some(words) = &observed.etcd.auth.refused {
        all.push((Reason::AuthProblem, words.clone()));
    }
    all.extend(misses_tls(observed));
    all.extend(root::complaint(observed));
    all.extend(stays_locked(observed));
    all
}

/// Clients have no certificates, nor will they.
fn misses_tls(observed: &Observed) -> Option<(Reason, String)> {
    let asked = observed.cluster.intent.as_ref().ok()?;
    let goal = asked.tls.goal(observed.runs()).client;
    (asked.auth == Some(true) && goal != Plane::Tls).then(|| {
        let why = "security.auth asks for authentication, which needs TLS for every client: write security.tls with clientTLSEnabled: true, plaintextClients: Refuse and, for a cluster that runs in plaintext, liveSwitch: true; or write security.auth.enabled: false";
        (Reason::AuthProblem, why.to_owned())
    })
}

/// Clients are to go without certificates by which etcd knows them.
fn stays_locked(observed: &Observed) -> Option<(Reason, String)> {
    let asked = observed.cluster.intent.as_ref().ok()?;
    let accounts = observed.etcd.auth.accounts.as_ref();
    let on = asked.auth == Some(true) || accounts.is_some_and(|accounts| accounts.enabled);
    let runs = observed.runs().client;
    (on && runs == Plane::Tls && asked.tls.transport.client < runs).then(|| {
        let why = "security.tls lets clients in without certificates, but authentication is on, and the operator and users are known by theirs: TLS stays as it is. Write security.auth.enabled: false first, or the former settings of security.tls";
        (Reason::ChangeRefused, why.to_owned())
    })
}
