//! Trust: nothing is shown that a member does not trust, and no key goes while it is needed.

use std::collections::BTreeSet;

use api::certificates::{Record, asks_to_revoke};
use plan::decision::{Issue, Issuer, Rotate};
use plan::{Observed, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use testkit::scene::trust::{Keys, NEW_AUTHORITY, OLD_AUTHORITY, Trusts};
use testkit::strategies::cases;

use super::{Tally, Wrong, done, groups, right};

/// What is trusted and shown, and which keys there are.
#[derive(Clone, Debug)]
struct Held {
    pods: Vec<BTreeSet<String>>,
    files: BTreeSet<String>,
    keys: BTreeSet<String>,
    shown: Option<String>,
    clients: Option<String>,
    /// What issued the certificate of a user, for which a revocation waits.
    user: Option<String>,
}

impl Held {
    fn of(trusts: &Trusts) -> Self {
        let set = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect();
        let files: BTreeSet<String> = set(trusts.files);
        let read = |generation: u64| match generation {
            0 => set(&[OLD_AUTHORITY]),
            // A pod that read a narrowed file later than it was told knows no more than that.
            1 if trusts.generation == 1 => files.clone(),
            1 => set(&[OLD_AUTHORITY, NEW_AUTHORITY]),
            _narrowed => set(&[NEW_AUTHORITY]),
        };
        let keys = match trusts.keys {
            Keys::First => set(&[OLD_AUTHORITY]),
            Keys::Both => set(&[OLD_AUTHORITY, NEW_AUTHORITY]),
            Keys::NextAlone | Keys::Next => set(&[NEW_AUTHORITY]),
            Keys::Gone => BTreeSet::new(),
        };
        let pods = trusts.pods.iter().flatten();
        // Where the Secret of the members is lost, what it said of the one before is.
        let soon = trusts.since < 600 && trusts.shown.is_some();
        let waited_for = trusts.user.filter(|_| soon);
        Self {
            pods: pods.map(|generation| read(*generation)).collect(),
            files,
            keys,
            shown: trusts.shown.map(str::to_owned),
            clients: trusts.clients.map(str::to_owned),
            user: waited_for.map(str::to_owned),
        }
    }

    /// Whatever is shown is trusted by every process, and by those that start next.
    fn holds(&self) -> bool {
        // Without the Secret nothing starts.
        let files = self.shown.as_ref().map(|_| &self.files);
        let mut all = self.pods.iter().chain(files);
        let shown = [&self.shown, &self.clients, &self.user];
        all.all(|trusts| shown.into_iter().flatten().all(|it| trusts.contains(it)))
    }

    /// What can be issued again.
    fn renewable(&self) -> usize {
        let shown = [&self.shown, &self.clients].into_iter().flatten();
        shown.filter(|it| self.keys.contains(*it)).count()
    }
}

/// How a cluster comes to such Secrets and pods.
fn can_be(trusts: &Trusts, held: &Held) -> bool {
    let knows = |authority: &str| held.pods.iter().all(|pod| pod.contains(authority));
    let widened = trusts.files.contains(&NEW_AUTHORITY);
    let consistent = widened == (trusts.generation > 0);
    let keys = match trusts.keys {
        Keys::First => !widened,
        Keys::Both | Keys::NextAlone => knows(OLD_AUTHORITY) && held.files.contains(OLD_AUTHORITY),
        Keys::Next => knows(NEW_AUTHORITY) && trusts.shown != Some(OLD_AUTHORITY),
        Keys::Gone => true,
    };
    let narrowed = !held.files.contains(OLD_AUTHORITY);
    let arrived = trusts.clients != Some(OLD_AUTHORITY) && knows(NEW_AUTHORITY);
    // Clients get theirs after the members.
    let order = trusts.clients != Some(NEW_AUTHORITY) || knows(NEW_AUTHORITY);
    consistent && keys && order && (!narrowed || arrived) && (trusts.generation < 2 || narrowed)
}

fn follow(held: &mut Held, step: &Step, ours: Option<&Record>) {
    let newest = ours.map(|it| it.authorities.clone());
    let previous = ours.and_then(|it| it.rotation.as_ref()?.previous.clone());
    match step {
        Step::IssueCertificates(issue) => {
            let issuer = match issue.by {
                _any if issue.authority => Some("c".to_owned()),
                Issuer::Newest => newest,
                Issuer::Previous => previous,
            };
            if issue.members && held.shown.is_none() {
                // It is written as a whole.
                let both = issue.by == Issuer::Previous;
                held.files = ours.iter().map(|it| it.authorities.clone()).collect();
                held.files
                    .extend(issuer.clone().filter(|_| both || issue.authority));
            }
            if issue.members {
                held.shown.clone_from(&issuer);
            }
            if issue.clients {
                held.clients = issuer;
            }
        }
        Step::RotateAuthority(Rotate::Begin) => {
            held.keys = newest.into_iter().chain(["c".to_owned()]).collect();
        }
        Step::RotateAuthority(Rotate::Widen) => held.files.extend(newest),
        Step::RotateAuthority(Rotate::Forget) => held.keys = newest.into_iter().collect(),
        Step::RotateAuthority(Rotate::Narrow { .. }) => held.files = newest.into_iter().collect(),
        _other => {}
    }
}

fn judge(trusts: &Trusts, wrong: Wrong, tally: &mut Tally) {
    let held = Held::of(trusts);
    if !held.holds() || !can_be(trusts, &held) {
        return;
    }
    let observed = trusts.observed();
    let step = done(&observed, wrong);
    let mut after = held.clone();
    follow(&mut after, &step, observed.certificates.authority.record());
    let lost = after.renewable() < held.renewable();
    tally.note(&step, after.holds() && !lost, || format!("{trusts:?}"));
}

const FILES: [(&[&str], u64); 4] = [
    (&[OLD_AUTHORITY], 0),
    (&[OLD_AUTHORITY, NEW_AUTHORITY], 1),
    (&[NEW_AUTHORITY], 1),
    (&[NEW_AUTHORITY], 2),
];
/// The annotation, and what was carried out of it.
const ASKED: [(Option<&str>, Option<&str>); 5] = [
    (None, None),
    (Some("1"), None),
    (Some("1"), Some("1")),
    (Some("revoke-1"), None),
    (Some("revoke-1"), Some("revoke-1")),
];

const ISSUERS: [Option<&str>; 3] = [None, Some(OLD_AUTHORITY), Some(NEW_AUTHORITY)];
/// A user that did not get another certificate yet, or none.
const USERS: [Option<&str>; 2] = [None, Some(OLD_AUTHORITY)];
const KEYS: [Keys; 5] = [
    Keys::First,
    Keys::Both,
    Keys::NextAlone,
    Keys::Next,
    Keys::Gone,
];

/// In seconds: before kubelets have brought what is shown, while a revocation waits for users, and after all that.
const SINCE: [i64; 3] = [60, 300, 9_000_000];

/// What the Secrets can hold, without the pods.
fn bases() -> Vec<Trusts> {
    let mut all = Vec::new();
    for (files, generation) in FILES {
        for (keys, since) in KEYS.into_iter().flat_map(|it| SINCE.map(|of| (it, of))) {
            for (shown, clients) in ISSUERS
                .into_iter()
                .flat_map(|it| ISSUERS.map(|of| (it, of)))
            {
                all.extend(ASKED.map(|(asked, done)| Trusts {
                    keys,
                    shown,
                    files,
                    generation,
                    since,
                    clients,
                    asked,
                    done,
                    revoked: keys != Keys::First && done.is_some_and(asks_to_revoke),
                    user: None,
                    pods: Vec::new(),
                }));
            }
        }
    }
    all
}

fn visit(wrong: Wrong) -> (usize, Tally) {
    let (mut visited, mut tally) = (0, Tally::default());
    for base in bases() {
        let pods: Vec<Option<u64>> = (0..=base.generation).map(Some).chain([None]).collect();
        for (group, user) in groups(&pods)
            .into_iter()
            .flat_map(|it| USERS.map(|of| (it.clone(), of)))
        {
            let trusts = Trusts {
                user,
                pods: group,
                ..base.clone()
            };
            visited += 1;
            judge(&trusts, wrong, &mut tally);
        }
    }
    (visited, tally)
}

#[test]
fn whatever_is_shown_every_member_trusts_it() {
    let (visited, tally) = visit(right);
    println!(
        "{visited} worlds of trust, {} of them possible, {} steps",
        tally.safe, tally.acted
    );
    assert_eq!(tally.first, None);
    assert!(tally.safe > 1_000 && tally.acted > 500, "{tally:?}");
}

fn newest(observed: &Observed) -> Option<&Record> {
    let ours = observed.certificates.authority.record()?;
    ours.rotation.as_ref().filter(|it| it.pending).map(|_| ours)
}

/// Certificates of the newest authority are shown before every member trusts it.
fn switches_at_once(observed: &Observed) -> Option<Step> {
    let shown = observed.certificates.members.record()?;
    let issue = Issue {
        members: true,
        ..Issue::default()
    };
    let other = shown.authorities != newest(observed)?.authorities;
    other.then_some(Step::IssueCertificates(issue))
}

/// The one before is dropped while it is shown.
fn narrows_at_once(observed: &Observed) -> Option<Step> {
    newest(observed)?;
    Some(Step::RotateAuthority(Rotate::Narrow { revoke: true }))
}

/// Its key goes while members show what it issued.
fn forgets_at_once(observed: &Observed) -> Option<Step> {
    newest(observed)?;
    Some(Step::RotateAuthority(Rotate::Forget))
}

#[test]
fn trust_that_comes_too_late_or_goes_too_early_is_found() {
    let wrong: [Wrong; 3] = [switches_at_once, narrows_at_once, forgets_at_once];
    for wrong in wrong {
        let (_, tally) = visit(wrong);
        assert!(tally.harmed > 20, "{tally:?}");
    }
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn nor_does_any_of_five_members_distrust_what_is_shown(
        (files, pods) in select(&FILES[..]).prop_flat_map(|files| {
            let pod = prop_oneof![1 => Just(None), 8 => (0..=files.1).prop_map(Some)];
            (Just(files), vec(pod, 4..=5))
        }),
        keys in select(&KEYS[..]),
        since in select(&SINCE[..]),
        (shown, clients) in (select(&ISSUERS[..]), select(&ISSUERS[..])),
        (asked, done) in select(&ASKED[..]),
        user in select(&ISSUERS[..]),
    ) {
        let mut tally = Tally::default();
        let trusts = Trusts {
            keys,
            shown,
            files: files.0,
            generation: files.1,
            since,
            clients,
            asked,
            done,
            revoked: keys != Keys::First && done.is_some_and(asks_to_revoke),
            user,
            pods,
        };
        judge(&trusts, right, &mut tally);
        prop_assert_eq!(tally.first, None);
    }
}
