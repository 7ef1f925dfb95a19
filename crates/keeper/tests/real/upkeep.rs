//! What is made once is not made again, what is no longer kept goes, and memory is bounded.

use std::time::Duration;

use archive::work::{Keep, Task};

use crate::kit::{Bench, local, on_one_version};
use crate::round::{made, verified, verify};

#[test]
fn a_base_that_is_there_is_not_made_again() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        let first = made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        let names = bench.names("base");
        bench.fill(30).await;
        let mut again = bench.snapshot("a");
        // Nothing is asked of the member.
        again.member.address = "127.0.0.1:1".to_owned();
        let second = made(bench.run(Task::Snapshot(again)).await);
        assert_eq!(second.base, first.base);
        assert_eq!(bench.names("base"), names);
    });
}

#[test]
fn old_bases_go_but_the_newest_verified_stays() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        let keep = Some(Keep {
            newest: Some(2),
            ..Keep::default()
        });
        let mut other = bench.snapshot("other");
        other.made_by.name = "weekly".to_owned();
        made(bench.run(Task::Snapshot(other)).await);
        for id in ["a", "b", "c"] {
            bench.member.put(b"k", b"v").await.unwrap();
            made(bench.run(Task::Snapshot(bench.snapshot(id))).await);
            if id == "a" {
                verified(bench.run(verify(&bench, Some("a"))).await);
            }
        }
        let mut task = bench.snapshot("d");
        task.keep = keep;
        let last = made(bench.run(Task::Snapshot(task.clone())).await);
        assert_eq!((last.pruned, last.unpruned), (1, None));
        let ids: Vec<&str> = last.newest.iter().map(|base| base.id.as_str()).collect();
        assert_eq!(ids, ["d", "c", "a", "other"]);
        assert!(last.newest[2].verified.is_some());
        assert_eq!(bench.names("base").len(), 8);

        // Once a newer one is verified, the old one may go, and its record goes with it.
        verified(bench.run(verify(&bench, Some("d"))).await);
        task.id = "e".to_owned();
        let last = made(bench.run(Task::Snapshot(task)).await);
        assert_eq!(last.pruned, 2);
        let ids: Vec<&str> = last.newest.iter().map(|base| base.id.as_str()).collect();
        assert_eq!(ids, ["e", "d", "other"]);
        assert_eq!(bench.names("verified").len(), 1);
    });
}

#[test]
fn memory_stays_bounded_however_large_the_database_is() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill_with(160, 1_000_000).await;
        let mut task = bench.snapshot("a");
        task.compress = false;
        let keeper = bench.command(local(), Task::Snapshot(task)).spawn();
        let mut keeper = keeper.unwrap();
        let mut peak = 0_u64;
        while keeper.try_wait().unwrap().is_none() {
            let status = std::fs::read_to_string(format!("/proc/{}/status", keeper.id()));
            let status = status.unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            peak = peak.max(kib.unwrap_or(0));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let text = std::fs::read_to_string(bench.directory.path().join("log")).unwrap();
        let made = made(serde_json::from_str(&text).unwrap());
        assert!(made.base.raw_bytes > 160_000_000, "{made:?}");
        println!("{} bytes with a peak of {peak} KiB", made.base.raw_bytes);
        assert!((1..64 * 1024).contains(&peak), "{peak} KiB");
    });
}
