//! One run: a cluster of its own, clients and watchers at work, round after round of edits and faults, and the checks at
//! the end. Each round begins with a healthy cluster; one that does not become healthy again ends the run.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use e2e::{Cluster, MINUTE, Operator, Stage, comes_true, lock, until};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::agreement::{self, Agreed, Found};
use crate::clients::Journal;
use crate::faults::{Faults, kill_operator};
use crate::history::Anomaly;
use crate::members::Members;
use crate::nodes::Tool;
use crate::report::Record;
use crate::schedule::{Edit, Fault, FaultKind, Lasting, Reach, Round, SIZES, Schedule, Second};
use crate::timeline::{Clock, Timeline};
use crate::traffic::Traffic;
use crate::{fill, health};

/// How long the cluster may take to be healthy again after a round.
const HEAL: Duration = Duration::from_mins(3);

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    /// Release of etcd, such as `v3.6.16`.
    pub(crate) version: String,
    pub(crate) tool: Option<Tool>,
    pub(crate) lasting: Lasting,
    pub(crate) without: Vec<FaultKind>,
    /// Without TLS and authentication.
    pub(crate) plaintext: bool,
}

impl Plan {
    pub(crate) fn schedule(&self) -> Schedule {
        let reach = match self.tool {
            Some(_) => Reach::Nodes,
            None => Reach::Api,
        };
        let mut schedule = Schedule::new(self.seed, reach, self.lasting, &self.without);
        schedule.locked = !self.plaintext;
        schedule
    }
}

/// Runs; whatever was taken away is given back, and the namespace goes, however it ends.
pub(crate) async fn run(plan: &Plan) -> Result<Record> {
    let stage = Stage::set(&format!("chaos with seed {}", plan.seed)).await?;
    let cluster = stage.cluster("c");
    let timeline = Timeline::new(Clock::start());
    let mut faults = Faults::new(&cluster, plan.tool.clone(), &timeline);
    let mut record = Record::new(plan, &timeline);
    let journal = Journal::default();
    let played = tokio::select! {
        played = play(plan, &cluster, &mut faults, &journal, &mut record) => played,
        interrupted = interrupted() => interrupted,
    };
    for error in faults.give_back().await {
        timeline.note(
            "FAILED",
            &format!("something was not given back: {error:#}"),
        );
    }
    if let Err(error) = played {
        let title = format!("the run ended early: {error:#}");
        record.anomaly(Anomaly::new(title, &[]));
    }
    record
        .operations
        .clone_from(&journal.lock().unwrap_or_else(PoisonError::into_inner));
    record.judge();
    if !record.anomalies.is_empty() {
        record.account = stage.account().await;
    }
    stage.strike().await?;
    Ok(record)
}

/// Until the run is interrupted.
async fn interrupted<T>() -> Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _told = terminate.recv() => {}
    }
    bail!("interrupted")
}

async fn play(
    plan: &Plan,
    cluster: &Cluster,
    faults: &mut Faults,
    journal: &Journal,
    record: &mut Record,
) -> Result<()> {
    ensure_operator(cluster).await?;
    let timeline = record.timeline.clone();
    let [size, _larger] = SIZES;
    let mut spec = json!({"size": size, "version": plan.version, "storage": {"size": "1Gi"},
        "etcd": {"quotaBackendBytes": fill::QUOTA}});
    if plan.plaintext {
        cluster.stage.create_as_written(&cluster.name, spec).await?;
        cluster.ready_within(HEAL).await?;
    } else {
        lock::ask(&mut spec);
        cluster.stage.create_as_written(&cluster.name, spec).await?;
        lock::let_clients_in(cluster).await?;
        lock::is_locked_within(cluster, HEAL).await?;
    }
    let namespace = &cluster.stage.namespace;
    timeline.note("run", &format!("{} is ready in {namespace}", cluster.name));
    let mut traffic = Traffic::start(plan.seed, cluster, &timeline, journal).await?;
    let healthy = rounds(plan, cluster, faults, record).await;
    let last = traffic.stop().await?;
    for watcher in &traffic.watchers {
        watcher.reaches(last).await;
        record.watched.push(watcher.watched());
    }
    // One that is known to be unwell has been waited for, and cannot agree.
    if let Some(size) = healthy {
        // Before the wait for a true status, in which a member that differs might be replaced.
        record.note_agreement(agree(&traffic.members, cluster).await);
        conclude(plan, cluster, size, record).await;
    }
    Ok(())
}

