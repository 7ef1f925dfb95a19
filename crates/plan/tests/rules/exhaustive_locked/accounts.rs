//! Accounts: etcd never asks its callers who they are before it knows the operator, and a person who locked it out is told how
//! to let it in.

use std::collections::BTreeMap;

use api::names::Scheme;
use api::v1alpha1::user::SecretVersion;
use api::{EtcdClusterStatus, Plane};
use manifests::Template;
use plan::observed::{
    Accounts, AuthChange, Declared, Issued, Login, NO_CERTIFICATE, NOT_A_USER, OPERATOR, Process,
    ROOT, RoleWish, RootWish, UserWish,
};
use plan::status::{Outcome, decide_status};
use plan::target::decide_target;
use plan::{Observed, Step, decide};
use testkit::scene::schemes::{Schemes, Seat};

use super::{Tally, Wrong, done, right};

const RUNGS: [Plane; 3] = [Plane::Plain, Plane::Both, Plane::Tls];
const ASKED: [Option<bool>; 3] = [None, Some(false), Some(true)];

/// A world of accounts: what etcd knows, what is asked for, and how members serve clients.
#[derive(Clone, Debug)]
struct Known {
    rungs: [Plane; 3],
    proven: Plane,
    asked_rung: Plane,
    asked: Option<bool>,
    accounts: Accounts,
    declared: bool,
    /// The cluster names a Secret for the password of root: which is there, or not.
    root: Option<bool>,
    /// What etcd says to the operator.
    refused: bool,
}

/// Of each user: whether it is there, and has the role.
fn accounts([enabled, role]: [bool; 2], users: [u8; 2]) -> Accounts {
    let mut accounts = Accounts {
        enabled,
        revision: 1,
        ..Accounts::default()
    };
    for (user, has) in [OPERATOR, ROOT].into_iter().zip(users) {
        if has > 0 {
            let roles = (has > 1).then(|| ROOT.to_owned());
            let _new = accounts
                .users
                .insert(user.to_owned(), roles.into_iter().collect());
        }
    }
    if role {
        let _new = accounts.roles.insert(ROOT.to_owned(), BTreeMap::new());
    }
    accounts
}

impl Known {
    fn observed(&self) -> Observed {
        let schemes = Schemes {
            proven: self.proven,
            everywhere: true,
            before: None,
            asked: self.asked_rung,
            consent: true,
            trial: None,
            certified: true,
            recorded: true,
            list: true,
            seats: self
                .rungs
                .map(|rung| Seat {
                    pod: Some(rung),
                    serves: true,
                    http: self.proven.scheme() == Scheme::Http,
                    https: self.proven.scheme() == Scheme::Https,
                })
                .into(),
        };
        let mut observed = schemes.observed();
        let locked = self.asked == Some(true) || self.accounts.enabled;
        if let Ok(intent) = &mut observed.cluster.intent {
            (intent.auth, intent.tls.locked) = (self.asked, locked);
            intent.root_password = self.root.map(|_| "root-password".to_owned());
            let latched = &observed.cluster.latched;
            observed.cluster.target = Some(decide_target(intent, latched));
        }
        let auth = &mut observed.etcd.auth;
        if self.refused {
            let command = match self.proven {
                Plane::Plain => NO_CERTIFICATE,
                Plane::Both | Plane::Tls => NOT_A_USER,
            };
            auth.refused = Some(command.to_owned());
            for pod in observed.pods.values_mut() {
                pod.process = Process::Refusing("permission denied".to_owned());
            }
        } else {
            auth.accounts = Some(self.accounts.clone());
        }
        observed.etcd.auth.declared = Some(self.declared());
        observed
    }

    /// A user and its role, or nothing.
    fn declared(&self) -> Declared {
        let mut declared = Declared {
            root: self.root.map(|there| RootWish {
                secret: "root-password".to_owned(),
                seen: there.then(|| SecretVersion {
                    secret_uid: "uid".to_owned(),
                    resource_version: "1".to_owned(),
                }),
            }),
            ..Declared::default()
        };
        if self.declared {
            declared.users.push(UserWish {
                object: "kim".to_owned(),
                generation: 1,
                user: "kim".to_owned(),
                roles: ["readers".to_owned()].into(),
                login: Login::Certificate {
                    issued: Issued::Missing,
                    asked: "asked".to_owned(),
                },
                applied: None,
                twin: None,
            });
            declared.roles.push(RoleWish {
                object: "readers".to_owned(),
                generation: 1,
                role: "readers".to_owned(),
                grants: BTreeMap::new(),
                twin: None,
            });
        }
        declared
    }
}

