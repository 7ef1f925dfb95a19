//! Schemes: no step leaves a member that the others do not hear, whichever pods are recreated.

use std::collections::BTreeSet;

use api::Plane;
use api::names::Scheme;
use manifests::Template;
use plan::observed::MemberList;
use plan::shape::decide_shape;
use plan::{Observed, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use testkit::scene::Trial;
use testkit::scene::schemes::{Schemes, Seat};
use testkit::strategies::cases;

use super::{Tally, Wrong, done, groups, right};

const RUNGS: [Plane; 3] = [Plane::Plain, Plane::Both, Plane::Tls];

/// What a member that is on a rung needs of the one that it connects to.
fn reaches(from: Plane, to: Plane, seat: Seat) -> bool {
    match to.scheme() {
        Scheme::Http => seat.http,
        // It has certificates.
        Scheme::Https => seat.https && from != Plane::Plain,
    }
}

/// Every member hears every other, whichever of their pods are recreated: from the template of the StatefulSet, or from the
/// proven one, with which a StatefulSet that vanished comes back.
fn hear_each_other(seats: &[Seat], held: Plane, proven: Plane) -> bool {
    let rungs = |seat: &Seat| [seat.pod.unwrap_or(held), held, proven];
    let pairs = (0..seats.len()).flat_map(|from| (0..seats.len()).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).all(|(from, to)| {
        let (from, to) = (&seats[from], &seats[to]);
        let all = |one| rungs(to).into_iter().all(|other| reaches(one, other, *to));
        rungs(from).into_iter().all(all)
    })
}

/// The rung that comes next: only the way back is open at any time.
fn next(schemes: &Schemes) -> Plane {
    let (asked, proven) = (schemes.asked, schemes.proven);
    let switched = asked.is_plain() != proven.is_plain();
    if switched && !schemes.consent {
        return proven;
    }
    let next = proven.towards(asked);
    let open = schemes.everywhere || schemes.before == Some(next);
    if open { next } else { proven }
}

/// The rung that a template puts into the StatefulSet.
fn held_by(template: Template, held: Plane, schemes: &Schemes, observed: &Observed) -> Plane {
    match template {
        Template::Try => observed.transport().peer,
        Template::Live => held,
        Template::Kept => schemes.proven,
        Template::Render => observed.runs().peer,
    }
}

fn judge(schemes: &Schemes, wrong: Wrong, tally: &mut Tally) {
    let (next, proven) = (next(schemes), schemes.proven);
    let held = match schemes.trial {
        Some(Trial::Written | Trial::Remade) => next,
        Some(Trial::Chosen | Trial::Restored) | None => proven,
    };
    if !hear_each_other(&schemes.seats, held, proven) {
        return;
    }
    let observed = schemes.observed();
    assert_eq!(observed.transport().peer, next, "{schemes:?}");
    let step = done(&observed, wrong);
    let mut seats = schemes.seats.clone();
    let mut after = held;
    match &step {
        Step::UpdatePeer {
            ordinal, peer_urls, ..
        } => {
            let seat = &mut seats[usize::try_from(*ordinal).unwrap()];
            let lists = |scheme: &str| peer_urls.iter().any(|url| url.starts_with(scheme));
            (seat.http, seat.https) = (lists("http://"), lists("https://"));
        }
        Step::ApplyObjects(shape) | Step::RestoreTemplate(shape) => {
            after = held_by(shape.template, held, schemes, &observed);
        }
        _other => {}
    }
    // Whatever else is written first, the StatefulSet gets this as soon as it differs.
    let shape = decide_shape(&observed).unwrap();
    let soon = held_by(shape.template, held, schemes, &observed);
    let holds =
        hear_each_other(&seats, after, proven) && hear_each_other(&schemes.seats, soon, proven);
    tally.note(&step, holds, || format!("{schemes:?}"));
}

/// Every seat that is on one of these rungs.
fn seats(rungs: &BTreeSet<Plane>) -> Vec<Seat> {
    let pods = rungs.iter().map(|rung| (Some(*rung), true));
    let pods = pods.chain([(None, false)]);
    let pods: Vec<_> = pods
        .chain(rungs.first().map(|it| (Some(*it), false)))
        .collect();
    let mut all = Vec::new();
    for (http, https) in [(true, false), (true, true), (false, true)] {
        all.extend(pods.iter().map(|(pod, serves)| Seat {
            pod: *pod,
            serves: *serves,
            http,
            https,
        }));
    }
    all
}

/// The rungs that are proven, with the one before while some members are there.
const PROVEN: [(Plane, Option<Plane>); 7] = [
    (Plane::Plain, None),
    (Plane::Both, None),
    (Plane::Tls, None),
    (Plane::Plain, Some(Plane::Both)),
    (Plane::Both, Some(Plane::Plain)),
    (Plane::Both, Some(Plane::Tls)),
    (Plane::Tls, Some(Plane::Both)),
];
const TRIALS: [Option<Trial>; 5] = [
    None,
    Some(Trial::Chosen),
    Some(Trial::Written),
    Some(Trial::Remade),
    Some(Trial::Restored),
];

/// Whether the certificates are there, and whether the claims record the rung.
const FACTS: [(bool, bool); 3] = [(true, true), (false, true), (true, false)];

/// How far the cluster can be, without its members.
fn bases() -> Vec<Schemes> {
    let mut all = Vec::new();
    for (proven, before) in PROVEN {
        for (asked, consent) in RUNGS.into_iter().flat_map(|it| [(it, true), (it, false)]) {
            for (certified, recorded) in FACTS {
                let base = Schemes {
                    proven,
                    everywhere: before.is_none(),
                    before,
                    asked,
                    consent,
                    trial: None,
                    certified,
                    recorded,
                    list: true,
                    seats: Vec::new(),
                };
                let trials = TRIALS.into_iter();
                let trials = trials.take(if next(&base) == proven { 1 } else { 5 });
                all.extend(trials.map(|trial| Schemes {
                    trial,
                    ..base.clone()
                }));
            }
        }
    }
    all
}

fn visit(wrong: Wrong) -> (usize, Tally) {
    let (mut visited, mut tally) = (0, Tally::default());
    for base in bases() {
        let rungs = [Some(base.proven), base.before, Some(next(&base))];
        let seats = seats(&rungs.into_iter().flatten().collect());
        for group in groups(&seats) {
            let up = group.iter().filter(|seat| seat.serves).count();
            let schemes = Schemes {
                list: up * 2 > group.len(),
                seats: group,
                ..base.clone()
            };
            visited += 1;
            judge(&schemes, wrong, &mut tally);
        }
    }
    (visited, tally)
}

#[test]
fn under_every_scheme_all_members_still_hear_each_other() {
    let (visited, tally) = visit(right);
    println!(
        "{visited} worlds of schemes, {} of them safe, {} steps",
        tally.safe, tally.acted
    );
    assert_eq!(tally.first, None);
    assert!(tally.safe > 20_000 && tally.acted > 5_000, "{tally:?}");
}

/// Each member is listed as it will listen, as soon as that is known.
fn lists_the_goal_only(observed: &Observed) -> Option<Step> {
    let to = observed.transport().peer.scheme();
    let voters = observed.etcd.members.iter().flat_map(MemberList::voters);
    voters.into_iter().find_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        let goal = api::names::peer_url(to, "db", "ns", ordinal);
        (voter.peer_urls != [goal.clone()]).then(|| Step::UpdatePeer {
            id: voter.id,
            ordinal,
            peer_urls: vec![goal],
        })
    })
}

