//! `kubectl etcd`: what a person sees and asks for, with that person's own rights. It renders what the operator and the
//! objects say and writes what a user may write: fields and annotations. It acts on no member, and judges nothing.
//!
//! Looking (`gather`) and text (`report`, `view`) are apart: what is printed is a pure function of what was seen.

pub mod act;
pub mod change;
pub mod completion;
pub mod connect;
pub mod doctor;
pub mod follow;
pub mod gather;
pub mod nearest;
pub mod report;
pub mod run;
pub mod screen;
pub mod table;
pub mod trouble;
pub mod view;

#[cfg(test)]
mod tests;