async fn ensure_operator(cluster: &Cluster) -> Result<()> {
    let operator = Operator::disturb(&cluster.stage.client).await?;
    let pods = operator.pods().await?;
    ensure!(
        !pods.is_empty(),
        "no operator runs\nhint: `cargo xtask deploy`"
    );
    Ok(())
}

/// Plays rounds until the time is over, and returns the size that was asked for last; none if the cluster did not heal.
async fn rounds(
    plan: &Plan,
    cluster: &Cluster,
    faults: &mut Faults,
    record: &mut Record,
) -> Option<u32> {
    let begin = Instant::now();
    let [mut size, _larger] = SIZES;
    for (number, round) in (1..).zip(plan.schedule()) {
        if begin.elapsed() >= plan.time {
            break;
        }
        record.timeline.note("round", &format!("{number}: {round}"));
        play_round(number, round, faults, record).await;
        if let Some(Edit::Resize(wanted)) = round.edit {
            size = wanted;
        }
        let what = format!("round {number} ({round}) is over and the cluster healthy");
        let healthy = || async { health::check(cluster, size).await.map(|()| true) };
        match until(what, HEAL, healthy).await {
            Ok(took) => record.healed(round, took),
            Err(error) => {
                record.anomaly(Anomaly::new(format!("{error:#}"), &[]));
                return None;
            }
        }
        tokio::time::sleep(round.rest).await;
    }
    Some(size)
}

async fn play_round(number: usize, round: Round, faults: &mut Faults, record: &mut Record) {
    if let Some(edit) = round.edit {
        match faults.edit(edit, number).await {
            Ok(()) => record.edited(edit),
            Err(error) => record.skipped(&format!("{edit}: {error:#}")),
        }
        tokio::time::sleep(round.lag).await;
    }
    let Some(fault) = round.fault else { return };
    match round.second {
        None => note(record, fault, faults.inflict(fault).await),
        // The operator goes while the first fault lasts, or while it repairs.
        Some(Second {
            after,
            fault: second @ Fault::KillOperator,
        }) => {
            let cluster = faults.cluster().clone();
            let killed = async {
                tokio::time::sleep(after).await;
                kill_operator(&cluster).await
            };
            let (hit, killed) = tokio::join!(faults.inflict(fault), killed);
            note(record, fault, hit);
            note(record, second, killed);
        }
        Some(Second {
            after,
            fault: second,
        }) => {
            note(record, fault, faults.inflict(fault).await);
            tokio::time::sleep(after).await;
            note(record, second, faults.inflict(second).await);
        }
    }
}

fn note(record: &mut Record, fault: Fault, hit: Result<String>) {
    match hit {
        Ok(hit) => record.inflicted(fault, &hit),
        Err(error) => record.skipped(&format!("{fault}: {error:#}")),
    }
}

/// The cluster is left alone, and its status must be true.
async fn conclude(plan: &Plan, cluster: &Cluster, size: u32, record: &mut Record) {
    let version = plan.version.trim_start_matches('v');
    if let Err(error) = comes_true(cluster, size, version).await {
        record.anomaly(Anomaly::new(
            format!("the status is not true: {error:#}"),
            &[],
        ));
    }
}

/// Members that cannot be asked are asked again; what they answered stands.
async fn agree(members: &Members, cluster: &Cluster) -> Result<Agreed> {
    let found = Mutex::new(None);
    until("all members tell what data they hold", MINUTE, || async {
        members.look(cluster).await;
        let answer = agreement::check(members).await?;
        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        Ok(true)
    })
    .await?;
    match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Found::Same(agreed)) => Ok(agreed),
        Some(Found::Different(how)) => bail!(how),
        None => bail!("no member was asked"),
    }
}
