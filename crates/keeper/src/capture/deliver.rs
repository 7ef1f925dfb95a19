//! Brings segments from the spool to the store, oldest first, one after the other: so that what the store has never has a gap
//! because of a keeper that was killed.

use std::time::Duration;

use archive::layout::Layout;
use archive::log::DIRECTORY;
use archive::work::{Cause, Place};
use bytes::Bytes;

use super::Capture;
use super::spool::Waiting;
use crate::fault::{Explain as _, Result};

/// Pauses after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Without end.
pub(super) async fn deliver(capture: &Capture) {
    let mut pause = FIRST_PAUSE;
    let mut failing: Option<String> = None;
    loop {
        let first = capture.spool.first().await;
        match put(capture, &first).await {
            Ok(()) => {
                pause = FIRST_PAUSE;
                if failing.take().is_some() {
                    capture.say("the store takes segments again");
                }
            }
            Err(fault) => {
                // Once for each kind of trouble, and not every half minute.
                if failing.as_ref() != Some(&fault.message) {
                    let bytes = capture.spool.bytes();
                    capture.say(&format!(
                        "{}: {bytes} bytes wait in the spool for the store",
                        fault.message
                    ));
                    failing = Some(fault.message);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn put(capture: &Capture, one: &Waiting) -> Result<()> {
    let place = Place {
        cluster_id: one.cluster_id.clone(),
        ..capture.request.place.clone()
    };
    let at = Layout::new(&capture.store.path, &place).explain(Cause::Request, "name a segment")?;
    let read = tokio::fs::read(&one.path).await;
    let bytes = read.explain(Cause::Request, format!("read {}", one.path.display()))?;
    let name = at.of(&format!("{DIRECTORY}/{}", one.name));
    capture.store.put(&name, Bytes::from(bytes)).await?;
    capture.spool.stored(one)
}
