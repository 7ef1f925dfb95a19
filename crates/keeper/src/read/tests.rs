//! Stores that are slow, or break off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::fault::Fault;
use crate::store::stand_in::{Act, Asked, StandIn};

const PIECE: Duration = Duration::from_millis(300);
const SIZE: usize = 8 << 20;

fn object() -> Vec<u8> {
    (0..SIZE)
        .map(|at| u8::try_from(at / 4099 % 251).unwrap())
        .collect()
}

/// What is read of a store that behaves so, and repeats nothing by itself.
async fn read(
    act: impl Fn(&Asked) -> Act + Send + Sync + 'static,
) -> std::result::Result<Vec<u8>, Fault> {
    let server = StandIn::start(act);
    server.put("o", object());
    let store = server.open(PIECE, 0);
    let mut reading = Reading::begin(&store, &"o".into()).await?.unwrap();
    let mut all = Vec::new();
    while let Some(piece) = reading.next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[tokio::test]
async fn a_read_may_take_long_while_pieces_come() {
    let slow = Act::Slow(SIZE / 8, PIECE / 2);
    assert!(read(move |_| slow).await.unwrap() == object());
}

#[tokio::test]
async fn a_read_in_which_nothing_comes_ends() {
    let silent = Act::Slow(SIZE, 20 * PIECE);
    let fault = read(move |_| silent).await.unwrap_err();
    assert_eq!(fault.cause, Cause::Store);
}

#[tokio::test]
async fn a_read_that_breaks_off_goes_on_behind_the_last_byte() {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let cut = move |_: &Asked| {
        counted.fetch_add(1, Ordering::Relaxed);
        Act::Cut(3 << 20)
    };
    assert!(read(cut).await.unwrap() == object());
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_store_that_brings_nothing_is_not_asked_without_end() {
    let fault = read(|_| Act::Cut(1000)).await.unwrap_err();
    assert!(fault.message.contains("read s3://b/o"), "{fault}");
}
