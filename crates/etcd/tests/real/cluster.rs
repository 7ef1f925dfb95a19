//! Clusters of real members, and waiting for them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use etcd::{Cause, Consistency, Error, Member, Pool, Security};

use crate::process::{Loopback, RealEtcd, Seat};

/// Two voters; the first one leads.
pub(crate) struct Pair {
    pub(crate) members: [Member; 2],
    pub(crate) ids: [u64; 2],
    pub(crate) processes: [RealEtcd; 2],
    _seats: [Seat; 2],
}

impl Pair {
    pub(crate) async fn new(binary: &PathBuf) -> Self {
        let seats = [Seat::new("c-0"), Seat::new("c-1")];
        let [first, second] = &seats;
        let leading = first.start_alone(binary);
        let members = handles([first, second]);
        let leader = serving(&members[0]).await;
        let added = members[0]
            .member_add_learner(&second.peer_url())
            .await
            .unwrap();
        let joining = second.start_joining(binary, &[first, second]);
        promoted(&members[0], added.id).await;
        serving(&members[1]).await;
        Self {
            members,
            ids: [leader, added.id],
            processes: [leading, joining],
            _seats: seats,
        }
    }
}

/// Waits until a voter answers with a quorum behind it; its ID.
pub(crate) async fn serving(member: &Member) -> u64 {
    let list = eventually("the member serves", async || {
        member.member_list(Consistency::Linearizable).await.ok()
    });
    list.await.answered_by
}

/// Promotes a learner as soon as etcd allows it.
pub(crate) async fn promoted(voter: &Member, id: u64) {
    eventually("the learner is in sync", async || {
        match voter.member_promote(id).await {
            Ok(()) => Some(()),
            Err(Error {
                cause: Cause::LearnerNotReady,
                ..
            }) => None,
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
}

/// A handle for each seat, with a deadline that a busy machine can keep.
pub(crate) fn handles<const N: usize>(seats: [&Seat; N]) -> [Member; N] {
    let pool = Pool::new(Arc::new(Loopback::new(&seats)));
    seats.map(|seat| {
        pool.member(&seat.target(), &Security::Plain)
            .with_deadline(Duration::from_secs(5))
    })
}

/// Asks again until there is an answer, for at most half a minute.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let patience = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(30), patience).await;
    answer.unwrap_or_else(|_| panic!("waited for half a minute: {what}"))
}
