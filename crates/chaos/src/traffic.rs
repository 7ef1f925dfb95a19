//! All that is at work during a run: clients, watchers, and the tasks that look up addresses and follow the status.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use api::v1alpha1::status::EtcdClusterStatus;
use e2e::Cluster;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clients::{CLIENTS, Client, Journal};
use crate::dice::Dice;
use crate::history::Operation;
use crate::members::Members;
use crate::timeline::Timeline;
use crate::watchers::{WATCHERS, Watcher};
use crate::wire::Connection;

/// How often the status is looked at.
const STATUS: Duration = Duration::from_millis(300);
/// Dice of the watchers, apart from those of the clients.
const WATCHER_DICE: u64 = 1000;

/// Clients and watchers at work. It ends with this value.
pub(crate) struct Traffic {
    pub(crate) members: Members,
    pub(crate) watchers: Vec<Watcher>,
    journal: Journal,
    stop: watch::Sender<bool>,
    clients: JoinSet<()>,
    _others: JoinSet<()>,
}

impl Traffic {
    /// Begins.
    pub(crate) async fn start(
        seed: u64,
        cluster: &Cluster,
        timeline: &Timeline,
        journal: &Journal,
    ) -> Result<Self> {
        let members = Members::default();
        members.look(cluster).await;
        let place = members.all().into_iter().next().context("no member")?;
        let connection = Connection::open(&place).await;
        let connection = connection.ok().context("no connection")?;
        let from = connection.revision().await.ok().context("no revision")? + 1;
        let mut others = JoinSet::new();
        others.spawn(members.clone().keep_current(cluster.clone()));
        others.spawn(follow_status(cluster.clone(), timeline.clone()));
        let watchers: Vec<Watcher> = (0..WATCHERS).map(|n| Watcher::new(n, from)).collect();
        for (number, watcher) in (WATCHER_DICE..).zip(&watchers) {
            let dice = Dice::apart(seed, number);
            others.spawn(watcher.clone().work(members.clone(), dice));
        }
        let (stop, stopped) = watch::channel(false);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let clock = timeline.clock();
            let dice = Dice::apart(seed, u64::try_from(number)?);
            let client = Client::new(number, dice, clock, members.clone());
            clients.spawn(client.work(Arc::clone(journal), stopped.clone()));
        }
        Ok(Self {
            members,
            watchers,
            journal: Arc::clone(journal),
            stop,
            clients,
            _others: others,
        })
    }

    /// The clients end what they are at. Returns the highest revision that any of them was told to have written.
    pub(crate) async fn stop(&mut self) -> Result<i64> {
        self.stop.send(true)?;
        while let Some(ended) = self.clients.join_next().await {
            ended.context("a client panicked")?;
        }
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let last = journal.iter().filter_map(Operation::acknowledged).max();
        last.context("no client could write")
    }
}

/// Notes every change of what users see.
async fn follow_status(cluster: Cluster, timeline: Timeline) {
    let mut ticks = tokio::time::interval(STATUS);
    let mut last = String::new();
    loop {
        ticks.tick().await;
        let now = match cluster.status().await {
            Ok(status) => describe(&status),
            Err(error) => format!("cannot be read: {error:#}"),
        };
        if now != last {
            timeline.note("status", &now);
            last = now;
        }
    }
}

fn describe(status: &EtcdClusterStatus) -> String {
    let conditions = status.conditions.iter().map(|condition| {
        format!(
            "{}={} {}",
            condition.type_, condition.status, condition.reason
        )
    });
    let members = status.members.iter().map(|member| {
        let ready = if member.ready { "" } else { " not ready" };
        let role = member
            .role
            .map(|role| format!("{role:?}"))
            .unwrap_or_default();
        format!("{} {role}{ready}", member.name)
    });
    let (conditions, members): (Vec<String>, Vec<String>) =
        (conditions.collect(), members.collect());
    let phase = status.phase.map(|phase| format!("{phase:?}"));
    let (phase, conditions) = (phase.unwrap_or_default(), conditions.join(", "));
    format!("{phase}; {conditions}; {}", members.join(", "))
}
