//! Every test of the rules in one binary: it is linked once, and its tests run side by side whatever file they are in.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a failure is the point"
)]

mod adopt;
mod backups;
mod cures;
mod disturbance;
mod events;
mod exhaustive;
mod exhaustive_locked;
mod exhaustive_recover;
mod exhaustive_watched;
mod guards;
mod memory;
mod model;
mod model_mutants;
mod mutants;
mod mutants_all;
mod mutants_change;
mod mutants_claims;
mod mutants_cures;
mod mutants_everything_lost;
mod mutants_hang;
mod mutants_heal;
mod mutants_in_place;
mod mutants_space;
mod properties;
mod properties_change;
mod properties_dark;
mod properties_facts;
mod properties_space;
mod properties_watched;
mod remind;
mod restores;
mod restores_in_place;
mod status;
mod status_change;
mod status_space;
mod steps;
mod target;
mod upkeep;
mod worlds;
mod worlds_adopt;
mod worlds_auth;
mod worlds_change;
mod worlds_claims;
mod worlds_cures;
mod worlds_everything_lost;
mod worlds_expired;
mod worlds_hang;
mod worlds_heal;
mod worlds_in_place;
mod worlds_join;
mod worlds_moment;
mod worlds_peers;
mod worlds_recover;
mod worlds_refuse;
mod worlds_refuse_steps;
mod worlds_rest;
mod worlds_restore;
mod worlds_revoke;
mod worlds_rollback;
mod worlds_root;
mod worlds_rotate;
mod worlds_shrink;
mod worlds_source;
mod worlds_space;
mod worlds_stranger;
mod worlds_switch;
mod worlds_tls;
mod worlds_uncreated;
mod worlds_users;
mod worlds_vain;
mod worlds_versions;
mod worlds_volumes;
mod worlds_wiped;
mod worlds_zones;
