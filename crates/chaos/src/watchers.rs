//! Watchers of all keys. When a watch ends, is silent for too long or cannot be had, it is asked for again from the
//! revision after the last one seen, at another member.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use e2e::{MINUTE, until};

use crate::dice::Dice;
use crate::members::{Members, Place};
use crate::watching::{Event, Heard, Watched};
use crate::wire::{self, Connection, EventType, WatchResponse};

/// How many there are.
pub(crate) const WATCHERS: usize = 2;
/// Clients write all the time, so a watch that is silent for so long is cut off.
const SILENCE: Duration = Duration::from_secs(3);
/// How soon a watch that could not be had is asked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// A watcher, to be looked at while it is at work.
#[derive(Clone)]
pub(crate) struct Watcher {
    watched: Arc<Mutex<Watched>>,
}

impl Watcher {
    pub(crate) fn new(number: usize, from: i64) -> Self {
        let watched = Watched {
            name: format!("watcher {number}"),
            from,
            ..Watched::default()
        };
        Self {
            watched: Arc::new(Mutex::new(watched)),
        }
    }

    /// All that it has heard so far.
    pub(crate) fn watched(&self) -> Watched {
        self.lock().clone()
    }

    /// Waits until it received this revision; that it never did shows in what it received.
    pub(crate) async fn reaches(&self, revision: i64) {
        let what = format!("a watcher reaches revision {revision}");
        let reached = || async { Ok(self.lock().last() >= revision) };
        if let Err(error) = until(what, MINUTE, reached).await {
            e2e::tell(&format!("{error:#}"));
        }
    }

    /// Watches for ever.
    pub(crate) async fn work(self, members: Members, mut dice: Dice) {
        let mut next = self.lock().from;
        let mut place: Option<Place> = None;
        loop {
            place = members.pick(&mut dice, place.as_ref());
            if let Some(place) = &place {
                self.follow(place, &mut next).await;
            }
            self.lock().resumed += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Until the watch ends, for whatever reason.
    async fn follow(&self, place: &Place, next: &mut i64) {
        let Ok(connection) = Connection::open(place).await else {
            return;
        };
        let Ok(mut stream) = connection.watch(*next).await else {
            return;
        };
        while let Ok(Ok(Some(message))) = tokio::time::timeout(SILENCE, stream.message()).await {
            self.hear(&message, next);
            if message.canceled {
                return;
            }
        }
    }

    fn hear(&self, message: &WatchResponse, next: &mut i64) {
        let mut watched = self.lock();
        if message.compact_revision > *next {
            *next = message.compact_revision;
            watched.heard.push(Heard::Compacted(*next));
        }
        for event in &message.events {
            let Some(entry) = &event.kv else { continue };
            let Some(key) = wire::parse_key(&entry.key) else {
                continue;
            };
            let deleted = event.kind == i32::from(EventType::Delete);
            let value = wire::parse_value(&entry.value).filter(|_| !deleted);
            let revision = entry.mod_revision;
            *next = revision + 1;
            watched.heard.push(Heard::Event(Event {
                revision,
                key,
                value,
            }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
