//! What a run found: gathered while it goes on, judged at its end, and told in a few lines or in a file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::agreement::Agreed;
use crate::clients::KEYS;
use crate::history::{Anomaly, Moment, Operation, Outcome, seconds};
use crate::run::Plan;
use crate::schedule::{Edit, Fault, Round};
use crate::timeline::{Timeline, longest_gap};
use crate::watching::Watched;
use crate::{linear, order, watching};

/// With fewer acknowledged writes in a second there is too little to judge.
const LEAST_WRITES: u64 = 5;
/// How many anomalies of a history are listed one by one: a store that was wiped makes thousands.
const TOLD: usize = 20;
/// What is shown around an anomaly, on either side and at most.
const AROUND: (Moment, usize) = (300_000, 60);

/// All that is known of a run.
pub(crate) struct Record {
    plan: Plan,
    pub(crate) timeline: Timeline,
    pub(crate) operations: Vec<Operation>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) anomalies: Vec<Anomaly>,
    /// What the cluster looked like after a run that failed.
    pub(crate) account: String,
    faults: BTreeMap<&'static str, usize>,
    edits: usize,
    skipped: usize,
    played: usize,
    slowest: Option<(Duration, Round)>,
    agreed: Option<Agreed>,
}

impl Record {
    pub(crate) fn new(plan: &Plan, timeline: &Timeline) -> Self {
        Self {
            plan: plan.clone(),
            timeline: timeline.clone(),
            operations: Vec::new(),
            watched: Vec::new(),
            anomalies: Vec::new(),
            account: String::new(),
            faults: BTreeMap::new(),
            edits: 0,
            skipped: 0,
            played: 0,
            slowest: None,
            agreed: None,
        }
    }

    pub(crate) fn inflicted(&mut self, fault: Fault, hit: &str) {
        *self.faults.entry(fault.kind()).or_default() += 1;
        self.timeline
            .note("fault", &format!("{fault}: done, {hit}"));
    }

    pub(crate) fn edited(&mut self, edit: Edit) {
        self.edits += 1;
        self.timeline.note("edit", &edit.to_string());
    }

    pub(crate) fn skipped(&mut self, what: &str) {
        self.skipped += 1;
        self.timeline.note("skipped", what);
    }

    pub(crate) fn healed(&mut self, round: Round, took: Duration) {
        self.played += 1;
        let text = format!("healthy after {:.1} s", took.as_secs_f32());
        self.timeline.note("round", &text);
        if self.slowest.is_none_or(|(slowest, _)| slowest < took) {
            self.slowest = Some((took, round));
        }
    }

    pub(crate) fn anomaly(&mut self, anomaly: Anomaly) {
        self.timeline.note("ANOMALY", &anomaly.title);
        self.anomalies.push(anomaly);
    }

    pub(crate) fn note_agreement(&mut self, agreed: Result<Agreed>) {
        match agreed {
            Ok(agreed) => self.agreed = Some(agreed),
            Err(error) => self.anomaly(Anomaly::new(format!("{error:#}"), &[])),
        }
    }

    /// Everything that the clients and watchers saw.
    pub(crate) fn judge(&mut self) {
        let mut found = Vec::new();
        for key in 0..KEYS {
            let of_key: Vec<&Operation> = self.operations.iter().filter(|o| o.key == key).collect();
            let judged = linear::check(&of_key);
            found.extend(judged.err().map(|anomaly| Anomaly {
                title: format!("k{key}: {}", anomaly.title),
                ..anomaly
            }));
        }
        found.extend(order::check(&self.operations).err());
        for watched in &self.watched {
            found.extend(watching::check(watched, &self.operations));
            for other in self
                .watched
                .iter()
                .filter(|other| other.name != watched.name)
            {
                found.extend(watching::compare(watched, other));
            }
        }
        found.extend(self.too_little());
        let more = found.len().saturating_sub(TOLD);
        for anomaly in found.into_iter().take(TOLD) {
            self.anomaly(anomaly);
        }
        if more > 0 {
            self.anomaly(Anomaly::new(format!("and {more} more of the kind"), &[]));
        }
    }