/// etcd knows the operator, wherever it asks who its callers are: by the name in its certificate, with every right.
fn is_known(accounts: &Accounts, served: &[Plane]) -> bool {
    let may = |user: &str| accounts.users.get(user).is_some_and(|it| it.contains(ROOT));
    let known = may(OPERATOR) && accounts.roles.contains_key(ROOT);
    !accounts.enabled || (known && served.iter().all(|plane| *plane == Plane::Tls))
}

fn judge(known: &Known, wrong: Wrong, tally: &mut Tally) {
    let observed = known.observed();
    let served: Vec<Plane> = known.rungs.into_iter().chain([known.proven]).collect();
    if known.refused || !is_known(&known.accounts, &served) {
        // It is locked out, by a person: that person is told the command, whatever else is going on.
        if known.refused {
            let decision = decide(&observed);
            let old = EtcdClusterStatus::default();
            let told = decide_status(&observed, &decision, &Outcome::Done, &old).unwrap();
            let mut conditions = told.conditions.iter();
            let degraded = conditions.find(|it| it.type_ == "Degraded").unwrap();
            assert!(
                degraded.message.contains("etcdctl"),
                "{degraded:?} on {known:?}"
            );
        }
        return;
    }
    let step = done(&observed, wrong);
    let mut after = known.accounts.clone();
    if let Step::ChangeAuth(change) = &step {
        after.follow(change);
    }
    // What is tried next.
    let mut served = served;
    if let Step::ApplyObjects(shape) = &step
        && shape.template == Template::Try
    {
        served.push(observed.transport().client);
    }
    let begins = matches!(&step, Step::Latch(new) if new.trial().is_some());
    if begins {
        served.push(observed.transport().client);
    }
    tally.note(&step, is_known(&after, &served), || format!("{known:?}"));
}

/// Everything that etcd can have of the users and the role that the operator needs.
fn all_accounts() -> Vec<Accounts> {
    let all = (0..36_u8).map(|bits| {
        let bit = |of: u8| bits / of % 2 == 1;
        accounts([bit(9), bit(18)], [bits % 3, bits / 3 % 3])
    });
    all.collect()
}

fn visit(wrong: Wrong) -> (usize, Tally) {
    let (mut visited, mut tally) = (0, Tally::default());
    let rungs = RUNGS.into_iter().flat_map(|it| RUNGS.map(|to| (it, to)));
    let rungs = rungs.flat_map(|(it, to)| RUNGS.map(|last| (it, to, last)));
    for (proven, asked_rung, last) in rungs {
        for (asked, accounts) in all_accounts()
            .into_iter()
            .flat_map(|of| ASKED.map(|it| (it, of.clone())))
        {
            for (declared, root, refused) in [
                (false, None, false),
                (true, None, false),
                (true, Some(false), false),
                (true, Some(true), false),
                (false, None, true),
            ] {
                visited += 1;
                let known = Known {
                    rungs: [proven, proven, last],
                    proven,
                    asked_rung,
                    asked,
                    accounts: accounts.clone(),
                    declared,
                    root,
                    refused,
                };
                judge(&known, wrong, &mut tally);
            }
        }
    }
    (visited, tally)
}

#[test]
fn the_operator_can_always_identify_itself_or_a_person_is_told_the_command() {
    let (visited, tally) = visit(right);
    println!(
        "{visited} worlds of accounts, {} of them safe, {} steps",
        tally.safe, tally.acted
    );
    assert_eq!(tally.first, None);
    assert!(tally.safe > 1_000 && tally.acted > 500, "{tally:?}");
}

/// Authentication is switched on before the operator is a user.
fn enables_at_once(observed: &Observed) -> Option<Step> {
    let accounts = observed.etcd.auth.accounts.as_ref()?;
    (!accounts.enabled).then_some(Step::ChangeAuth(AuthChange::Enable))
}

/// It gives up its own role.
fn revokes_itself(observed: &Observed) -> Option<Step> {
    let accounts = observed.etcd.auth.accounts.as_ref()?;
    accounts.enabled.then(|| {
        Step::ChangeAuth(AuthChange::RevokeRole {
            user: OPERATOR.to_owned(),
            role: ROOT.to_owned(),
        })
    })
}

#[test]
fn a_lock_out_is_found() {
    let wrong: [Wrong; 2] = [enables_at_once, revokes_itself];
    for wrong in wrong {
        let (_, tally) = visit(wrong);
        assert!(tally.harmed > 20, "{tally:?}");
    }
}
