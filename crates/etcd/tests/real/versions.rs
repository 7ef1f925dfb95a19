//! From one minor to the next and back: what an operator that rolls versions must know, told by etcd
//! itself. Times were measured on loopback.
//!
//! - The storage version follows the cluster version, which is the lowest minor of all members. The
//!   leader looks for it every 4 s, so it changes up to 4 s after the last member was upgraded.
//! - As long as one member is on the older minor, every other says the older storage version, and
//!   each may simply go back. Afterwards only a downgrade leads back.
//! - It is reported before it is on disk: a member that is killed, not stopped, within a tenth of a second after the
//!   change has the one before, and an older binary refuses that database.

use std::path::{Path, PathBuf};

use etcd::DowngradeAction::{Cancel, Enable, Validate};
use etcd::{Cause, Consistency};

use crate::process::minor;
use crate::trio::Trio;

fn storage_of(binary: &Path) -> String {
    format!("{}.0", minor(binary))
}

/// Any voter takes the request; the leader is not needed. Enabled, storage changes within 4 s on all
/// members at once, and the leader clears the job within 5 s once all members are on the target.
pub(crate) async fn a_cluster_goes_back_one_minor(newer: PathBuf, older: PathBuf) {
    let mut trio = Trio::new(&newer).await;
    let target = storage_of(&older);
    let revision = trio.members[0].put(b"key", b"value").await.unwrap();
    let leader = trio.leader().await;
    let follower = (leader + 1) % 3;

    // The patch is dropped, a `v` is not understood, and only the minor before is a target.
    let asked = trio.members[follower].clone();
    for version in [minor(&older), &format!("{}.99", minor(&older))] {
        asked.downgrade(Validate, version).await.unwrap();
    }
    for version in [minor(&newer), "3.4"] {
        let refused = asked.downgrade(Validate, version).await.unwrap_err();
        assert!(matches!(refused.cause, Cause::InvalidDowngradeTarget));
    }
    assert!(asked.downgrade(Validate, "v3.5").await.is_err());
    assert_eq!(trio.jobs().await, [None, None, None]);
    // Nothing to cancel is no error above 3.5.
    asked.downgrade(Cancel, "").await.unwrap();

    asked.downgrade(Enable, minor(&older)).await.unwrap();
    let again = trio.members[leader].downgrade(Enable, &target).await;
    let again = again.unwrap_err();
    assert!(matches!(again.cause, Cause::DowngradeInProgress));
    // Each tells what it has applied, and the third member may be behind.
    crate::cluster::eventually("every member tells the job", async || {
        let all = [(); 3].map(|()| Some(target.clone()));
        (trio.jobs().await == all).then_some(())
    })
    .await;

    // A member that restarts meanwhile comes back on its own minor, before and after the change.
    trio.roll(follower, &newer).await;
    trio.storage_is(&target).await;
    trio.roll(follower, &newer).await;
    trio.storage_is(&target).await;

    trio.roll_all(&older).await;
    if minor(&older) == "3.5" {
        assert_eq!(trio.storage().await, [None, None, None]);
        trio.no_job_on_3_5().await;
        let nothing = trio.members[0].downgrade(Cancel, "").await.unwrap_err();
        assert!(matches!(nothing.cause, Cause::NoDowngrade), "{nothing:?}");
    } else {
        crate::cluster::eventually("the job is cleared", async || {
            (trio.jobs().await == [None, None, None]).then_some(())
        })
        .await;
        trio.storage_is(&target).await;
    }
    for member in &trio.members {
        let read = member.get(b"key", Consistency::Linearizable).await.unwrap();
        assert_eq!(read.unwrap().mod_revision, revision);
    }
}

/// After a cancel in a mixed cluster nothing can be enabled again, and nothing needs to be: the data
/// is still that of the older minor, so members may go to either side. Once all are on the newer
/// minor, storage follows. To be sent to a member of the newer minor: 3.5 carries it out, but does
/// not answer in time.
pub(crate) async fn a_cancelled_downgrade_leaves_both_ways_open(newer: PathBuf, older: PathBuf) {
    let mut trio = Trio::new(&newer).await;
    let leader = trio.leader().await;
    let [first, second] = [(leader + 1) % 3, (leader + 2) % 3];
    let asked = trio.members[leader].clone();
    asked.downgrade(Enable, minor(&older)).await.unwrap();
    trio.storage_is(&storage_of(&older)).await;
    trio.roll(first, &older).await;

    asked.downgrade(Cancel, "").await.unwrap();
    assert_eq!(asked.status().await.unwrap().downgrade, None);
    let refused = asked.downgrade(Enable, minor(&older)).await.unwrap_err();
    assert!(matches!(refused.cause, Cause::InvalidDowngradeTarget));
    let status = asked.status().await.unwrap();
    assert_eq!(status.storage_version, Some(storage_of(&older)));

    trio.roll(second, &older).await;
    trio.roll(second, &newer).await;
    trio.roll(first, &newer).await;
    trio.storage_is(&storage_of(&newer)).await;
}

