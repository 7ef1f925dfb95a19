//! Stores that take their time, or whose answers are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::store::stand_in::{Act, Asked, StandIn};

/// How long the store may be silent.
const PIECE: Duration = Duration::from_millis(300);

/// An upload of two parts to a store that behaves so.
async fn upload(act: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> (StandIn, Result<()>) {
    let server = StandIn::start(act);
    let store = server.open(PIECE, 1);
    let mut upload = Upload::begin(&store, "o").await.unwrap();
    upload.write(&vec![7; PART + 5], PART + 5).await.unwrap();
    let done = upload.finish().await;
    (server, done)
}

fn is_whole(server: &StandIn) -> bool {
    let objects = server.objects.lock().unwrap();
    objects
        .get("/b/o")
        .is_some_and(|bytes| *bytes == vec![7; PART + 5])
}

#[tokio::test]
async fn a_store_may_take_its_time_to_join_the_parts() {
    let late = |asked: &Asked| {
        if asked.joins() {
            Act::Late(5 * PIECE)
        } else {
            Act::Well
        }
    };
    let (server, done) = upload(late).await;
    done.unwrap();
    assert!(is_whole(&server));
}

#[tokio::test]
async fn a_store_may_not_take_its_time_for_anything_else() {
    for slow in ["partNumber=1", "partNumber=2"] {
        let late = move |asked: &Asked| {
            if asked.target.contains(slow) {
                Act::Late(20 * PIECE)
            } else {
                Act::Well
            }
        };
        let fault = upload(late).await.1.unwrap_err();
        assert_eq!(fault.cause, Cause::Store);
        assert!(fault.message.contains("write s3://b/o"), "{fault}");
    }
}

#[tokio::test]
async fn an_object_that_is_there_is_there_though_the_store_was_not_heard() {
    let times = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&times);
    let unheard = move |asked: &Asked| {
        if asked.joins() && counted.fetch_add(1, Ordering::Relaxed) == 0 {
            Act::Unheard
        } else {
            Act::Well
        }
    };
    let (server, done) = upload(unheard).await;
    done.unwrap();
    assert!(is_whole(&server));
    assert_eq!(times.load(Ordering::Relaxed), 2, "it is asked once more");
}

#[tokio::test]
async fn an_object_of_another_size_is_not_the_one_that_was_written() {
    let server = StandIn::start(|asked| {
        if asked.joins() {
            Act::Unheard
        } else {
            Act::Well
        }
    });
    let store = server.open(PIECE, 1);
    let mut upload = Upload::begin(&store, "o").await.unwrap();
    upload.write(&[7; 100], 100).await.unwrap();
    upload.sent = 1;
    let fault = upload.finish().await.unwrap_err();
    assert!(fault.message.contains("write s3://b/o"), "{fault}");
}
