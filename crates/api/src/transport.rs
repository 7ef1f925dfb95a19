//! Whether the members of a cluster speak TLS: to clients, and to each other. One value says it everywhere: on the pods, on
//! the claims, in the memory, and in what is rendered.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::Scheme;

/// How members are reached on one of the two planes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Plane {
    /// Plaintext.
    #[default]
    Plain,
    /// TLS, with certificates on both sides.
    Tls,
}

/// Both planes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Transport {
    /// Between clients and members.
    pub client: Plane,
    /// Between members.
    pub peer: Plane,
}

impl Plane {
    /// TLS, or not.
    pub fn from_switch(on: bool) -> Self {
        if on { Self::Tls } else { Self::Plain }
    }

    /// The scheme of its URLs.
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Plain => Scheme::Http,
            Self::Tls => Scheme::Https,
        }
    }
}

impl Transport {
    /// Neither plane has TLS.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// As it is written on a pod; `None` for what is not a transport.
    pub fn parse(text: &str) -> Option<Self> {
        let (client, peer) = text.strip_prefix("client=")?.split_once(",peer=")?;
        let plane = |text: &str| match text {
            "Plain" => Some(Plane::Plain),
            "Tls" => Some(Plane::Tls),
            _ => None,
        };
        Some(Self {
            client: plane(client)?,
            peer: plane(peer)?,
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client={:?},peer={:?}", self.client, self.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_reads_as_it_was_written() {
        for client in [Plane::Plain, Plane::Tls] {
            for peer in [Plane::Plain, Plane::Tls] {
                let transport = Transport { client, peer };
                assert_eq!(Transport::parse(&transport.to_string()), Some(transport));
            }
        }
        for text in [
            "",
            "client=Tls",
            "client=Tls,peer=",
            "peer=Tls,client=Tls",
            "client=tls,peer=tls",
        ] {
            assert_eq!(Transport::parse(text), None, "{text}");
        }
    }
}
