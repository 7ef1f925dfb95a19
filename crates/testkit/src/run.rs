//! The operator in a world, and everything that can go wrong with it: killed at a write, blind,
//! looking at old pictures, two of it at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::Reason;
use plan::invariants::{self, Violation};
use plan::observed::{Process, Refusals, Watch};
use plan::why::Incomplete;
use plan::{Decision, Observed, Step};

use crate::rng::Rng;
use crate::world::observe::{Blind, Look};
use crate::world::refuse::{Ends, How, OBJECTS, STEPS};
use crate::world::{Kill, World};

/// Looks that are kept, for operators that look at old pictures.
const MEMORY: usize = 12;
/// So many looks in a row must find nothing to do.
const CALM: usize = 6;

/// A function that decides.
pub type Decide<'a> = &'a dyn Fn(&Observed) -> Decision;

/// An operator in a world.
pub struct Run<'a> {
    /// The world.
    pub world: World,
    /// Steps that the invariants refused.
    pub refused: Vec<(Violation, Step)>,
    /// Carry out what the invariants refuse all the same.
    pub unchecked: bool,
    /// What goes wrong at present.
    pub faults: Faults,
    /// How often each reason was given.
    pub reasons: BTreeMap<Reason, usize>,
    decide: Decide<'a>,
    watch: Watch,
    refusals: Refusals,
    past: VecDeque<Look>,
}

/// What goes wrong, each in percent of the looks or turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A pod does not answer.
    pub blind_pod: u64,
    /// The member list cannot be had.
    pub blind_list: u64,
    /// The picture is old.
    pub stale: u64,
    /// The picture is torn: Kubernetes as it was, etcd and the gates as they are.
    pub torn: u64,
    /// Only the pods are as they were: their watch is late.
    pub late: u64,
    /// A container ends.
    pub crash: u64,
    /// A pod is deleted.
    pub delete_pod: u64,
    /// The operator is away.
    pub absent: u64,
    /// Writes of an object are refused, put off or undone from now on, or that ends.
    pub refuse: u64,
}

impl Faults {
    /// Everything at once.
    pub const ALL: Self = Self {
        blind_pod: 15,
        blind_list: 15,
        stale: 25,
        torn: 20,
        late: 20,
        crash: 4,
        delete_pod: 2,
        absent: 20,
        refuse: 0,
    };

    /// The same, and an API server that does not take every write.
    pub const REFUSING: Self = Self {
        refuse: 5,
        ..Self::ALL
    };
}

impl<'a> Run<'a> {
    /// The operator as it is.
    pub fn new(world: World) -> Self {
        Self::with(world, &plan::decide)
    }

    /// An operator that decides otherwise.
    pub fn with(world: World, decide: Decide<'a>) -> Self {
        Self {
            world,
            refused: Vec::new(),
            unchecked: false,
            faults: Faults::default(),
            reasons: BTreeMap::new(),
            decide,
            watch: Watch::default(),
            refusals: Refusals::default(),
            past: VecDeque::new(),
        }
    }

    /// The world moves, then the operator looks, decides, acts and reports.
    pub fn turn(&mut self) -> Decision {
        self.world.tick();
        self.harm();
        let look = self.look();
        if self.world.rng.chance(self.faults.absent) {
            // The operator is away.
            let why = Incomplete::NoQuorum(Vec::new());
            return Decision::wait(why, plan::decision::SOON);
        }
        self.reconcile(&look)
    }

