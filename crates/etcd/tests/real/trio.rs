//! Three voters whose binaries are exchanged under them.

use std::path::PathBuf;

use etcd::{Cause, DowngradeAction, Member};

use crate::cluster::{eventually, handles};
use crate::process::{RealEtcd, Seat, minor};

/// Three voters, each with the flags the operator gives on its minor.
pub(crate) struct Trio {
    seats: [Seat; 3],
    pub(crate) members: [Member; 3],
    processes: [RealEtcd; 3],
}

impl Trio {
    /// A settled cluster that was bootstrapped by this binary.
    pub(crate) async fn new(binary: &PathBuf) -> Self {
        let seats = ["c-0", "c-1", "c-2"].map(Seat::new);
        let [first, second, third] = &seats;
        let all = [first, second, third];
        let processes = all.map(|seat| seat.start_together(binary, &all));
        let members = handles(all);
        let trio = Self {
            seats,
            members,
            processes,
        };
        for place in 0..3 {
            trio.serves(place).await;
        }
        // etcd 3.5 has no storage version, but takes a downgrade to 3.4 once it knows its own.
        if minor(binary) == "3.5" {
            trio.no_job_on_3_5().await;
        } else {
            trio.storage_is(&format!("{}.0", minor(binary))).await;
        }
        trio
    }

    /// Changes the data of a member behind its back, as a disk does that forgets; how many times it was found.
    pub(crate) async fn alter(&mut self, place: usize, binary: &PathBuf, word: &[u8]) -> usize {
        self.stop(place).await;
        let path = self.seats[place].database();
        let mut bytes = std::fs::read(&path).unwrap();
        let found: Vec<usize> = (0..bytes.len().saturating_sub(word.len()))
            .filter(|at| bytes[*at..].starts_with(word))
            .collect();
        for at in &found {
            bytes[*at] ^= 1;
        }
        std::fs::write(&path, bytes).unwrap();
        self.exchange(place, binary).await;
        self.serves(place).await;
        found.len()
    }

    /// Stops a member and starts it on a binary. Stops, not kills: a storage version is told before
    /// it is on disk, and a member killed in that tenth of a second comes back with the one before.
    pub(crate) async fn exchange(&mut self, place: usize, binary: &PathBuf) {
        self.stop(place).await;
        let [first, second, third] = &self.seats;
        let seat = &self.seats[place];
        let process = seat.start_together(binary, &[first, second, third]);
        self.processes[place] = process;
    }

    async fn stop(&mut self, place: usize) {
        let process = &mut self.processes[place];
        if !process.has_ended() {
            process.ask_to_stop();
            // Not in one blocking wait: etcd waits for its clients to hang up, and so must they.
            eventually("the process ends", async || {
                process.has_ended().then_some(())
            })
            .await;
        }
    }

    /// The same, and waits until it serves with a quorum behind it, on the version that was meant.
    pub(crate) async fn roll(&mut self, place: usize, binary: &PathBuf) {
        self.exchange(place, binary).await;
        eventually("the member serves", async || {
            let process = &mut self.processes[place];
            let log = || self.seats[place].log();
            assert_eq!(process.exit(), None, "{}", log());
            self.members[place].read_linearizable().await.ok()
        })
        .await;
        let version = self.members[place].status().await.unwrap().version;
        assert!(binary.ends_with(format!("{version}/etcd")));
    }

    /// Every member in turn, the leader last.
    pub(crate) async fn roll_all(&mut self, binary: &PathBuf) {
        let leader = self.leader().await;
        for place in [(leader + 1) % 3, (leader + 2) % 3, leader] {
            self.roll(place, binary).await;
        }
    }

    pub(crate) async fn serves(&self, place: usize) {
        eventually("the member serves", async || {
            self.members[place].read_linearizable().await.ok()
        })
        .await;
    }

    /// The place of the leader.
    pub(crate) async fn leader(&self) -> usize {
        eventually("a leader", async || {
            for (place, member) in self.members.iter().enumerate() {
                let status = member.status().await.ok()?;
                if status.leader == status.member_id {
                    return Some(place);
                }
            }
            None
        })
        .await
    }

    /// What every member says of its storage.
    pub(crate) async fn storage(&self) -> [Option<String>; 3] {
        let mut found = [const { None }; 3];
        for (found, member) in found.iter_mut().zip(&self.members) {
            *found = member.status().await.unwrap().storage_version;
        }
        found
    }

    /// Waits until every member's data is of this version.
    pub(crate) async fn storage_is(&self, version: &str) {
        eventually(&format!("storage version {version}"), async || {
            let storage = self.storage().await;
            let is_so = |found: &Option<String>| found.as_deref() == Some(version);
            storage.iter().all(is_so).then_some(())
        })
        .await;
    }

    /// What every member says of a downgrade.
    pub(crate) async fn jobs(&self) -> [Option<String>; 3] {
        let mut found = [const { None }; 3];
        for (found, member) in found.iter_mut().zip(&self.members) {
            *found = member.status().await.unwrap().downgrade;
        }
        found
    }

    /// Waits until no downgrade is enabled, where all members are on 3.5. Its `Status` does not say,
    /// but it validates a downgrade to 3.4, and only when there is no other.
    pub(crate) async fn no_job_on_3_5(&self) {
        eventually("the job is cleared", async || {
            let asked = self.members[0]
                .downgrade(DowngradeAction::Validate, "3.4")
                .await;
            match asked {
                Ok(()) => Some(()),
                Err(error) => {
                    assert!(
                        matches!(
                            error.cause,
                            Cause::DowngradeInProgress
                                | Cause::InvalidDowngradeTarget
                                | Cause::Unavailable { .. }
                        ),
                        "{error:?}"
                    );
                    None
                }
            }
        })
        .await;
    }

    /// The exit code and the log of a member that ends by itself.
    pub(crate) async fn ended(&mut self, place: usize) -> (i32, String) {
        let process = &mut self.processes[place];
        let code = eventually("the process ends", async || process.exit()).await;
        (code, self.seats[place].log())
    }
}
