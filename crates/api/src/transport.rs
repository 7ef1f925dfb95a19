//! Whether the members of a cluster speak TLS: to clients, and to each other. One value says it everywhere: on the pods, on
//! the claims, in the memory, and in what is rendered. Each plane is a ladder of three rungs, of which a running cluster
//! climbs or descends one at a time.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::Scheme;

/// How members are reached on one of the two planes. The order is that of the ladder: neighbours understand each other.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Plane {
    /// Plaintext.
    #[default]
    Plain,
    /// Clients are served with plaintext and with TLS, on one port. Members still listen for each other in plaintext, and
    /// have the certificates to connect to one that listens with TLS.
    Both,
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

    /// There are no certificates.
    pub fn is_plain(self) -> bool {
        self == Self::Plain
    }

    /// The scheme of the URLs that are announced: plaintext up to the last rung, because that is what every client and every
    /// peer on a lower one can use. Members listen for each other on this one only.
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Plain | Self::Both => Scheme::Http,
            Self::Tls => Scheme::Https,
        }
    }

    /// The schemes on which clients are served.
    pub fn served(self) -> &'static [Scheme] {
        match self {
            Self::Plain => &[Scheme::Http],
            Self::Both => &[Scheme::Http, Scheme::Https],
            Self::Tls => &[Scheme::Https],
        }
    }

    /// The next rung on the way to another one.
    #[must_use]
    pub fn towards(self, goal: Self) -> Self {
        match (self, goal) {
            (Self::Plain, Self::Plain) => Self::Plain,
            (Self::Tls, Self::Tls) => Self::Tls,
            (Self::Both, goal) => goal,
            (Self::Plain, Self::Both | Self::Tls) | (Self::Tls, Self::Plain | Self::Both) => {
                Self::Both
            }
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
            "Both" => Some(Plane::Both),
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

    const RUNGS: [Plane; 3] = [Plane::Plain, Plane::Both, Plane::Tls];

    /// On the way two neighbours run at once, and each client finds a scheme that both serve.
    #[test]
    fn every_way_goes_by_neighbours_that_share_a_scheme_and_arrives() {
        for from in RUNGS {
            for goal in RUNGS {
                let mut at = from;
                for _rung in 0..2 {
                    let next = at.towards(goal);
                    let shared = |scheme: &&Scheme| at.served().contains(scheme);
                    assert!(next.served().iter().any(|scheme| shared(&scheme)));
                    at = next;
                }
                assert_eq!(at, goal, "from {from:?}");
            }
        }
    }

    #[test]
    fn a_transport_reads_as_it_was_written() {
        for client in RUNGS {
            for peer in RUNGS {
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
