//! What TLS and authentication cost: each figure beside the same without them, in one run and by turns, so that the load of
//! the machine meets both.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::table::{Table, Times, verdict};
use super::{footprint, idle};
use crate::cluster::{CONTROL_PLANE_ETCD, Target};
use crate::live::{Watch, Written, text};

/// Of two, where one is to be at most so much more.
const RATIO: f64 = 1.2;
const GAP_RATIO: f64 = 1.5;
/// New connections of the operator in a minute in which nothing happens.
const HANDSHAKES: f64 = 0.0;
/// No gap may be longer, in milliseconds.
const LONGEST_GAP: f64 = 1000.0;
const THREE: usize = 3;
/// How long writes are timed.
const TIMED: Duration = Duration::from_secs(20);

/// Everything that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Figure {
    Create,
    CreateLocked,
    Grow,
    GrowLocked,
    Restart,
    Rotate,
    SwitchOn,
    SwitchOff,
    Rest,
    Renewal,
}

/// Seconds or milliseconds by figure, and how often each member was restarted.
#[derive(Default)]
struct Measured {
    all: BTreeMap<Figure, Vec<f64>>,
    restarts: BTreeMap<Figure, BTreeSet<usize>>,
}

impl Measured {
    fn add(&mut self, figure: Figure, value: f64) {
        eprintln!("  {figure:?}: {value:.1}");
        self.all.entry(figure).or_default().push(value);
    }

    fn times(&self, figure: Figure) -> Times {
        Times::new(self.all.get(&figure).cloned().unwrap_or_default())
    }

    fn worst(&self, figure: Figure) -> f64 {
        let all = self.all.get(&figure).into_iter().flatten().copied();
        all.max_by(f64::total_cmp).unwrap_or(f64::NAN)
    }
}

/// Measures and prints.
pub(super) fn measure(target: &Target, version: &str, rounds: u8, clusters: u8) -> Result<()> {
    let mut measured = Measured::default();
    for round in 1..=rounds {
        eprintln!("etcd {version}, round {round} of {rounds}");
        for locked in [round % 2 == 0, round % 2 != 0] {
            begin(target, (version, locked), &mut measured)?;
        }
        change(target, version, &mut measured)?;
        switch(target, version, &mut measured)?;
    }
    print(&measured, rounds);
    if clusters > 0 {
        at_rest(target, clusters)?.print("The operator with idle clusters, TLS against plaintext");
    }
    Ok(())
}

fn security(locked: bool) -> Value {
    if locked {
        json!({"security": {"tls": {}, "auth": {"enabled": true}}})
    } else {
        json!({})
    }
}

/// The published certificate is that of a user who may do everything.
fn let_clients_in(place: &Place<'_>) -> Result<()> {
    let user = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdUser", "metadata": {"name": "client"},
        "spec": {"clusterName": "c", "roles": ["root"], "certificate": true}});
    place.post("/apis/etcd.etcd.io/v1alpha1", "etcdusers", &user)
}

/// Three members at once, and three from one.
fn begin(target: &Target, (version, locked): (&str, bool), measured: &mut Measured) -> Result<()> {
    let figures = if locked {
        [Figure::CreateLocked, Figure::GrowLocked]
    } else {
        [Figure::Create, Figure::Grow]
    };
    for (figure, size) in figures.into_iter().zip([3, 1]) {
        let mut place = Place::new(target, "lock")?;
        let mut objects = place.watch("etcdclusters")?;
        let_clients_in(&place)?;
        let started = Instant::now();
        place.create_cluster_with("c", size, version, &security(locked))?;
        if size == 3 {
            measured.add(figure, place.voters(THREE, started)?);
        } else {
            place.settle(&mut objects)?;
            let started = Instant::now();
            place.kubectl(&["scale", "etcdclusters.etcd.etcd.io", "c", "--replicas=3"])?;
            measured.add(figure, place.voters(THREE, started)?);
        }
        place.empty()?;
    }
    Ok(())
}

