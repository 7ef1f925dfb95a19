//! The figures, what they are held against, and their tables.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bench::table::{Table, Times, verdict};

/// Everything that is timed, in the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    PodStart,
    PodRestart,
    PodEnd,
    PlainStop,
    PlainStart,
    GrowIdle,
    Grow,
    Shrink,
    Restart,
    Stop,
    Start,
}

impl Figure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PodStart => "one bare pod starts",
            Self::PodRestart => "one bare pod is deleted, until the next one answers",
            Self::PodEnd => "… of which the old pod ends",
            Self::PlainStop => "a plain StatefulSet of three, 3 → 0",
            Self::PlainStart => "a plain StatefulSet of three with its data, 0 → 3",
            Self::GrowIdle => "1 → 3, nothing written yet",
            Self::Grow => "1 → 3",
            Self::Shrink => "3 → 1",
            Self::Restart => "rolling restart of three",
            Self::Stop => "stop, 3 → 0",
            Self::Start => "start, 0 → 3",
        }
    }
}

/// All that was measured.
#[derive(Default)]
pub(super) struct Measured {
    seconds: BTreeMap<Figure, Vec<f64>>,
    /// Longest time without a write, in milliseconds.
    gaps: BTreeMap<Figure, Vec<f64>>,
    /// How long pods were seen on their way out.
    ending: BTreeMap<Figure, Vec<f64>>,
}

impl Measured {
    pub(super) fn add(&mut self, figure: Figure, seconds: f64) {
        eprintln!("  {}: {seconds:.1} s", figure.name());
        self.seconds.entry(figure).or_default().push(seconds);
    }

    pub(super) fn add_gap(&mut self, figure: Figure, gap: Duration) {
        eprintln!("    longest write gap {} ms", gap.as_millis());
        let gaps = self.gaps.entry(figure).or_default();
        gaps.push(gap.as_secs_f64() * 1000.0);
    }

    pub(super) fn add_ending(&mut self, figure: Figure, seconds: f64) {
        self.ending.entry(figure).or_default().push(seconds);
    }

    /// The worst one.
    fn gap(&self, figure: Figure) -> String {
        let gaps = self.gaps.get(&figure).into_iter().flatten().copied();
        let worst = gaps.max_by(f64::total_cmp);
        worst.map_or_else(nothing, |gap| format!("{gap:.0} ms"))
    }

    /// The worst one.
    fn ending(&self, figure: Figure) -> String {
        let times = self.ending.get(&figure).into_iter().flatten().copied();
        let worst = times.max_by(f64::total_cmp);
        worst.map_or_else(nothing, |seconds| format!("{seconds:.1} s"))
    }

    fn times(&self, figure: Figure) -> Times {
        Times::new(self.seconds.get(&figure).cloned().unwrap_or_default())
    }

    fn median(&self, figure: Figure) -> f64 {
        self.times(figure).median()
    }
}

/// The two tables, with their titles.
pub(super) fn print(measured: &Measured, version: &str, rounds: u8) {
    let mut floors = Table::new(&["floor", "seconds"]);
    for figure in [
        Figure::PodStart,
        Figure::PodRestart,
        Figure::PodEnd,
        Figure::PlainStop,
        Figure::PlainStart,
    ] {
        let name = figure.name().to_owned();
        floors.row(vec![name, measured.times(figure).cell()]);
    }
    floors.print(&format!(
        "Floors, etcd {version}, seconds (median, least) of {rounds}"
    ));
    changes(version, measured).print(&format!(
        "Changes, etcd {version}, seconds (median, least) of {rounds}"
    ));
}

fn changes(version: &str, measured: &Measured) -> Table {
    let mut table = Table::new(&[
        "change",
        "seconds",
        "pods on their way out",
        "longest write gap",
        "aim",
        "verdict",
    ]);
    let (pod, restart) = (Figure::PodStart, Figure::PodRestart);
    // Below 3.6 only one learner may catch up at a time, and the next waits for five seconds of health.
    let grow = if is_old(version) { 8.0 } else { 3.0 };
    let growth = (
        format!("≤ pod start + {grow:.0} s"),
        measured.median(pod) + grow,
    );
    let rows = [
        (Figure::GrowIdle, growth.clone()),
        (Figure::Grow, growth),
        (Figure::Shrink, ("≤ 5 s".to_owned(), 5.0)),
        (
            Figure::Restart,
            (
                "≤ 3 × (pod restart + 2 s)".to_owned(),
                3.0 * (measured.median(restart) + 2.0),
            ),
        ),
        (
            Figure::Stop,
            (
                "≤ plain stop + 2 s".to_owned(),
                measured.median(Figure::PlainStop) + 2.0,
            ),
        ),
        (
            Figure::Start,
            (
                "≤ 1.3 × plain start".to_owned(),
                1.3 * measured.median(Figure::PlainStart),
            ),
        ),
    ];
    for (figure, (words, aim)) in rows {
        table.row(row(measured, figure, &words, aim));
    }
    table
}

fn row(measured: &Measured, figure: Figure, words: &str, aim: f64) -> Vec<String> {
    let name = figure.name().to_owned();
    if !measured.seconds.contains_key(&figure) {
        let missing = "not available".to_owned();
        return vec![name, missing, nothing(), nothing(), nothing(), nothing()];
    }
    let seconds = measured.median(figure);
    vec![
        name,
        measured.times(figure).cell(),
        measured.ending(figure),
        measured.gap(figure),
        format!("{words} = {aim:.1}"),
        verdict(seconds, aim),
    ]
}

fn nothing() -> String {
    "–".to_owned()
}

fn is_old(version: &str) -> bool {
    version.starts_with("3.4.") || version.starts_with("3.5.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_judged_by_the_floors_of_the_same_run() {
        let mut measured = Measured::default();
        measured.seconds.insert(Figure::PodStart, vec![2.0]);
        measured.seconds.insert(Figure::Grow, vec![6.0]);
        measured.gaps.insert(Figure::Grow, vec![40.0, 80.0]);
        let row = |aim| row(&measured, Figure::Grow, "≤ pod start + 3 s", aim).join(" | ");
        assert_eq!(
            row(5.0),
            "1 → 3 | 6.0 (6.0) | – | 80 ms | ≤ pod start + 3 s = 5.0 | missed by 20 %"
        );
        assert!(row(10.0).ends_with("met"));
    }

    #[test]
    fn what_was_not_measured_is_not_available() {
        let row = row(&Measured::default(), Figure::Restart, "", 1.0);
        assert_eq!(row.get(1).map(String::as_str), Some("not available"));
    }
}