/// A member of the older minor that comes too early exits with 1 or 2; and while it is down the leader
/// does not know its version, so storage never changes: it must go back to the newer minor first.
pub(crate) async fn the_older_minor_does_not_start_before_the_data_is_ready(
    newer: PathBuf,
    older: PathBuf,
) {
    let mut trio = Trio::new(&newer).await;
    let leader = trio.leader().await;
    let early = (leader + 1) % 3;
    let asked = trio.members[leader].clone();
    for enabled in [false, true] {
        if enabled {
            asked.downgrade(Enable, minor(&older)).await.unwrap();
        }
        trio.exchange(early, &older).await;
        let (code, log) = trio.ended(early).await;
        assert!([1, 2].contains(&code), "{code}: {log}");
        let words = [
            "invalid downgrade; server version is lower than determined cluster version",
            // 3.6 on a database that says so itself.
            r#"version \"3.7.0\" is not supported"#,
        ];
        assert!(words.iter().any(|words| log.contains(words)), "{log}");
    }
    // Twice the time it takes when all members are up.
    let patience = std::time::Duration::from_secs(8);
    tokio::time::sleep(patience).await;
    let status = asked.status().await.unwrap();
    assert_eq!(status.storage_version, Some(storage_of(&newer)));
    assert_eq!(status.downgrade, Some(storage_of(&older)));

    trio.roll(early, &newer).await;
    trio.storage_is(&storage_of(&older)).await;
    trio.roll(early, &older).await;
}

/// One minor at a time, with what lies in wait between 3.6 and 3.7: a member of 3.5 writes entries
/// into the log that 3.7 cannot read (its own name and URLs, at every start, in the form of the v2
/// store). 3.7 reads the log from the last snapshot on, and 3.6 makes one only every 10,000 entries.
/// So a quiet cluster that was once on 3.5 cannot go to 3.7: each member exits with 2. What helps
/// without a restart: to enable a downgrade and to cancel it, because etcd makes a snapshot when the
/// cluster version falls. That takes 8 s, and a member that joins later gets the snapshot, not the old log.
#[tokio::test]
async fn a_cluster_of_3_5_reaches_3_7_one_minor_at_a_time() {
    let binaries = ["3.5.35", "3.6.16", "3.7.3"].map(crate::process::binary);
    let [Some(v3_5), Some(v3_6), Some(v3_7)] = binaries else {
        crate::process::skipped();
        return;
    };
    let mut trio = Trio::new(&v3_5).await;
    let revision = trio.members[0].put(b"key", b"value").await.unwrap();
    let leader = trio.leader().await;
    let [first, second] = [(leader + 1) % 3, (leader + 2) % 3];
    for place in [first, second] {
        trio.roll(place, &v3_6).await;
        // Absent as long as the database holds no entry that 3.6 has applied.
        let storage = trio.storage().await;
        let is_older =
            |version: &Option<String>| matches!(version.as_deref(), None | Some("3.5.0"));
        assert!(storage.iter().all(is_older), "{storage:?}");
        assert_eq!(storage[leader], None);
    }
    trio.roll(leader, &v3_6).await;
    trio.storage_is("3.6.0").await;

    trio.exchange(first, &v3_7).await;
    let (code, log) = trio.ended(first).await;
    assert_eq!(code, 2, "{log}");
    assert!(log.contains("unmarshal should never fail"), "{log}");
    // No harm was done: it goes on where it was.
    trio.roll(first, &v3_6).await;

    trio.members[second].downgrade(Enable, "3.5").await.unwrap();
    trio.storage_is("3.5.0").await;
    trio.members[second].downgrade(Cancel, "").await.unwrap();
    trio.storage_is("3.6.0").await;
    trio.roll_all(&v3_7).await;
    trio.storage_is("3.7.0").await;
    for member in &trio.members {
        let read = member.get(b"key", Consistency::Linearizable).await.unwrap();
        assert_eq!(read.unwrap().mod_revision, revision);
    }
}
