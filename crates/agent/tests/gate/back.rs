//! The way back: an etcd without a gate in the volume's root, as the predecessor's template runs it, on a
//! volume that the gate has had.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use gate::State;

use crate::{
    etcd::{Member, Status, binaries},
    support::Process,
};

/// What the predecessor's first pod says; the others say `existing`.
const NEW: &str = "new";

impl Member {
    /// What the predecessor's pod runs.
    fn ungated(&self, state: &str) -> Command {
        let mut command = Command::new(&self.etcd);
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.pod.path("log"));
        command
            .args(self.flags())
            .arg(format!("--data-dir={}", self.pod.volume().display()))
            .arg(format!("--initial-cluster={}", self.initial_cluster()))
            .arg(format!("--initial-cluster-state={state}"))
            .arg("--initial-cluster-token=c")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap());
        command
    }

    /// A member that the predecessor began, and that holds one key.
    fn old(etcd: &Path) -> (Self, Status) {
        let member = Self::new(etcd, "m0");
        let _process = Process::spawn(member.ungated(NEW));
        member.await_serving();
        member.put("foo", "bar");
        let status = member.status();
        (member, status)
    }

    fn adopt(&self, status: &Status) -> Process {
        let process = self.start();
        let report = self.pod.await_state(State::Unidentified);
        self.pod.grant(&report.nonce, status.resume());
        self.await_serving();
        process
    }

    fn assert_same(&self, status: &Status) {
        let now = self.status();
        assert_eq!(now.member_id, status.member_id);
        assert_eq!(now.cluster_id, status.cluster_id);
        assert!(now.index >= status.index, "{now:?} {status:?}");
    }

    /// The predecessor's etcd ends by itself and has made nothing.
    fn assert_refuses(&self) {
        for state in [NEW, "existing"] {
            let status = Process::spawn(self.ungated(state)).await_exit();
            assert!(!status.success(), "{}", self.pod.log());
            let root = self.pod.volume().join("member");
            assert!(root.is_symlink() && !root.exists());
            assert!(self.pod.log().contains("file exists"), "{}", self.pod.log());
        }
    }
}

#[test]
fn the_predecessor_goes_on_from_adopted_data_and_the_gate_from_its() {
    for etcd in binaries() {
        let (member, status) = Member::old(&etcd);
        let process = member.adopt(&status);
        member.put("gated", "1");
        drop(process);
        for (state, count) in [(NEW, 3), ("existing", 4)] {
            let before = member.pod.identity();
            let process = Process::spawn(member.ungated(state));
            member.await_serving();
            member.assert_same(&status);
            member.put(state, "1");
            assert_eq!(member.keys().len(), count);
            drop(process);
            assert!(member.pod.volume().join("member").is_symlink());

            // The gate needs no grant: it is the data that it let through.
            let process = member.start();
            member.await_serving();
            member.assert_same(&status);
            assert_eq!(member.keys().len(), count);
            assert_eq!(member.pod.identity(), before);
            drop(process);
        }
    }
}

#[test]
fn a_member_that_began_under_the_gate_is_found_in_the_root() {
    for etcd in binaries() {
        let (member, status) = Member::bootstrapped(&etcd);
        let _process = Process::spawn(member.ungated(NEW));
        member.await_serving();
        member.assert_same(&status);
        assert!(member.has_key());
    }
}

#[test]
fn a_link_that_was_not_made_is_made_at_the_next_start() {
    for etcd in binaries() {
        let (member, status) = Member::old(&etcd);
        drop(member.adopt(&status));
        let root = member.pod.volume().join("member");
        for name in [Some("identity.json"), None] {
            fs::remove_file(&root).unwrap();
            if let Some(name) = name {
                // As a crash leaves it that comes before the identity file.
                fs::remove_file(member.pod.volume().join(name)).unwrap();
                let process = member.start();
                let report = member.pod.await_state(State::Unidentified);
                assert!(root.join("wal").is_dir());
                member.pod.grant(&report.nonce, status.resume());
                member.await_serving();
                drop(process);
            } else {
                let _process = member.start();
                member.await_serving();
            }
            assert!(root.is_symlink() && root.join("wal").is_dir());
        }
    }
}

#[test]
fn the_predecessor_begins_nothing_where_data_was_set_aside() {
    for etcd in binaries() {
        let (mut member, status) = Member::old(&etcd);
        drop(member.adopt(&status));
        let kept = member.pod.volume().join("kept");
        // As it is between two steps, whatever sets it aside.
        fs::rename(member.pod.volume().join("data"), &kept).unwrap();
        member.assert_refuses();
        fs::create_dir(member.pod.volume().join("data")).unwrap();
        member.assert_refuses();
        fs::remove_dir(member.pod.volume().join("data")).unwrap();
        fs::rename(&kept, member.pod.volume().join("data")).unwrap();

        member.pod.removed.clone_from(&status.member_id);
        member.pod.annotate("");
        let process = member.start();
        member.pod.await_state(State::Empty);
        drop(process);
        member.assert_refuses();
    }
}

#[test]
fn the_predecessor_does_not_read_what_waits_for_a_judgement() {
    for etcd in binaries() {
        let (mut member, status) = Member::old(&etcd);
        drop(member.adopt(&status));
        // A database without a log: etcd would start over beside it.
        let data = member.pod.volume().join("data/member");
        let kept = member.pod.volume().join("kept");
        fs::rename(data.join("wal"), &kept).unwrap();
        let process = member.start();
        member.pod.await_state(State::Damaged);
        drop(process);
        member.assert_refuses();
        fs::rename(&kept, data.join("wal")).unwrap();

        member.pod.fence = Some("2".into());
        member.pod.annotate("");
        let process = member.start();
        member.pod.await_state(State::Fenced);
        drop(process);
        member.assert_refuses();

        // It is ours again once nothing holds it back.
        member.pod.fence = None;
        member.pod.annotate("");
        let process = member.start();
        member.await_serving();
        drop(process);
        let _process = Process::spawn(member.ungated(NEW));
        member.await_serving();
        member.assert_same(&status);
    }
}
