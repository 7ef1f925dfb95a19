//! The alerts before promtool itself: each is raised by what it is for, not before its time, and left quiet by what looks
//! alike. Then each is broken in several ways, and its own cases must notice every one. `PROMTOOL` names the program; without it
//! nothing is run, and the tests of the crate read the table only.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests, which say when they are skipped"
)]

mod cases;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};
use signals::alerts::{Alert, GROUPS};

use self::cases::{Case, Series};

/// Minutes around the moment at which an alert is due. Rates are estimates until their window is full.
const MARGIN: u32 = 3;

fn promtool() -> Option<PathBuf> {
    let path = std::env::var_os("PROMTOOL").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: PROMTOOL is not set; `cargo xtask test --stage etcd` sets it");
    }
    path
}

fn alerts() -> impl Iterator<Item = &'static Alert> {
    GROUPS.into_iter().flat_map(|group| group.alerts)
}

fn alert_of(case: &Case) -> &'static Alert {
    let mut levels =
        alerts().filter(|it| it.name == case.alert && it.level.word() == case.severity);
    levels.nth(case.nth).unwrap()
}

/// As Prometheus reads it. Its own sentences are checked apart: here they would have to be written twice.
fn rule(alert: &Alert, expr: &str, lasts: &str) -> Value {
    json!({
        "alert": alert.name, "for": lasts,
        "expr": expr.replace(signals::CLUSTER, "cluster"),
        "labels": {"severity": alert.level.word()},
    })
}

fn minutes(lasts: &str) -> u32 {
    let (number, unit) = lasts.split_at(lasts.len() - 1);
    number.parse::<u32>().unwrap() * if unit == "h" { 60 } else { 1 }
}

fn input(series: &[Series]) -> Value {
    let series = series
        .iter()
        .map(|(series, values)| json!({"series": series, "values": values}));
    series.collect()
}

/// Which of its cases an alert is held against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// All of them.
    All,
    /// The first that raises it: enough for when it is raised.
    First,
}

/// What is expected of one alert, in promtool's words.
fn tests(case: &Case, held: Held) -> Vec<Value> {
    let alert = alert_of(case);
    let mut labels: Map<String, Value> = serde_json::from_str(case.labels).unwrap();
    labels.insert("severity".into(), json!(case.severity));
    let raised = json!([{"exp_labels": labels}]);
    let due = case.from + minutes(alert.lasts);
    let margin = MARGIN.max(case.step);
    let at = |minute: u32, raised: &Value| json!({"alertname": case.alert, "eval_time": format!("{minute}m"), "exp_alerts": raised});
    let test = |series: &[Series], expected: Vec<Value>| json!({"interval": format!("{}m", case.step), "input_series": input(series), "alert_rule_test": expected});
    let mut all = Vec::new();
    for series in case.bad {
        let mut expected = vec![at(due + margin, &raised)];
        // Where no rate is estimated, one step before.
        let early = if case.from == 0 { case.step } else { margin };
        if due >= early {
            expected.push(at(due - early, &json!([])));
        }
        all.push(test(series, expected));
        if held == Held::First {
            return all;
        }
    }
    for series in case.good {
        let quiet = [due + margin, due + 20 * case.step];
        all.push(test(
            series,
            quiet.map(|minute| at(minute, &json!([]))).to_vec(),
        ));
    }
    all
}

/// Writes a rule and the cases of its alert; the name of the file with the cases.
fn write(directory: &Path, name: &str, (case, held): (&Case, Held), rule: &Value) -> PathBuf {
    let rules = format!("{name}.rules.yaml");
    let group = json!({"groups": [{"name": name, "rules": [rule]}]});
    std::fs::write(directory.join(&rules), group.to_string()).unwrap();
    let file = json!({
        "rule_files": [rules], "evaluation_interval": format!("{}m", case.step), "tests": tests(case, held),
    });
    let path = directory.join(format!("{name}.test.yaml"));
    std::fs::write(&path, file.to_string()).unwrap();
    path
}

