//! The figures of healing, what they are held against, and their table.

use std::collections::BTreeMap;

use super::{PATIENCE, Row};
use crate::bench::table::{Table, Times, verdict};
use crate::live::Written;

/// All that was measured.
#[derive(Default)]
pub(super) struct Measured {
    pod: Vec<f64>,
    seconds: BTreeMap<Row, Vec<f64>>,
    /// Longest time without a write, in seconds.
    gaps: BTreeMap<Row, f64>,
    lost: BTreeMap<Row, usize>,
}

impl Row {
    fn name(self) -> &'static str {
        match self {
            Self::Volume => "a volume is lost",
            Self::Node => "a node is out of service",
            Self::SilentNode => "a node falls silent, from Kubernetes' report on",
            Self::DeadNode => "… from its power cut on",
            Self::SpaceWrites => "a database of 100 MiB is at its quota, until a write is taken",
            Self::SpaceVoters => "… until three healthy voters without an alarm",
            Self::QuorumAsked => "two of three volumes are lost, until the condition asks",
            Self::QuorumWrite => "… from the word to the first write",
            Self::QuorumVoters => "… from the word to three healthy voters",
        }
    }

    /// In words and in seconds; those without one are parts of another figure.
    fn aim(self, pod: f64) -> Option<(String, f64)> {
        let fixed = |seconds: f64| Some((format!("≤ {seconds:.0} s"), seconds));
        match self {
            Self::Volume => Some(("≤ pod start + 3 s".to_owned(), pod + 3.0)),
            Self::Node | Self::QuorumWrite => fixed(15.0),
            Self::SilentNode => {
                let patience = f64::from(PATIENCE);
                Some((format!("≤ {patience:.0} s + 15 s"), patience + 15.0))
            }
            Self::SpaceWrites => fixed(20.0),
            Self::QuorumVoters => fixed(30.0),
            Self::DeadNode | Self::SpaceVoters | Self::QuorumAsked => None,
        }
    }

    /// Only what no survivor had may be lost.
    fn may_lose(self) -> bool {
        matches!(self, Self::QuorumVoters)
    }
}

impl Measured {
    pub(super) fn add_pod(&mut self, seconds: f64) {
        eprintln!("  one bare pod starts: {seconds:.1} s");
        self.pod.push(seconds);
    }

    pub(super) fn add(&mut self, row: Row, seconds: f64) {
        eprintln!("  {}: {seconds:.1} s", row.name());
        self.seconds.entry(row).or_default().push(seconds);
    }

    pub(super) fn add_written(&mut self, row: Row, written: &Written) {
        let (gap, lost) = (written.gap.as_secs_f64(), written.lost.len());
        eprintln!(
            "    {} writes acknowledged, {lost} of them lost, longest gap {gap:.2} s",
            written.acknowledged
        );
        let worst = self.gaps.entry(row).or_default();
        *worst = worst.max(gap);
        *self.lost.entry(row).or_default() += lost;
    }

    /// Losses that nothing excuses.
    pub(super) fn losses(&self) -> usize {
        let lost = self.lost.iter().filter(|(row, _)| !row.may_lose());
        lost.map(|(_, lost)| lost).sum()
    }

    pub(super) fn print(&self, version: &str, rounds: u8) {
        let pod = Times::new(self.pod.clone());
        let mut table = Table::new(&[
            "fault",
            "seconds",
            "× pod start",
            "aim",
            "verdict",
            "longest write gap",
            "acknowledged writes lost",
        ]);
        for row in self.seconds.keys() {
            table.row(self.cells(*row, pod.median()));
        }
        println!(
            "One bare pod starts in {} s (median, least) in the same run.\n",
            pod.cell()
        );
        table.print(&format!(
            "Healing, etcd {version}, seconds (median, least) of {rounds}"
        ));
    }

    fn cells(&self, row: Row, pod: f64) -> Vec<String> {
        let nothing = || "–".to_owned();
        let times = Times::new(self.seconds.get(&row).cloned().unwrap_or_default());
        let aim = row.aim(pod);
        let (words, judged) = aim.map_or_else(
            || (nothing(), nothing()),
            |(words, aim)| (format!("{words} = {aim:.1}"), verdict(times.median(), aim)),
        );
        let gap = self.gaps.get(&row);
        let lost = self.lost.get(&row);
        vec![
            row.name().to_owned(),
            times.cell(),
            format!("{:.1}", times.median() / pod),
            words,
            judged,
            gap.map_or_else(nothing, |gap| format!("{gap:.2} s")),
            lost.map_or_else(nothing, usize::to_string),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn written(lost: &[&str]) -> Written {
        Written {
            attempts: 1,
            acknowledged: 1,
            gap: Duration::from_millis(70),
            lost: lost.iter().map(|key| (*key).to_owned()).collect(),
            times: Vec::new(),
        }
    }

    #[test]
    fn healing_is_judged_by_the_pod_of_the_same_run() {
        let mut measured = Measured::default();
        measured.add(Row::Volume, 6.0);
        measured.add_written(Row::Volume, &written(&[]));
        let row = |pod| measured.cells(Row::Volume, pod).join(" | ");
        assert_eq!(
            row(2.0),
            "a volume is lost | 6.0 (6.0) | 3.0 | ≤ pod start + 3 s = 5.0 | missed by 20 % | 0.07 s | 0"
        );
        assert!(row(3.0).contains("= 6.0 | met"));
    }

    #[test]
    fn only_a_lost_quorum_excuses_lost_writes() {
        let mut measured = Measured::default();
        measured.add_written(Row::QuorumVoters, &written(&["a"]));
        assert_eq!(measured.losses(), 0);
        measured.add_written(Row::Volume, &written(&["a", "b"]));
        assert_eq!(measured.losses(), 2);
    }
}
