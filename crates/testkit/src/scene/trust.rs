//! What the members of a formed cluster with TLS trust: what the Secrets hold of authorities, and which of them each pod was
//! started with.

use std::collections::{BTreeMap, BTreeSet};

use api::Plane;
use api::certificates::{Record, Rotation, Trust};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::Observed;
use plan::observed::{Accounts, Certificates, Declared, Issued, Login, OPERATOR, ROOT, UserWish};

use super::Scene;
use super::schemes::{Schemes, Seat};

/// The authority that the cluster began with.
pub const OLD_AUTHORITY: &str = "a";
/// The one that follows it.
pub const NEW_AUTHORITY: &str = "b";

/// What `db-ca` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keys {
    /// The first authority.
    First,
    /// The next one, and the key of the first: members are on their way.
    Both,
    /// The next one; the key of the first was lost on the way.
    NextAlone,
    /// The next one; members have arrived, and the key of the first was destroyed.
    Next,
    /// It was deleted.
    Gone,
}

/// A formed cluster with TLS, all of whose members serve where there is a pod.
#[derive(Clone, Debug)]
pub struct Trusts {
    /// What `db-ca` holds.
    pub keys: Keys,
    /// What issued the certificates that members show; `None` where `db-tls` is gone.
    pub shown: Option<&'static str>,
    /// The files with authorities in `db-tls`.
    pub files: &'static [&'static str],
    /// Their generation.
    pub generation: u64,
    /// For so many seconds what is shown has been of the newest authority.
    pub since: i64,
    /// What issued the published certificate; `None` where `db-client-tls` is gone.
    pub clients: Option<&'static str>,
    /// Another authority is asked for, and the one before is to count no longer.
    pub asked: Option<&'static str>,
    /// What was carried out of that.
    pub done: Option<&'static str>,
    /// What the first authority issued is to count no longer.
    pub revoked: bool,
    /// What issued the certificate of a user; `None` where none is declared.
    pub user: Option<&'static str>,
    /// The generation that each pod bears; `None` where there is no pod.
    pub pods: Vec<Option<u64>>,
}

/// Nothing of certificates, but what is asked of them.
pub(super) fn issued() -> Certificates {
    Certificates {
        asked_of_members: "asked".to_owned(),
        asked_of_clients: "asked".to_owned(),
        ..Certificates::default()
    }
}

/// Certificates of an authority, issued long before they are due.
pub(super) fn record(authority: &str) -> Record {
    let at = |hours: i64| Time(Scene::now() + SignedDuration::from_hours(hours));
    Record {
        authorities: authority.to_owned(),
        asked: "asked".to_owned(),
        issued_at: at(-20),
        renew_at: at(24 * 60),
        not_after: at(24 * 90),
        data: "0123456789abcdef0123".to_owned(),
        copied: None,
        trust: None,
        rotation: None,
    }
}

/// A user by certificate, that etcd knows, as it knows the operator.
fn declare(observed: &mut Observed, issuer: &str) {
    if let Ok(intent) = &mut observed.cluster.intent {
        (intent.auth, intent.tls.locked) = (Some(true), true);
    }
    let user = "kim".to_owned();
    observed.cluster.latched.made.users.insert(user.clone());
    let root = || BTreeSet::from([ROOT.to_owned()]);
    let users = [(OPERATOR, root()), (ROOT, root()), ("kim", BTreeSet::new())];
    observed.etcd.auth.accounts = Some(Accounts {
        enabled: true,
        revision: 1,
        users: users.map(|(user, roles)| (user.to_owned(), roles)).into(),
        roles: [(ROOT.to_owned(), BTreeMap::new())].into(),
        ..Accounts::default()
    });
    observed.etcd.auth.declared = Some(Declared {
        users: vec![UserWish {
            object: user.clone(),
            generation: 1,
            user,
            roles: BTreeSet::new(),
            login: Login::Certificate {
                issued: Issued::Recorded(record(issuer)),
                asked: "asked".to_owned(),
            },
            applied: None,
            twin: None,
        }],
        roles: Vec::new(),
        root: None,
    });
}

impl Trusts {
    /// The observation.
    pub fn observed(&self) -> Observed {
        let seat = |pod: &Option<u64>| Seat {
            pod: pod.map(|_| Plane::Tls),
            serves: true,
            http: false,
            https: true,
        };
        let schemes = Schemes {
            proven: Plane::Tls,
            everywhere: true,
            before: None,
            asked: Plane::Tls,
            consent: false,
            trial: None,
            certified: true,
            list: self.pods.iter().flatten().count() * 2 > self.pods.len(),
            recorded: true,
            seats: self.pods.iter().map(seat).collect(),
        };
        let mut observed = schemes.observed();
        for (ordinal, generation) in (0..).zip(&self.pods) {
            if let (Some(pod), Some(generation)) = (observed.pods.get_mut(&ordinal), generation) {
                pod.trust = *generation;
            }
        }
        if let Ok(intent) = &mut observed.cluster.intent {
            intent.tls.rotate = self.asked.map(str::to_owned);
            intent.tls.trust = self.generation;
        }
        // The rollout by which pods get there is tried elsewhere: here they are as they are.
        if let Some(target) = &mut observed.cluster.target {
            target.intent.tls.trust = self.generation;
        }
        observed.certificates = self.certificates();
        if let Some(issuer) = self.user {
            declare(&mut observed, issuer);
        }
        observed
    }

    fn certificates(&self) -> Certificates {
        let recorded = |authority: Option<&str>| match authority {
            None => Issued::Missing,
            Some(authority) => Issued::Recorded(record(authority)),
        };
        let mut members = recorded(self.shown);
        if let Issued::Recorded(members) = &mut members {
            let switched = Scene::now() - SignedDuration::from_secs(self.since);
            let authorities = self.files.iter().map(|it| (*it).to_owned());
            members.trust = (self.generation > 0).then(|| Trust {
                authorities: authorities.collect(),
                generation: self.generation,
                switched_at: (self.shown == Some(NEW_AUTHORITY)).then_some(Time(switched)),
                stranded: None,
            });
        }
        Certificates {
            authority: self.authority(),
            members,
            clients: recorded(self.clients),
            ..issued()
        }
    }

    fn authority(&self) -> Issued {
        let rotation = |pending, previous: Option<&str>| Rotation {
            pending,
            previous: previous.map(str::to_owned),
            previous_until: previous.map(|_| record(OLD_AUTHORITY).not_after),
            asked: self.done.map(str::to_owned),
            revoked: self.revoked.then(|| OLD_AUTHORITY.to_owned()),
        };
        let of = |authority, rotation| {
            Issued::Recorded(Record {
                rotation,
                ..record(authority)
            })
        };
        match self.keys {
            Keys::First => of(OLD_AUTHORITY, self.done.map(|_| rotation(false, None))),
            Keys::Both => of(NEW_AUTHORITY, Some(rotation(true, Some(OLD_AUTHORITY)))),
            Keys::NextAlone => of(NEW_AUTHORITY, Some(rotation(true, None))),
            Keys::Next => of(NEW_AUTHORITY, Some(rotation(false, None))),
            Keys::Gone => Issued::Missing,
        }
    }
}
