//! Clients that read and write a handful of keys without rest, and record every call. Each stays with a member for
//! a while and then moves on, so that one which is cut off or behind is asked, too.
//!
//! What must not happen here: a call that is not recorded, or a second try under the same record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::dice::Dice;
use crate::history::{Action, Content, Key, Operation, Outcome, Value};
use crate::members::{Members, Place};
use crate::timeline::Clock;
use crate::wire::{Connection, Failure};

/// How many there are.
pub(crate) const CLIENTS: usize = 5;
/// How many keys they share.
pub(crate) const KEYS: usize = 5;
/// The least time between two calls of one client.
const PERIOD: Duration = Duration::from_millis(20);
/// After how many calls a client moves to another member, although this one answers.
const STAY: u64 = 40;
/// Values of one client, which no other writes.
const VALUES: Value = 1_000_000_000;

/// Where calls are recorded.
pub(crate) type Journal = Arc<Mutex<Vec<Operation>>>;

/// One client.
pub(crate) struct Client {
    number: usize,
    dice: Dice,
    clock: Clock,
    members: Members,
    place: Option<Place>,
    connection: Option<Connection>,
    /// What it found or wrote last, per key: what a swap starts from.
    known: BTreeMap<Key, Option<Value>>,
    calls: u64,
}

impl Client {
    pub(crate) fn new(number: usize, dice: Dice, clock: Clock, members: Members) -> Self {
        Self {
            number,
            dice,
            clock,
            members,
            place: None,
            connection: None,
            known: BTreeMap::new(),
            calls: 0,
        }
    }

    /// Works until it is told to stop. A call that is under way then is still awaited.
    pub(crate) async fn work(mut self, journal: Journal, stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !*stop.borrow() {
            ticks.tick().await;
            let key = self.dice.index(KEYS);
            let action = self.choose(key);
            if let Some(operation) = self.call(key, action).await {
                let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
                journal.push(operation);
            }
        }
    }

    fn choose(&mut self, key: Key) -> Action {
        self.calls += 1;
        let number = u64::try_from(self.number).unwrap_or_default() + 1;
        let value = number * VALUES + self.calls;
        match self.dice.below(100) {
            0..40 => Action::Get,
            40..65 => Action::Put(value),
            65..90 => Action::Swap {
                from: self.known.get(&key).copied().flatten(),
                to: value,
            },
            _rest => Action::Delete,
        }
    }

    /// Nothing if there is no member to ask.
    async fn call(&mut self, key: Key, action: Action) -> Option<Operation> {
        let place = self.place()?;
        let start = self.clock.now();
        let answer = match self.connect(&place).await {
            Ok(connection) => connection.act(key, action).await,
            Err(failure) => Err(failure),
        };
        let end = self.clock.now();
        let outcome = match answer {
            Ok(answer) => {
                let after = action.written().filter(|_| answer.wrote);
                let holds = after.map_or(answer.before.value, |Content(value)| value);
                self.known.insert(key, holds);
                Outcome::Done(answer)
            }
            Err(failure) => {
                self.connection = None;
                match failure {
                    Failure::Refused(why) => Outcome::Refused(why),
                    Failure::Unknown(why) => Outcome::Unknown(why),
                }
            }
        };
        Some(Operation {
            client: self.number,
            key,
            action,
            start,
            end,
            outcome,
            member: place.pod,
        })
    }

    /// The member to ask: the same as before, unless it is gone, and now and then another.
    fn place(&mut self) -> Option<Place> {
        let moves = self.calls.is_multiple_of(STAY);
        let stays = |place: &Place| !moves && self.connection.is_some() && self.members.has(place);
        if let Some(place) = self.place.clone().filter(stays) {
            return Some(place);
        }
        let former = self.place.take();
        self.connection = None;
        self.place = self.members.pick(&mut self.dice, former.as_ref());
        self.place.clone()
    }

    async fn connect(&mut self, place: &Place) -> Result<Connection, Failure> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let connection = Connection::open(place).await?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }
}