    /// So many turns.
    pub fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.turn();
        }
    }

    /// For a while the API server takes no writes of one object or another.
    fn refuse(&mut self) {
        let pick = |rng: &mut Rng, all: usize| {
            let below = rng.below(u64::try_from(all).unwrap_or(1));
            usize::try_from(below).unwrap_or(0)
        };
        let object = OBJECTS.get(pick(&mut self.world.rng, OBJECTS.len()));
        let how = How::ALL.get(pick(&mut self.world.rng, How::ALL.len()));
        let ends = self.world.rng.chance(50);
        if let Some(object) = object {
            self.world.refuse(object, how.copied().filter(|_| !ends));
        }
        let step = STEPS.get(pick(&mut self.world.rng, STEPS.len()));
        let ordinal = u32::try_from(self.world.rng.below(4)).ok();
        let step = step.map(|step| {
            (
                (*step, ordinal.filter(|ordinal| *ordinal < 3)),
                Ends::Rejected,
            )
        });
        if ends {
            self.world.rejects.clear();
        } else {
            self.world.rejects.extend(step);
        }
    }

    fn harm(&mut self) {
        // Without it nothing is left to chance, so that other stories go on as they did.
        if self.faults.refuse > 0 && self.world.rng.chance(self.faults.refuse) {
            self.refuse();
        }
        let ordinals: Vec<u32> = self.world.pods.keys().copied().collect();
        for ordinal in ordinals {
            if self.world.rng.chance(self.faults.crash) {
                self.world.crash(ordinal);
            }
            if self.world.rng.chance(self.faults.delete_pod) {
                self.world.delete_pod(ordinal);
            }
        }
    }

    /// Looks, with whatever goes wrong at present.
    pub fn look(&mut self) -> Look {
        let faults = self.faults;
        let pods: Vec<u32> = self.world.pods.keys().copied().collect();
        let pods: BTreeSet<u32> = pods
            .into_iter()
            .filter(|_| self.world.rng.chance(faults.blind_pod))
            .collect();
        let list = self.world.rng.chance(faults.blind_list);
        let mut look = self.world.look_around(&Blind { pods, list });
        let vitals = self.world.vitals(&look.observed);
        self.watch.note(&mut look.observed, &vitals);
        self.refusals.sort(&mut look.observed, look.wishes.clone());
        self.past.push_front(look.clone());
        self.past.truncate(MEMORY);
        let back = self
            .world
            .rng
            .below(u64::try_from(self.past.len()).unwrap_or(1));
        let old = usize::try_from(back)
            .ok()
            .and_then(|back| self.past.get(back).cloned());
        let old = old.unwrap_or_else(|| look.clone());
        if self.world.rng.chance(faults.stale) {
            old
        } else if self.world.rng.chance(faults.torn) {
            torn(old, &look)
        } else if self.world.rng.chance(faults.late) {
            let mut late = look.clone();
            late.observed.pods = torn(old, &look).observed.pods;
            late
        } else {
            look
        }
    }

    /// One reconcile on a look.
    pub fn reconcile(&mut self, look: &Look) -> Decision {
        let decision = (self.decide)(&look.observed);
        *self.reasons.entry(decision.reason()).or_default() += 1;
        if let Some(forbidden) = &decision.forbidden {
            let (violation, step) = (&forbidden.violation, &forbidden.step);
            self.refused.push((violation.clone(), step.clone()));
        }
        if let Err(violation) = invariants::check(&look.observed, &decision.step) {
            self.refused.push((violation, decision.step.clone()));
            if !self.unchecked {
                return decision;
            }
        }
        let held = look.observed.held_back(&decision.step);
        // An operator that is killed forgets everything and starts again at the next turn.
        let applied = match held {
            Some(known) => Ok(known.outcome()),
            None => self.world.apply(look, &decision),
        };
        if let (Ok(outcome), None) = (&applied, held) {
            self.refusals.note_step(&look.observed, &decision, outcome);
        }
        let reported = applied.map(|outcome| self.world.report(look, &decision, &outcome));
        if reported != Ok(Ok(())) {
            self.past.clear();
            self.watch = Watch::default();
            self.refusals = Refusals::default();
        }
        decision
    }

    /// Goes on without faults until nothing is left to do; how many turns it took.
    pub fn settle(&mut self, bound: usize) -> Result<usize, String> {
        let end = |decision: &Decision| {
            decision.step == Step::Nothing
                && matches!(decision.reason(), Reason::AsExpected | Reason::Stopped)
        };
        let turns = self.settle_as(bound, &end)?;
        let garbage = self.world.garbage();
        if garbage.is_empty() {
            Ok(turns)
        } else {
            Err(format!("claims that no member uses are left: {garbage:?}"))
        }
    }

    /// Goes on without faults until a decision of this kind stands.
    pub fn settle_as(
        &mut self,
        bound: usize,
        end: &dyn Fn(&Decision) -> bool,
    ) -> Result<usize, String> {
        if self.faults.refuse > 0 {
            self.world.refuses.clear();
            self.world.rejects.clear();
        }
        self.faults = Faults::default();
        let (mut calm, mut last) = (0, None);
        for turn in 0..bound {
            let writes = self.world.writes;
            let decision = self.turn();
            // Time passes more quickly where there is nothing to do.
            if decision.step == Step::Wait {
                self.world.sleep(1);
            }
            let still = end(&decision) && (self.world.writes == writes || calm == 0);
            calm = if still { calm + 1 } else { 0 };
            if calm > CALM {
                self.world.check_writes();
                return self.verdict().map(|()| turn);
            }
            last = Some(decision);
        }
        Err(format!(
            "not settled after {bound} turns: {last:?}\nviolations {:?}, refused {:?}\n{:?}\n{:?}",
            self.world.violations, self.refused, self.world.pods, self.world.clusters
        ))
    }

    /// Nothing happened that must never happen.
    pub fn verdict(&self) -> Result<(), String> {
        if self.world.violations.is_empty() && self.refused.is_empty() {
            return Ok(());
        }
        Err(format!(
            "violations {:?}, refused {:?}",
            self.world.violations, self.refused
        ))
    }
}

/// What a real operator sees: objects from caches that may be late, then the processes in the pods it knows
/// of, then the member list.
fn torn(mut old: Look, new: &Look) -> Look {
    for (ordinal, pod) in &mut old.observed.pods {
        let same = new
            .observed
            .pods
            .get(ordinal)
            .filter(|now| now.uid == pod.uid);
        pod.process = same.map_or(Process::Unknown, |now| now.process.clone());
    }
    old.observed.now = new.observed.now;
    old.observed.etcd = new.observed.etcd.clone();
    old
}

/// Plays a story to its end once for every write at which the operator can be killed, with and without
/// that write; how many times it was played.
pub fn killed_at_every_write(
    world: &World,
    play: &dyn Fn(&mut Run<'_>) -> Result<usize, String>,
) -> Result<u64, String> {
    let mut played = 0;
    for performed in [false, true] {
        for at in 1.. {
            let mut run = Run::new(world.clone());
            run.world.kill = Some(Kill { at, performed });
            play(&mut run).map_err(|why| format!("killed at write {at} ({performed}): {why}"))?;
            played += 1;
            if run.world.writes < at {
                break;
            }
        }
    }
    Ok(played)
}