/// Runs all of them at once; the names of those that did not pass, with what was said.
fn run(promtool: &Path, directory: &Path, files: &[PathBuf]) -> (Vec<String>, String) {
    let report = directory.join("report.xml");
    let mut command = Command::new(promtool);
    let command = command.args(["test", "rules", "--junit"]).arg(&report);
    let output = command.args(files).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let report = std::fs::read_to_string(report).unwrap_or_default();
    let suites: Vec<&str> = report.split("<testsuite ").skip(1).collect();
    assert_eq!(suites.len(), files.len(), "{said}");
    let value = |suite: &str, key: &str| {
        let (_, rest) = suite.split_once(&format!("{key}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let mut failed = Vec::new();
    for suite in suites {
        if value(suite, "failures") != "0" || value(suite, "errors") != "0" {
            let path = value(suite, "name");
            failed.push(path.rsplit('/').next().unwrap().replace(".test.yaml", ""));
        }
    }
    (failed, said)
}

fn name(case: &Case) -> String {
    format!("{}-{}-{}", case.alert, case.severity, case.nth)
}

#[test]
fn each_alert_is_raised_by_what_it_is_for_and_by_nothing_else() {
    // Whether or not there is a promtool, no alert goes without a case.
    for alert in alerts() {
        let cases = cases::all().filter(|case| std::ptr::eq(alert_of(case), alert));
        assert_eq!(cases.count(), 1, "{} {}", alert.name, alert.level.word());
    }
    let Some(promtool) = promtool() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |case| {
        let alert = alert_of(case);
        write(
            directory.path(),
            &name(case),
            (case, Held::All),
            &rule(alert, alert.expr, alert.lasts),
        )
    };
    let files: Vec<_> = cases::all().map(file).collect();
    let (failed, said) = run(&promtool, directory.path(), &files);
    assert!(failed.is_empty(), "{failed:?}\n{said}");
}

/// The expression with its last comparison turned round.
fn turned(expr: &str) -> String {
    let signs = [
        (" == ", " != "),
        (" >= ", " < "),
        (" > ", " <= "),
        (" < ", " >= "),
    ];
    let found = signs
        .iter()
        .filter_map(|sign| Some((expr.rfind(sign.0)?, sign)));
    let (at, (sign, other)) = found.max_by_key(|(at, _)| *at).unwrap();
    let (before, after) = expr.split_at(at);
    let (_, after) = after.split_at(sign.len());
    format!("{before}{other}{after}")
}

#[test]
fn every_alert_that_is_broken_is_noticed() {
    let Some(promtool) = promtool() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for case in cases::all() {
        let alert = alert_of(case);
        let mut broken = vec![
            ("turned", turned(alert.expr), alert.lasts, Held::All),
            ("late", alert.expr.to_owned(), "30d", Held::First),
        ];
        if alert.lasts != "0m" {
            broken.push(("early", alert.expr.to_owned(), "0m", Held::First));
        }
        for (how, expr, lasts, held) in broken {
            let name = format!("{}-{how}", name(case));
            let rule = rule(alert, &expr, lasts);
            files.push(write(directory.path(), &name, (case, held), &rule));
        }
    }
    let (failed, _) = run(&promtool, directory.path(), &files);
    let missed: Vec<_> = files
        .iter()
        .filter_map(|file| file.file_name()?.to_str()?.strip_suffix(".test.yaml"))
        .filter(|name| !failed.iter().any(|failed| failed == name))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The whole of it, sentences and templates included, and every question of the dashboards.
#[test]
fn the_generated_rules_and_queries_can_be_read() {
    let Some(promtool) = promtool() else { return };
    let directory = tempfile::tempdir().unwrap();
    let groups: Vec<Value> = GROUPS.iter().map(signals::rules::group).collect();
    let whole = json!({"groups": groups}).to_string();
    let whole = signals::rules::filled(&whole, "etcd_cluster", "https://docs/alerts", "ns");
    assert!(!whole.contains("@cluster") && whole.contains("by (namespace, etcd_cluster)"));
    let mut text = String::new();
    for (number, query) in signals::dashboards::queries().iter().enumerate() {
        let query = query
            .replace("$__rate_interval", "5m")
            .replace("$__range", "1d");
        let record = json!({"record": format!("panel:{number}"), "expr": query.replace(signals::CLUSTER, "cluster")});
        write!(text, "{}{record}", if number == 0 { "" } else { "," }).unwrap();
    }
    let panels = format!("{{\"groups\":[{{\"name\":\"panels\",\"rules\":[{text}]}}]}}");
    for (name, content) in [("rules.yaml", whole), ("panels.yaml", panels)] {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        let mut check = Command::new(&promtool);
        let output = check
            .args(["check", "rules", "--lint=none"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{name}: {said}");
    }
}
