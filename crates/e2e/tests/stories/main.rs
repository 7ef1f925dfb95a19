//! Every user story in one binary, so that stories of all files run side by side. Those that take the operator or a
//! node away are in `lifecycle_operator*` and `fault_node*`, and run alone.

mod admit_changes;
mod admit_manifests;
mod admit_refusals;
mod admit_schema;
mod admit_settings;
mod fault_corrupt;
mod fault_disk;
mod fault_foreign;
mod fault_frozen;
mod fault_members;
mod fault_node_cordon;
mod fault_node_drain;
mod fault_node_gone;
mod fault_quorum;
mod fault_rollback;
mod fault_space;
mod fault_start;
mod fault_strange;
mod lifecycle_access;
mod lifecycle_adopt;
mod lifecycle_create;
mod lifecycle_cycles;
mod lifecycle_delete;
mod lifecycle_flavours;
mod lifecycle_operator;
mod lifecycle_operator_adopt;
mod lifecycle_operator_cycles;
mod lifecycle_operator_upgrade;
mod lifecycle_pods;
mod lifecycle_rollout;
mod lifecycle_scale;
mod lifecycle_storage;
mod lifecycle_versions;
