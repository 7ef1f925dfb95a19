//! Damaged, left-over and missing data in front of real etcd processes.

use std::{fs, process::Command};

use gate::State;

use crate::etcd::{Member, binaries};

#[test]
fn a_damaged_log_of_others_is_damaged_but_says_whose_it_is() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        let mut bytes = fs::read(member.wal()).unwrap();
        let place = bytes
            .windows(3)
            .position(|window| window == b"bar")
            .unwrap();
        bytes[place] ^= 1;
        fs::write(member.wal(), bytes).unwrap();
        member.pod.uid = "another";
        let _process = member.start();
        let report = member.pod.await_state(State::Damaged);
        assert!(
            report.detail.contains("wrong CRC at offset"),
            "{}",
            report.detail
        );
        let data = report.data.unwrap();
        assert_eq!(data.member_id, status.member_id);
        assert!(data.index < status.index);
    }
}

#[test]
fn leftovers_of_a_start_that_never_finished_do_not_hinder_the_next() {
    for etcd in binaries() {
        let member = Member::new(&etcd, "m0");
        for leftover in [
            "wal.tmp/0000000000000000-0000000000000000.wal",
            "wal/1.tmp",
            "snap/db.tmp.1",
        ] {
            let path = member.pod.volume().join("data/member").join(leftover);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "rubbish").unwrap();
        }
        let process = member.found();
        assert!(member.has_key());
        drop(process);
        let _again = member.start();
        member.await_serving();
    }
}

#[test]
fn discard_moves_the_data_aside() {
    for etcd in binaries() {
        let (member, status) = Member::bootstrapped(&etcd);
        fs::File::options()
            .write(true)
            .open(member.wal())
            .unwrap()
            .set_len(20)
            .unwrap();
        let process = member.start();
        let report = member.pod.await_state(State::Damaged);
        assert_eq!(report.data, None);
        member.pod.grant(&report.nonce, status.resume());
        assert!(
            member
                .pod
                .await_refusal()
                .detail
                .contains("no data to resume")
        );
        member.pod.grant(&report.nonce, member.bootstrap(true));
        member.await_serving();
        assert!(!member.has_key());
        drop(process);
        let aside = member.pod.volume().join(format!("aside-{}", report.nonce));
        assert_eq!(
            fs::metadata(aside.join("member/wal/0000000000000000-0000000000000000.wal"))
                .unwrap()
                .len(),
            20
        );
        assert!(aside.join("member/snap/db").exists());

        fs::remove_dir_all(member.pod.volume().join("data/member/wal")).unwrap();
        let _process = member.start();
        let report = member.pod.await_state(State::Damaged);
        assert!(
            report.detail.contains("a database without any WAL"),
            "{}",
            report.detail
        );
    }
}

/// Not the agent's doing: what etcd does should the gate ever be wrong.
#[test]
fn etcd_itself_refuses_an_empty_directory() {
    for etcd in binaries() {
        let member = Member::new(&etcd, "m0");
        let data = member.pod.volume().join("data");
        let output = Command::new("timeout")
            .arg("20")
            .arg(&etcd)
            .args(member.flags())
            .arg(format!("--data-dir={}", data.display()))
            .arg("--initial-cluster-state=existing")
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}: {log}", etcd.display());
        assert!(
            log.contains("cannot fetch cluster info from peer urls"),
            "{log}"
        );
        assert!(!member.wal().exists());
    }
}
