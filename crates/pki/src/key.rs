//! Private keys, which no log, event or panic may show.

use zeroize::Zeroizing;

/// A private key in PEM. It has no `Debug` and is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Zeroizing<String>);

impl PrivateKey {
    /// Takes a key over. It is not looked at until it is used.
    pub fn from_pem(pem: String) -> Self {
        Self(Zeroizing::new(pem))
    }

    /// For the Secret that it is written to, and for the handshake that it is used in.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// A certificate, followed by what leads to its authority, and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// In PEM, the certificate itself first.
    pub chain: String,
    /// The key of the certificate.
    pub key: PrivateKey,
}