/// The next rung is tried at once.
fn tries_unlisted(observed: &Observed) -> Option<Step> {
    let switching = observed.transport() != observed.runs();
    switching.then(|| {
        let mut shape = decide_shape(observed).unwrap();
        shape.template = Template::Try;
        Step::ApplyObjects(shape)
    })
}

#[test]
fn schemes_under_which_members_would_not_hear_each_other_are_found() {
    let wrong: [Wrong; 2] = [lists_the_goal_only, tries_unlisted];
    for wrong in wrong {
        let (_, tally) = visit(wrong);
        assert!(tally.harmed > 100, "{tally:?}");
    }
}

/// Five members, on rungs that may meet, nearly all of them listed for both.
fn large() -> impl Strategy<Value = Schemes> {
    let facts = (select(&PROVEN[..]), select(&RUNGS[..]), select(&TRIALS[..]));
    let facts = (facts, any::<bool>(), select(&FACTS[..]));
    facts.prop_flat_map(|((proven, asked, trial), consent, (certified, recorded))| {
        let (proven, before) = proven;
        let rungs: BTreeSet<Plane> = [Some(proven), before, Some(proven.towards(asked))]
            .into_iter()
            .flatten()
            .collect();
        let all = seats(&rungs);
        let both: Vec<Seat> = all
            .iter()
            .copied()
            .filter(|it| it.http && it.https)
            .collect();
        let seat = prop_oneof![6 => select(both), 1 => select(all)];
        vec(seat, 4..=5).prop_map(move |seats| Schemes {
            proven,
            everywhere: before.is_none(),
            before,
            asked,
            consent,
            trial,
            certified,
            recorded,
            list: seats.iter().filter(|seat| seat.serves).count() * 2 > seats.len(),
            seats,
        })
    })
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn nor_is_any_of_five_members_left_unheard(schemes in large()) {
        let mut tally = Tally::default();
        judge(&schemes, right, &mut tally);
        prop_assert_eq!(tally.first, None);
    }
}
