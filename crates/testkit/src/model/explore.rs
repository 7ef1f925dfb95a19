//! The search: layer by layer as far as there is room, on every core, each world once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Decide, Kind, Move, State, Story};
use crate::world::observe::Blind;

const SHARDS: usize = 64;
/// Worlds of a layer that are kept at once. A larger layer is followed in parts, each to its end, or there would be no
/// room for all of it.
const AT_ONCE: usize = 4096;

impl State {
    /// A move in words.
    fn told(&self, what: Move, decide: Decide<'_>) -> String {
        let why = match what {
            Move::Operator | Move::Look | Move::Fault(Kind::Killed, _) => {
                let look = self.world.look_around(&Blind::default());
                decide(&look.observed).why.to_string()
            }
            Move::ActLate => self
                .late
                .as_ref()
                .map_or_else(String::new, |l| l.1.why.to_string()),
            _other => String::new(),
        };
        format!("{what:?} {why}")
    }
}

/// Worlds by number, each with the one before it and the move between.
struct Seen<T> {
    shards: Vec<Mutex<BTreeMap<u64, T>>>,
}

impl<T: Copy> Seen<T> {
    fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(BTreeMap::new())).collect();
        Self { shards }
    }

    fn with<R>(&self, code: u64, act: impl FnOnce(&mut BTreeMap<u64, T>) -> R) -> Option<R> {
        let shard = usize::try_from(code).unwrap_or(0) % SHARDS;
        let mut shard = self
            .shards
            .get(shard)?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Some(act(&mut shard))
    }

    fn insert(&self, code: u64, value: T) -> bool {
        let new = self.with(code, |shard| {
            let new = !shard.contains_key(&code);
            shard.entry(code).or_insert(value);
            new
        });
        new.unwrap_or(false)
    }

    fn get(&self, code: u64) -> Option<T> {
        self.with(code, |shard| shard.get(&code).copied()).flatten()
    }

    fn len(&self) -> usize {
        let lens = self.shards.iter().map(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.len()
        });
        lens.sum()
    }
}

/// What the search found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Worlds that were reached.
    pub states: usize,
    /// Moves that were tried.
    pub transitions: usize,
    /// Moves of the longest way from the start that was followed.
    pub depth: usize,
    /// Worlds on the ways to rest.
    pub settled: usize,
    /// How long it took.
    pub took: Duration,
    /// Nothing was left to try.
    pub complete: bool,
    /// What must never happen and did, with the moves that lead to it.
    pub broken: Option<Broken>,
}

/// What must never happen and did.
#[derive(Clone, Debug)]
pub struct Broken {
    /// What.
    pub why: String,
    /// The moves that lead to it, the operator's with its reasons.
    pub moves: Vec<String>,
}

struct Search<'a> {
    story: &'a Story,
    decide: Decide<'a>,
    seen: Seen<(u64, Option<Move>)>,
    good: Seen<()>,
    transitions: AtomicUsize,
    broken: Mutex<Option<(String, u64, Option<Move>)>>,
}

/// Tries everything that a story allows.
pub fn explore(story: &Story, decide: Decide<'_>) -> Found {
    let begun = Instant::now();
    let search = Search {
        story,
        decide,
        seen: Seen::new(),
        good: Seen::new(),
        transitions: AtomicUsize::new(0),
        broken: Mutex::new(None),
    };
    let start = State::start(story);
    search.seen.insert(start.code(), (0, None));
    let mut found = Found::default();
    search.judge(&start, 0, None);
    let mut rest = vec![(0, vec![start])];
    while search.seen.len() < story.most
        && !search.is_broken()
        && let Some((depth, layer)) = rest.pop()
    {
        found.depth = found.depth.max(depth);
        let mut next = search.next_layer(&layer);
        while !next.is_empty() {
            let part = next.split_off(next.len().saturating_sub(AT_ONCE));
            rest.push((depth + 1, part));
        }
    }
    found.complete = rest.is_empty() && !search.is_broken();
    found.states = search.seen.len();
    found.settled = search.good.len();
    found.transitions = search.transitions.load(Ordering::Relaxed);
    found.took = begun.elapsed();
    found.broken = search.tell();
    found
}

impl Search<'_> {
    fn is_broken(&self) -> bool {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.is_some()
    }

    fn next_layer(&self, layer: &[State]) -> Vec<State> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let turn = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let work = || {
                let mut next = Vec::new();
                while let Some(state) = layer.get(turn.fetch_add(1, Ordering::Relaxed))
                    && !self.is_broken()
                {
                    self.expand(state, &mut next);
                }
                next
            };
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let next = workers.into_iter().flat_map(|worker| {
                // What was not looked at must not pass for what was found good.
                let joined = worker.join();
                joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            next.collect()
        })
    }

    fn expand(&self, state: &State, next: &mut Vec<State>) {
        let from = state.code();
        for what in state.moves(self.story) {
            self.transitions.fetch_add(1, Ordering::Relaxed);
            match state.after(self.story, what, self.decide) {
                Err(why) => self.note(why, from, Some(what)),
                Ok(None) => {}
                Ok(Some(after)) => {
                    if self.seen.insert(after.code(), (from, Some(what))) {
                        self.judge(&after, from, Some(what));
                        next.push(after);
                    }
                }
            }
        }
    }

    /// From here, too, it must come to rest.
    fn judge(&self, state: &State, from: u64, what: Option<Move>) {
        let known = |code| self.good.get(code).is_some();
        match state.clone().settle(self.story, self.decide, &known) {
            Ok(way) => {
                for code in way {
                    self.good.insert(code, ());
                }
            }
            Err(why) => self.note(why, from, what),
        }
    }

    fn note(&self, why: String, from: u64, what: Option<Move>) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert((why, from, what));
    }

    /// The moves from the start to what went wrong.
    fn tell(&self) -> Option<Broken> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let (why, mut at, last) = broken.clone()?;
        let mut moves: Vec<Move> = last.into_iter().collect();
        while let Some((before, what)) = self.seen.get(at) {
            moves.extend(what);
            at = before;
        }
        moves.reverse();
        let mut state = State::start(self.story);
        let told = moves.into_iter().map(|what| {
            let told = state.told(what, self.decide);
            if let Ok(Some(after)) = state.after(self.story, what, self.decide) {
                state = after;
            }
            told
        });
        let moves = told.collect();
        Some(Broken { why, moves })
    }
}
