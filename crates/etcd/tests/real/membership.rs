//! Growing, shrinking, and every refusal on the way.

use std::path::PathBuf;

use etcd::Consistency::{Linearizable, Local};
use etcd::{Cause, Error};

use crate::cluster::{Pair, eventually, handles, promoted, serving};
use crate::process::Seat;

pub(crate) async fn a_learner_joins_and_gets_its_vote(binary: PathBuf) {
    let (first, second) = (Seat::new("c-0"), Seat::new("c-1"));
    let _first = first.start_alone(&binary);
    let [voter, learner] = handles([&first, &second]);
    serving(&voter).await;

    let added = voter.member_add_learner(&second.peer_url()).await.unwrap();
    assert_eq!((added.name.as_str(), added.is_learner), ("", true));
    assert_eq!(added.peer_urls, [second.peer_url()]);
    let early = voter.member_promote(added.id).await.unwrap_err();
    assert!(matches!(early.cause, Cause::LearnerNotReady), "{early:?}");

    let _second = second.start_joining(&binary, &[&first, &second]);
    let status = eventually("the learner serves", async || learner.status().await.ok()).await;
    assert_eq!((status.member_id, status.is_learner), (added.id, true));
    for consistency in [Linearizable, Local] {
        let refused = learner.member_list(consistency).await.unwrap_err();
        assert!(
            matches!(refused.cause, Cause::LearnerUnsupported),
            "{refused:?}"
        );
        assert!(!refused.outcome_is_unknown());
    }

    promoted(&voter, added.id).await;
    let list = voter.member_list(Linearizable).await.unwrap();
    assert_eq!(
        list.members
            .iter()
            .filter(|member| !member.is_learner)
            .count(),
        2
    );
    // Where it is an entry behind at that moment, etcd says so first, whether it votes or not.
    let again = eventually("etcd says that it votes", async || {
        let refused = voter.member_promote(added.id).await.unwrap_err();
        (!matches!(refused.cause, Cause::LearnerNotReady)).then_some(refused)
    })
    .await;
    assert!(matches!(again.cause, Cause::NotLearner), "{again:?}");
}

pub(crate) async fn membership_refusals_keep_their_meaning(binary: PathBuf) {
    let seat = Seat::new("c-0");
    let _process = seat.start_alone(&binary);
    let [member] = handles([&seat]);
    serving(&member).await;

    let added = member
        .member_add_learner("http://127.0.0.1:1")
        .await
        .unwrap();
    eventually("the URL is refused for itself", async || {
        match member
            .member_add_learner("http://127.0.0.1:1")
            .await
            .unwrap_err()
            .cause
        {
            Cause::PeerUrlExists => Some(()),
            // The same URL in the same second makes the same ID.
            Cause::MemberExists => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
    let another = member
        .member_add_learner("http://127.0.0.1:2")
        .await
        .unwrap_err();
    assert!(
        matches!(another.cause, Cause::TooManyLearners),
        "{another:?}"
    );

    member.member_remove(added.id).await.unwrap();
    for gone in [
        member.member_remove(added.id).await.unwrap_err(),
        member.member_remove(1).await.unwrap_err(),
        member.member_promote(1).await.unwrap_err(),
    ] {
        assert!(matches!(gone.cause, Cause::MemberNotFound), "{gone:?}");
    }
    let bad = member.member_add_learner("nonsense").await.unwrap_err();
    assert!(
        matches!(
            bad.cause,
            Cause::Other {
                code: etcd::Code::InvalidArgument,
                ..
            }
        ),
        "{bad:?}"
    );
    assert!(!bad.outcome_is_unknown());
}

pub(crate) async fn leadership_moves_only_from_the_leader_to_a_voter(binary: PathBuf) {
    let Pair {
        members: [leader, follower],
        ids: [_, follower_id],
        processes: _processes,
        ..
    } = Pair::new(&binary).await;

    let wrong = follower.move_leader(follower_id).await.unwrap_err();
    assert!(matches!(wrong.cause, Cause::NotLeader), "{wrong:?}");
    let unknown = leader.move_leader(1).await.unwrap_err();
    assert!(matches!(unknown.cause, Cause::BadTransferee), "{unknown:?}");

    leader.move_leader(follower_id).await.unwrap();
    eventually("the new leader is known", async || {
        leader
            .status()
            .await
            .ok()
            .filter(|status| status.leader == follower_id)
    })
    .await;
}

/// Within one second the same URL makes the same ID, and a removed ID never returns.
pub(crate) async fn a_url_is_free_again_after_its_member_was_removed(binary: PathBuf) {
    let seat = Seat::new("c-0");
    let _process = seat.start_alone(&binary);
    let [member] = handles([&seat]);
    serving(&member).await;

    let added = member
        .member_add_learner("http://127.0.0.1:1")
        .await
        .unwrap();
    member.member_remove(added.id).await.unwrap();
    let again = eventually("the second is over", async || {
        match member.member_add_learner("http://127.0.0.1:1").await {
            Ok(again) => Some(again),
            Err(Error {
                cause: Cause::MemberNotFound,
                ..
            }) => None,
            Err(error) => panic!("{error:?}"),
        }
    })
    .await;
    assert_ne!(again.id, added.id);
}

pub(crate) async fn peer_urls_are_replaced_while_members_run(binary: PathBuf) {
    let Pair {
        members: [leader, follower],
        ids: [leader_id, follower_id],
        processes: _processes,
        ..
    } = Pair::new(&binary).await;
    let urls = async |id| {
        let list = leader.member_list(Linearizable).await.unwrap().members;
        let found = list.into_iter().find(|member| member.id == id).unwrap();
        assert!(!found.is_learner);
        found.peer_urls
    };
    let [http] = urls(follower_id).await.try_into().unwrap();
    let both = [http.clone(), http.replace("http:", "https:")];
    // The second time it says what is so already.
    for _call in 0..2 {
        follower.member_update(follower_id, &both).await.unwrap();
        assert_eq!(urls(follower_id).await, both);
    }
    // Each is still reached at the URL that has stayed.
    leader.read_linearizable().await.unwrap();
    follower.read_linearizable().await.unwrap();
    leader
        .member_update(follower_id, std::slice::from_ref(&http))
        .await
        .unwrap();
    assert_eq!(urls(follower_id).await, std::slice::from_ref(&http));

    let taken = leader.member_update(leader_id, &[http]).await.unwrap_err();
    assert!(matches!(taken.cause, Cause::PeerUrlExists), "{taken:?}");
    let free = ["http://127.0.0.1:1".to_owned()];
    let unknown = leader.member_update(1, &free).await.unwrap_err();
    assert!(
        matches!(unknown.cause, Cause::MemberNotFound),
        "{unknown:?}"
    );
    // etcd would take these, and every member would end.
    for nonsense in [vec![], vec!["nonsense".to_owned()]] {
        let refused = leader.member_update(follower_id, &nonsense).await;
        let refused = refused.unwrap_err();
        assert!(!refused.outcome_is_unknown(), "{refused:?}");
        assert!(
            matches!(refused.cause, Cause::BadPeerUrls { .. }),
            "{refused:?}"
        );
    }
    serving(&leader).await;
    serving(&follower).await;
}
