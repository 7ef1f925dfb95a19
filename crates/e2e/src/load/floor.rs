//! What this machine alone costs: the longest time in which a thread could not get a few bytes onto the disk. etcd can
//! do no better, so a gap is judged beside it.

use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

/// A thread that writes, until it is dropped.
pub(super) struct Floor {
    longest: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Floor {
    pub(super) fn start() -> std::io::Result<Self> {
        let floor = Self {
            longest: Arc::default(),
            ended: Arc::default(),
        };
        let (longest, ended) = (Arc::clone(&floor.longest), Arc::clone(&floor.ended));
        let file = tempfile()?;
        let thread = std::thread::Builder::new().name("floor".to_owned());
        // It ends when it is told to.
        drop(thread.spawn(move || write(file, &longest, &ended))?);
        Ok(floor)
    }

    /// The longest time so far.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// A file that no other process can see.
fn tempfile() -> std::io::Result<File> {
    let name = format!("e2e-floor-{}-{:?}", std::process::id(), Instant::now());
    let path = std::env::temp_dir().join(name.replace([' ', ':', '{', '}', ','], ""));
    let file = File::create_new(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn write(mut file: File, longest: &AtomicU64, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        std::thread::sleep(PAUSE);
        let written = file
            .rewind()
            .and_then(|()| file.write_all(b"as etcd would"))
            .and_then(|()| file.sync_data());
        if written.is_err() {
            return;
        }
        let took = began.elapsed().saturating_sub(PAUSE).as_millis();
        longest.fetch_max(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
