//! A simulated Kubernetes, kubelet and etcd in memory, for trying decisions without either: pure,
//! deterministic, no IO, no clock but its own. Ships nothing.
//!
//! [`world`] is what exists and what happens by itself; [`run`] is the operator in it, with everything
//! that can go wrong with an operator; [`scene`] paints single observations, and [`strategies`] random
//! ones.

pub mod intent;
pub mod model;
pub mod mutant;
pub mod rng;
pub mod run;
pub mod scene;
pub mod story;
pub mod strategies;
pub mod told;
pub mod world;

pub use run::Run;
pub use scene::Scene;

pub use world::World;
