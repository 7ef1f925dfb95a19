//! Data that an earlier operator left in the volume's root.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
};

use gate::State;

use crate::{
    etcd::{Member, Status, binaries},
    support::{Process, await_some},
};

#[test]
fn data_in_the_volumes_root_is_adopted() {
    for etcd in binaries() {
        let (member, status) = Member::bootstrapped(&etcd);
        member.make_old();
        let root = member.pod.volume().join("member");
        let process = member.start();
        let report = member.pod.await_state(State::Unidentified);
        assert!(
            report.detail.contains("in the volume's root"),
            "{}",
            report.detail
        );
        let data = report.data.clone().unwrap();
        assert_eq!(
            (&data.cluster_id, &data.member_id),
            (&status.cluster_id, &status.member_id)
        );
        assert_eq!((data.term, data.index), (status.term, status.index));
        assert_eq!(data.identity, None);

        let stranger = Status {
            member_id: "1".into(),
            ..status.clone()
        };
        member.pod.grant(&report.nonce, stranger.resume());
        member.pod.await_refusal();
        member.pod.grant(&report.nonce, member.bootstrap(false));
        await_some("the next refusal", || {
            let detail = member.pod.report()?.detail;
            detail.contains("does not say discard").then_some(())
        });
        assert!(root.exists() && !member.pod.volume().join("data").exists());

        member.pod.grant(&report.nonce, status.resume());
        member.await_serving();
        assert!(member.has_key());
        assert!(root.is_symlink());
        assert_eq!(member.pod.identity().member_id, Some(status.member_id));
        drop(process);
        let _again = member.start();
        member.await_serving();
        assert!(member.has_key());
    }
}

/// As the kubelet leaves a volume that root wrote, for a pod whose `fsGroup` is [`GROUP`].
fn give_to_group(path: &Path, is_readable: bool) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let is_directory = metadata.is_dir();
    let mode = match (is_readable, is_directory) {
        (true, true) => 0o2770,
        (true, false) => 0o660,
        (false, true) => 0o700,
        (false, false) => 0o600,
    };
    chown(path, Some(0), Some(GROUP)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if is_directory {
        for entry in fs::read_dir(path).unwrap() {
            give_to_group(&entry.unwrap().path(), is_readable);
        }
    }
}

const USER: u32 = 65532;
const GROUP: u32 = 1000;

#[test]
fn files_of_root_are_adopted_by_another_user_through_their_group() {
    for etcd in binaries() {
        let (mut member, status) = Member::bootstrapped(&etcd);
        let directory = member.pod.directory.path();
        if chown(directory, Some(0), None).is_err() {
            crate::support::skipped("only root can try what another user may do");
            return;
        }
        member.make_old();
        // What others may execute, wherever the binaries lie.
        let copy = directory.join("etcd");
        fs::copy(&etcd, &copy).unwrap();
        let agent = directory.join("agent");
        fs::copy(crate::support::AGENT, &agent).unwrap();
        for path in [directory, copy.as_path(), agent.as_path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        give_to_group(&member.pod.volume(), true);
        let volume = member.pod.volume();
        member.etcd = copy;
        let start = || {
            let command = member.pod.command(&member.etcd, &member.flags());
            let mut other = std::process::Command::new(&agent);
            for (name, value) in command.get_envs() {
                other.env(name, value.unwrap());
            }
            let log = fs::File::options()
                .append(true)
                .open(member.pod.path("log"));
            other
                .args(command.get_args())
                .stdout(std::process::Stdio::null())
                .stderr(log.unwrap())
                .uid(USER)
                .gid(GROUP);
            Process::spawn(other)
        };

        give_to_group(&volume.join("member/wal"), false);
        fs::set_permissions(
            member.pod.path("termination-log"),
            fs::Permissions::from_mode(0o666),
        )
        .unwrap();
        assert_eq!(start().await_exit().code(), Some(74));
        let message = fs::read_to_string(member.pod.path("termination-log")).unwrap();
        let path = volume.join("member/wal");
        assert!(message.contains(path.to_str().unwrap()), "{message}");

        give_to_group(&volume, true);
        let process = start();
        let report = member.pod.await_state(State::Unidentified);
        member.pod.grant(&report.nonce, status.resume());
        member.await_serving();
        assert!(member.has_key());
        drop(process);
        let _again = start();
        member.await_serving();
    }
}