/// A restart, another authority and a renewal, of a cluster with TLS and authentication, while a client writes.
fn change(target: &Target, version: &str, measured: &mut Measured) -> Result<()> {
    let mut place = Place::new(target, "change")?;
    let mut objects = place.watch("etcdclusters")?;
    let_clients_in(&place)?;
    place.create_cluster_with("c", 3, version, &security(true))?;
    place.settle(&mut objects)?;
    for (figure, annotation) in [
        (Figure::Restart, "etcd.etcd.io/restartedAt=1"),
        (Figure::Rotate, "etcd.etcd.io/rotate-ca=1"),
    ] {
        let words = ["annotate", "etcdclusters.etcd.etcd.io", "c", annotation];
        let (written, restarts) = rolled_out(&mut place, &mut objects, &words, |_| true)?;
        measured.add(figure, milliseconds(written.gap));
        measured
            .restarts
            .entry(figure)
            .or_default()
            .insert(restarts);
    }
    for figure in [Figure::Rest, Figure::Renewal] {
        let before = uids(&place.pods);
        let writer = place.writer()?;
        if figure == Figure::Renewal {
            let patch = r#"{"spec":{"security":{"tls":{"extraNames":["renewed.example.com"]}}}}"#;
            place.kubectl(&[
                "patch",
                "etcdclusters.etcd.etcd.io",
                "c",
                "--type=merge",
                "--patch",
                patch,
            ])?;
        }
        std::thread::sleep(TIMED);
        let written = writer.stop()?;
        measured.add(figure, milliseconds(written.slowest_of_a_hundred()));
        place.settle(&mut objects)?;
        ensure!(uids(&place.pods) == before, "a renewal restarted a member");
    }
    place.empty()
}

/// From plaintext to TLS and back, while a client writes.
fn switch(target: &Target, version: &str, measured: &mut Measured) -> Result<()> {
    let mut place = Place::new(target, "switch")?;
    let mut objects = place.watch("etcdclusters")?;
    place.create_cluster("c", 3, version)?;
    place.settle(&mut objects)?;
    for (figure, patch, tls) in [
        (
            Figure::SwitchOn,
            r#"{"spec":{"security":{"tls":{"liveSwitch":true}}}}"#,
            true,
        ),
        (
            Figure::SwitchOff,
            r#"{"spec":{"security":{"tls":{"enabled":false}}}}"#,
            false,
        ),
    ] {
        let words = [
            "patch",
            "etcdclusters.etcd.etcd.io",
            "c",
            "--type=merge",
            "--patch",
            patch,
        ];
        let arrived = |pod: &Value| {
            let annotations = pod.pointer("/metadata/annotations");
            let transport = annotations.and_then(|all| all.get("etcd.etcd.io/transport"));
            let transport = transport.and_then(Value::as_str);
            transport == tls.then_some("client=Tls,peer=Tls")
        };
        let (written, restarts) = rolled_out(&mut place, &mut objects, &words, arrived)?;
        measured.add(figure, milliseconds(written.gap));
        measured
            .restarts
            .entry(figure)
            .or_default()
            .insert(restarts);
    }
    place.empty()
}

/// Asks for a change that restarts every member, and waits until it is done; how often each was restarted.
fn rolled_out(
    place: &mut Place<'_>,
    objects: &mut Watch,
    words: &[&str],
    arrived: impl Fn(&Value) -> bool,
) -> Result<(Written, usize)> {
    let before = uids(&place.pods);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let writer = place.writer()?;
    let started = Instant::now();
    place.kubectl(words)?;
    place.until("every pod is another one", started, |place| {
        let pods = uids(&place.pods);
        seen.extend(pods.iter().cloned());
        let all = pods.len() == THREE && pods.is_disjoint(&before);
        all && place.pods.objects.values().all(&arrived)
    })?;
    place.voters(THREE, started)?;
    place.settle(objects)?;
    let restarts = seen.difference(&before).count() / THREE;
    Ok((writer.stop()?, restarts))
}

