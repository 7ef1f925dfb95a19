//! Issues certificates, and checks those that others issued before anything uses them.
//!
//! etcd reads its certificate and key at every handshake, so a pair that does not fit breaks all new connections at once.
//! Therefore nothing is handed to a member that [`check()`] has not accepted, from whichever source it comes.
//!
//! What must not happen here: IO, a clock. Private keys have no `Debug` and are wiped when they are dropped.

mod authority;
mod check;
mod facts;
#[cfg(test)]
mod hostile;
mod key;

pub use authority::{Authority, Leaf, Validity};
pub use check::{Flaw, Usage, Wanted, check, check_trust};
pub use facts::Facts;
pub use key::{Pair, PrivateKey};

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: &'static str,
    #[source]
    source: rcgen::Error,
}

impl Error {
    fn because(what: &'static str) -> impl FnOnce(rcgen::Error) -> Self {
        move |source| Self { what, source }
    }
}
