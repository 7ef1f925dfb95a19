//! The files with the authorities that members verify clients and peers by. Pure.

use k8s_openapi::api::core::v1::Secret;
use manifests::tls::{CLIENT_AUTHORITIES, GENERATION, PEER_AUTHORITIES};

use super::given::Given;
use super::keyring::Authorities;
use super::secrets::text;

const END: &str = "-----END CERTIFICATE-----";

/// Both files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    client: String,
    peer: String,
}

impl Files {
    /// Those of a Secret of the members.
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        Some(Self {
            client: text(secret, CLIENT_AUTHORITIES)?,
            peer: text(secret, PEER_AUTHORITIES)?,
        })
    }

    /// With authorities of ours as well. Where another source issues for the members, only clients are verified by them.
    #[must_use]
    pub(crate) fn with_ours(mut self, ours: &Authorities, alone: bool) -> Self {
        add(&mut self.client, ours.client.certificate());
        if alone {
            add(&mut self.peer, ours.peer.certificate());
        }
        self
    }

    /// With those of another source as well.
    #[must_use]
    pub(crate) fn with_theirs(mut self, given: &Given) -> Self {
        let (client, peer) = given.trust();
        add(&mut self.client, client);
        add(&mut self.peer, peer);
        self
    }

    /// What members verify clients by, and clients members.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// As the Secret of the members holds them, with their generation.
    pub(crate) fn entries(&self, generation: u64) -> Vec<(String, String)> {
        vec![
            (CLIENT_AUTHORITIES.to_owned(), self.client.clone()),
            (PEER_AUTHORITIES.to_owned(), self.peer.clone()),
            (GENERATION.to_owned(), generation.to_string()),
        ]
    }

    /// Whether an entry of that Secret is one of them.
    pub(crate) fn is_one(key: &str) -> bool {
        [CLIENT_AUTHORITIES, PEER_AUTHORITIES, GENERATION].contains(&key)
    }
}

/// Certificates that are not there yet.
fn add(file: &mut String, more: &str) {
    for block in more.split_inclusive(END) {
        let block = block.trim();
        if block.ends_with(END) && !file.contains(block) {
            if !file.is_empty() && !file.ends_with('\n') {
                file.push('\n');
            }
            file.push_str(block);
            file.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_certificate_is_there_once() {
        let (one, two) = (format!("a\n{END}"), format!("b\n{END}\n"));
        let mut file = String::new();
        for more in [
            &one,
            &two,
            &one,
            &format!("{one}\n{two}"),
            &"text".to_owned(),
        ] {
            add(&mut file, more);
        }
        assert_eq!(file, format!("{one}\n{two}"));
    }
}
