//! The client against real etcd of every supported minor. Without `ETCD_BINARIES` each test says
//! that it was skipped.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod answers;
mod auth;
mod cluster;
mod doors;
mod locked;
mod membership;
mod process;
mod space;
mod switched;
mod trio;
mod versions;

macro_rules! on_every_version {
    ($($room:ident::$story:ident),* $(,)?) => {
        on_every_version!(@ v3_5 "3.5.35" $($room $story)*);
        on_every_version!(@ v3_6 "3.6.16" $($room $story)*);
        on_every_version!(@ v3_7 "3.7.3" $($room $story)*);
    };
    (@ $module:ident $version:literal $($room:ident $story:ident)*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $story() {
                    match crate::process::binary($version) {
                        Some(binary) => crate::$room::$story(binary).await,
                        None => crate::process::skipped(),
                    }
                }
            )*
        }
    };
}

/// Stories of two neighbouring minors, the newer one first.
macro_rules! on_every_pair {
    ($($room:ident::$story:ident),* $(,)?) => {
        on_every_pair!(@ v3_6_and_v3_5 "3.6.16" "3.5.35" $($room $story)*);
        on_every_pair!(@ v3_7_and_v3_6 "3.7.3" "3.6.16" $($room $story)*);
    };
    (@ $module:ident $newer:literal $older:literal $($room:ident $story:ident)*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $story() {
                    let binaries = [$newer, $older].map(crate::process::binary);
                    let [Some(newer), Some(older)] = binaries else {
                        crate::process::skipped();
                        return;
                    };
                    crate::$room::$story(newer, older).await;
                }
            )*
        }
    };
}

on_every_pair!(
    versions::a_cluster_goes_back_one_minor,
    versions::a_cancelled_downgrade_leaves_both_ways_open,
    versions::the_older_minor_does_not_start_before_the_data_is_ready,
);

on_every_version!(
    answers::a_lone_member_tells_who_it_is,
    answers::without_a_quorum_only_local_answers_remain,
    answers::a_handle_survives_the_restart_of_its_member,
    answers::etcd_answers_on_the_port_of_the_gate,
    auth::users_and_roles_are_kept_and_counted_by_certificate,
    auth::refusals_about_users_and_roles_keep_their_meaning,
    auth::upkeep_needs_the_role_root,
    auth::a_caller_without_a_name_is_told_so,
    auth::passwords_are_tried_and_changed,
    auth::members_change_while_callers_are_known_by_certificate,
    doors::a_locked_member_lets_in_none_but_its_callers,
    locked::a_member_is_known_by_its_own_name,
    locked::a_member_that_does_not_accept_us_says_so,
    locked::a_leaf_that_is_exchanged_is_used_at_once,
    locked::metrics_are_had_with_a_certificate_on_a_port_of_their_own,
    membership::peer_urls_are_replaced_while_members_run,
    membership::a_learner_joins_and_gets_its_vote,
    membership::membership_refusals_keep_their_meaning,
    membership::a_url_is_free_again_after_its_member_was_removed,
    membership::leadership_moves_only_from_the_leader_to_a_voter,
    space::a_lone_member_gets_its_space_back,
    space::three_members_get_their_space_back,
    space::data_that_was_changed_on_disk_shows_in_the_hash,
    switched::members_are_switched_and_back_and_come_back_from_a_stop_half_way,
);