fn uids(pods: &Watch) -> BTreeSet<String> {
    let pods = pods.objects.values();
    let uids = pods.filter_map(|pod| text(pod, "/metadata/uid"));
    uids.map(str::to_owned).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// What each figure is held against.
const ROWS: [(&str, Figure, Figure, f64); 6] = [
    (
        "create three, seconds",
        Figure::Create,
        Figure::CreateLocked,
        RATIO,
    ),
    ("1 → 3, seconds", Figure::Grow, Figure::GrowLocked, RATIO),
    (
        "longest write gap of another authority, against a restart, ms",
        Figure::Restart,
        Figure::Rotate,
        GAP_RATIO,
    ),
    (
        "longest write gap of switching TLS on, against a restart, ms",
        Figure::Restart,
        Figure::SwitchOn,
        GAP_RATIO,
    ),
    (
        "longest write gap of switching TLS off, against a restart, ms",
        Figure::Restart,
        Figure::SwitchOff,
        GAP_RATIO,
    ),
    (
        "slowest write of a hundred while certificates are renewed, against rest, ms",
        Figure::Rest,
        Figure::Renewal,
        RATIO,
    ),
];

fn print(measured: &Measured, rounds: u8) {
    let mut table = Table::new(&["figure", "without", "with", "ratio", "aim", "verdict"]);
    for (name, without, with, aim) in ROWS {
        let (floor, figure) = (measured.times(without), measured.times(with));
        let ratio = figure.median() / floor.median();
        table.row(vec![
            name.to_owned(),
            floor.cell(),
            figure.cell(),
            format!("{ratio:.2}"),
            format!("≤ {aim}"),
            verdict(ratio, aim),
        ]);
    }
    table.print(&format!(
        "TLS and authentication, median (least) of {rounds}"
    ));
    let header = [
        "change",
        "longest write gap of all, ms",
        "restarts per member",
        "none above a second",
    ];
    let mut table = Table::new(&header);
    for (name, figure) in [
        ("restart", Figure::Restart),
        ("another authority", Figure::Rotate),
        ("TLS on", Figure::SwitchOn),
        ("TLS off", Figure::SwitchOff),
    ] {
        let restarts = measured.restarts.get(&figure).into_iter().flatten();
        let restarts: Vec<String> = restarts.map(ToString::to_string).collect();
        let worst = measured.worst(figure);
        table.row(vec![
            name.to_owned(),
            format!("{worst:.0}"),
            restarts.join(", "),
            verdict(worst, LONGEST_GAP),
        ]);
    }
    table.print("Under a writer");
}

/// The operator's processor and memory while one-member clusters are idle.
fn at_rest(target: &Target, clusters: u8) -> Result<Table> {
    let operator = idle::Operator::at_work(target)?;
    let mut seen = Vec::new();
    let tls = json!({"security": {"tls": {}}});
    let auth = json!({"security": {"tls": {}, "auth": {"enabled": true}}});
    for (what, spec) in [
        ("plaintext", json!({})),
        ("TLS", tls),
        ("TLS and users", auth),
    ] {
        let mut place = Place::new(target, "rest")?;
        for number in 1..=clusters {
            place.create_cluster_with(&format!("m{number}"), 1, CONTROL_PLANE_ETCD, &spec)?;
        }
        footprint::settle(&place)?;
        let watched = operator.watch(&format!("{clusters} clusters, {what}"))?;
        seen.push((watched, operator.memory()?));
        place.empty()?;
    }
    let header = ["figure", "plaintext", "with", "ratio", "aim", "verdict"];
    let mut table = Table::new(&header);
    let [(plain, memory), (with, more), (users, _)] = seen.as_slice() else {
        bail!("three kinds of clusters are watched");
    };
    for (name, without, with) in [
        (
            "processor per idle minute, s, TLS",
            plain.processor,
            with.processor,
        ),
        ("memory, MiB, TLS", *memory, *more),
    ] {
        let ratio = with / without;
        table.row(vec![
            format!("{name}, {clusters} clusters"),
            format!("{without:.3}"),
            format!("{with:.3}"),
            format!("{ratio:.2}"),
            format!("≤ {RATIO}"),
            verdict(ratio, RATIO),
        ]);
    }
    // Watches of the API server begin again every few minutes, with TLS or without.
    for (name, with) in [("TLS", with), ("TLS and users", users)] {
        let more = (with.connections - plain.connections).max(0.0).round();
        table.row(vec![
            format!("handshakes per idle minute, {name}, {clusters} clusters"),
            format!("{:.1} connections", plain.connections),
            format!("{:.1} connections", with.connections),
            format!("{more} more"),
            format!("{HANDSHAKES}"),
            verdict(more, HANDSHAKES),
        ]);
    }
    Ok(table)
}
