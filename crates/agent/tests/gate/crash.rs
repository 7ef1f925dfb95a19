//! Killed in the middle of a recovery, as a container is: with all its children.

use std::{thread, time::Duration};

use gate::State;

use crate::{
    etcd::{Member, binaries},
    support::{await_some, get},
    survivor::{Files, Tools},
};

#[test]
fn killed_before_the_new_data_is_complete_it_waits_again() {
    for etcd in binaries() {
        for point in ["replay", "restore", "restored"] {
            let (mut member, old) = Member::bootstrapped(&etcd);
            let tools = Tools::new(&member.pod, &etcd);
            member.etcd = tools.path("etcd");
            member.raise_fence();
            let files = Files::read(&member.data().join("member"));
            tools.hold(point);
            let process = member.start_group();
            let first = member.grant_recovery(&old);
            tools.await_point(point);
            process.kill_group();
            assert_eq!(Files::read(&member.data().join("member")), files, "{point}");
            assert_eq!(member.leftovers().len(), 1);
            tools.release(point);

            let _process = member.start_group();
            let second = member.grant_recovery(&old);
            assert_ne!(first.nonce, second.nonce);
            member.assert_recovered(&old, &second, &files);
            assert!(member.has_key());
        }
    }
}

#[test]
fn asked_to_stop_it_ends_at_once_and_leaves_nothing_behind() {
    for etcd in binaries() {
        let (mut member, old) = Member::bootstrapped(&etcd);
        let tools = Tools::new(&member.pod, &etcd);
        member.etcd = tools.path("etcd");
        member.raise_fence();
        let files = Files::read(&member.data().join("member"));
        tools.hold("restore");
        let process = member.start_group();
        member.grant_recovery(&old);
        tools.await_point("restore");
        process.signal("TERM");
        assert_eq!(process.await_exit().code(), Some(0));
        assert_eq!(Files::read(&member.data().join("member")), files);
        assert_eq!(member.leftovers(), Vec::<String>::new());
    }
}

/// A little later each time, until one comes too late.
#[test]
fn killed_at_any_moment_it_ends_well_and_keeps_the_old_data() {
    for etcd in binaries() {
        let (mut member, old) = Member::bootstrapped(&etcd);
        member.raise_fence();
        let files = Files::read(&member.data().join("member"));
        let (mut granted, mut kills) = (None, 0);
        let delays = std::iter::successors(Some(0), |delay: &u64| Some(delay + delay / 4 + 20));
        for delay in delays.map(Duration::from_millis) {
            let process = member.start_group();
            // Fenced again, or what was complete is carried on with: the gate knows no /health.
            let report = await_some("a report or etcd", || {
                if let Some(report) = member.pod.report() {
                    return Some(Some(report));
                }
                let (status, _) = get(member.pod.port, "/health")?;
                (status != 404).then_some(None)
            });
            let Some(report) = report else { break };
            assert_eq!(report.state, State::Fenced);
            member.pod.grant(&report.nonce, member.recover(&old));
            granted = Some(report);
            thread::sleep(delay);
            let runs = get(member.pod.port, "/gate").is_some_and(|(status, _)| status == 404);
            process.kill_group();
            kills += 1;
            let aside = granted
                .as_ref()
                .map(|report| format!("aside-{}", report.nonce));
            let aside = member.pod.volume().join(aside.unwrap());
            let kept = [member.data(), aside].into_iter().find(|place| {
                let member = place.join("member");
                member.exists() && Files::read(&member) == files
            });
            assert!(kept.is_some(), "{delay:?}\n{}", member.pod.log());
            if runs {
                break;
            }
        }
        assert!(kills > 3, "{kills}");
        let _process = member.start_group();
        member.assert_recovered(&old, &granted.unwrap(), &files);
        assert!(member.has_key());
    }
}
