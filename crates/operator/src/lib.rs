//! Room 6, the hands: observe, act, report. All judgement is in `plan`; what is here reads and writes,
//! and is as dumb as it can be.

pub mod args;
pub mod backoff;
pub mod backup;
pub mod board;
pub mod caches;
pub mod certificates;
pub mod check;
pub mod clock;
pub mod cluster;
pub mod context;
pub mod deadline;
pub mod descriptors;
pub mod dumps;
pub mod health;
pub mod lanes;
pub mod lease;
pub mod listen;
pub mod metrics;
pub mod platform;
pub mod probes;
pub mod reach;
pub mod requests;
pub mod restore;
pub mod run;
pub mod tasks;
pub mod telemetry;
mod usage;
pub mod waits;
pub mod webhook;
