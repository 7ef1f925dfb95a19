//! From apply to three healthy voters, beside two floors of the same run. Every creation bears a name of its own: DNS
//! remembers for seconds that a name did not exist.

use std::time::Instant;

use anyhow::Result;

use super::floors::{build_service, build_statefulset};
use super::place::Place;
use super::table::{Table, Times, verdict};
use crate::cluster::Target;

const MEMBERS: u8 = 3;
/// Above two pod starts, in seconds.
const ALLOWANCE: f64 = 2.0;
/// Below 3.6 only one learner may catch up at a time, and a promotion needs every voter connected for five seconds.
const ALLOWANCE_BELOW_3_6: f64 = 7.0;

/// One row per release of etcd.
pub(super) fn measure(target: &Target, versions: &[String], rounds: u8) -> Result<Table> {
    let mut table = Table::new(&[
        "etcd",
        "one pod",
        "static three",
        "operator",
        "× pod",
        "× static",
        "aim",
        "verdict",
    ]);
    for version in versions {
        let mut place = Place::new(target, "create")?;
        let (mut pod, mut fixed, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=rounds {
            pod.push(floor(&mut place, &format!("p{round}"), version, 1)?);
            fixed.push(floor(&mut place, &format!("s{round}"), version, MEMBERS)?);
            ours.push(cluster(&mut place, &format!("c{round}"), version)?);
            let last = |times: &[f64]| times.last().copied().unwrap_or(f64::NAN);
            eprintln!(
                "  etcd {version}, round {round} of {rounds}: pod {:.1} s, static {:.1} s, operator {:.1} s",
                last(&pod),
                last(&fixed),
                last(&ours)
            );
        }
        table.row(row(
            version,
            &Times::new(pod),
            &Times::new(fixed),
            &Times::new(ours),
        ));
    }
    Ok(table)
}

fn floor(place: &mut Place<'_>, name: &str, version: &str, replicas: u8) -> Result<f64> {
    place.post("/api/v1", "services", &build_service(name))?;
    let object = build_statefulset(name, &place.namespace, version, replicas);
    let started = Instant::now();
    place.post("/apis/apps/v1", "statefulsets", &object)?;
    let took = place.voters(usize::from(replicas), started)?;
    place.empty()?;
    Ok(took)
}

fn cluster(place: &mut Place<'_>, name: &str, version: &str) -> Result<f64> {
    let started = Instant::now();
    place.create_cluster(name, MEMBERS, version)?;
    let took = place.voters(usize::from(MEMBERS), started)?;
    place.empty()?;
    Ok(took)
}

fn row(version: &str, pod: &Times, fixed: &Times, ours: &Times) -> Vec<String> {
    let slow = version.starts_with("3.4.") || version.starts_with("3.5.");
    let allowance = if slow { ALLOWANCE_BELOW_3_6 } else { ALLOWANCE };
    let aim = 2.0 * pod.median() + allowance;
    vec![
        version.to_owned(),
        pod.cell(),
        fixed.cell(),
        ours.cell(),
        format!("{:.1}", ours.median() / pod.median()),
        format!("{:.1}", ours.median() / fixed.median()),
        format!("≤ 2 pods + {allowance:.0} s = {aim:.1}"),
        verdict(ours.median(), aim),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aim_follows_from_the_pod_start_of_the_same_run() {
        let row = |version| {
            let times = |seconds| Times::new(vec![seconds]);
            row(version, &times(1.5), &times(2.0), &times(6.0)).join(" ")
        };
        assert!(row("3.6.16").ends_with("≤ 2 pods + 2 s = 5.0 missed by 20 %"));
        assert!(row("3.5.35").ends_with("≤ 2 pods + 7 s = 10.0 met"));
    }
}