    /// A run in which nothing happened proves nothing.
    fn too_little(&self) -> Option<Anomaly> {
        let writes = self
            .operations
            .iter()
            .filter(|o| o.acknowledged().is_some());
        let (writes, least) = (writes.count(), self.plan.time.as_secs() * LEAST_WRITES);
        let few = u64::try_from(writes).unwrap_or(u64::MAX) < least;
        let idle = self.faults.is_empty();
        let title = match (few, idle) {
            (true, _) => {
                format!("only {writes} writes were acknowledged, {least} at least are needed")
            }
            (_, true) => "no fault could be carried out".to_owned(),
            (false, false) => return None,
        };
        Some(Anomaly::new(title, &[]))
    }

    /// A few lines for the terminal.
    pub(crate) fn summary(&self) -> String {
        let verdict = if self.anomalies.is_empty() {
            "passed"
        } else {
            "FAILED"
        };
        let (gap, began) = longest_gap(&self.operations);
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|(k, n)| format!("{k} {n}"))
            .collect();
        let watched: Vec<String> = self.watched.iter().map(describe).collect();
        let agreed = self.agreed.map_or_else(
            || "HashKV was not compared".to_owned(),
            |Agreed { members, revision }| {
                format!("HashKV equal on {members} members at revision {revision}")
            },
        );
        let slowest = self.slowest.map_or_else(String::new, |(took, round)| {
            format!("; slowest to heal {:.1} s ({round})", took.as_secs_f32())
        });
        let lines = [
            format!(
                "chaos with seed {} on etcd {}: {verdict}",
                self.plan.seed, self.plan.version
            ),
            self.counts(),
            format!(
                "rounds {}, edits {}, skipped {}; faults: {}",
                self.played,
                self.edits,
                self.skipped,
                faults.join(", ")
            ),
            format!(
                "longest write gap {} s, from {} s on{slowest}",
                seconds(gap),
                seconds(began)
            ),
            watched.join("; "),
            agreed,
            format!("anomalies {}", self.anomalies.len()),
        ];
        lines.join("\n")
    }

    fn counts(&self) -> String {
        let count = |is: fn(&Operation) -> bool| self.operations.iter().filter(|o| is(o)).count();
        format!(
            "operations {}: {} writes acknowledged, {} of unknown outcome ({} of them writes), {} refused",
            self.operations.len(),
            count(|operation| operation.acknowledged().is_some()),
            count(|operation| matches!(operation.outcome, Outcome::Unknown(_))),
            count(Operation::is_unknown_write),
            count(|operation| matches!(operation.outcome, Outcome::Refused(_))),
        )
    }

    /// Writes all of it into a file below `directory`.
    pub(crate) fn write(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join(format!("seed-{}.txt", self.plan.seed));
        let written =
            std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, self.text()));
        written.with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.summary());
        for anomaly in &self.anomalies {
            text += &self.explain(anomaly);
        }
        text += "Schedule\n\n";
        for (number, round) in (1..=self.played + 1).zip(self.plan.schedule()) {
            line(&mut text, &format!("{number:>4}. {round}"));
        }
        line(&mut text, "\nTimeline, in seconds\n");
        text += &self.timeline.render(&self.operations);
        if !self.account.is_empty() {
            line(
                &mut text,
                &format!("\nWhat the cluster looked like\n\n{}", self.account),
            );
        }
        text
    }

    /// The operations that show it, and what else was going on with their key.
    fn explain(&self, anomaly: &Anomaly) -> String {
        let mut text = format!("ANOMALY: {}\n", anomaly.title);
        for operation in &anomaly.operations {
            line(&mut text, &format!("  ! {operation}"));
        }
        let last = anomaly
            .operations
            .iter()
            .max_by_key(|operation| operation.start);
        if let Some(last) = last {
            line(&mut text, "  around the last of them:");
            let (side, most) = AROUND;
            let near = |o: &&Operation| {
                o.key == last.key && o.end + side > last.start && o.start < last.end + side
            };
            let mut near: Vec<&Operation> = self.operations.iter().filter(near).collect();
            near.sort_by_key(|operation| operation.start);
            for operation in near.into_iter().take(most) {
                line(&mut text, &format!("    {operation}"));
            }
        }
        line(&mut text, "");
        text
    }
}

fn describe(watched: &Watched) -> String {
    let compacted: Vec<String> = watched
        .compacted()
        .iter()
        .map(|(from, until)| format!(", {from} to {until} were compacted"))
        .collect();
    format!(
        "{} heard {} events up to revision {} and was resumed {} times{}",
        watched.name,
        watched.heard.len() - compacted.len(),
        watched.last(),
        watched.resumed,
        compacted.concat()
    )
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    writeln!(text, "{line}").unwrap_or_default();
}
