//! The files with the authorities that members verify clients and peers by. Pure.

use api::certificates::for_clients;
use k8s_openapi::api::core::v1::Secret;
use manifests::tls::{CLIENT_AUTHORITIES, GENERATION, PEER_AUTHORITIES};

use super::given::Given;
use super::keyring::Keyring;
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

    /// With every authority that is listed and can be had. What is recorded of trust and what the files hold is tied here.
    #[must_use]
    pub(crate) fn with(
        mut self,
        listed: &[String],
        keyring: &Keyring,
        source: Option<&Given>,
    ) -> Self {
        for ours in [keyring.previous.as_ref(), Some(&keyring.newest)] {
            let Some(ours) = ours else {
                continue;
            };
            let identity = ours.identity();
            let whole = listed.contains(&identity);
            if whole || listed.contains(&for_clients(&identity)) {
                add(&mut self.client, ours.client.certificate());
            }
            if whole {
                add(&mut self.peer, ours.peer.certificate());
            }
        }
        if let Some((client, peer)) = source.map(Given::trust) {
            add(&mut self.client, client);
            add(&mut self.peer, peer);
        }
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
    use jiff::{SignedDuration, Timestamp};

    use super::super::keyring::Authorities;
    use super::*;

    /// Whatever is recorded as trusted is in the files, for the planes that it is recorded for.
    #[test]
    fn the_files_hold_what_is_listed() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50);
        let new = || Authorities::new("db", now, SignedDuration::from_hours(24)).unwrap();
        let keyring = Keyring::of(new()).followed_by(new()).unwrap();
        let previous = keyring.previous.as_ref().unwrap();
        let newest = &keyring.newest;
        let (old, new) = (previous.identity(), newest.identity());
        for (listed, client, peer) in [
            (vec![new.clone()], [false, true], [false, true]),
            (vec![old.clone(), new.clone()], [true, true], [true, true]),
            (
                vec![for_clients(&old), for_clients(&new)],
                [true, true],
                [false, false],
            ),
            (
                vec![old.clone(), for_clients(&new)],
                [true, true],
                [true, false],
            ),
            (vec![], [false, false], [false, false]),
        ] {
            let files = Files::default().with(&listed, &keyring, None);
            let holds = |file: &str, of: [&str; 2]| of.map(|it| file.contains(it.trim()));
            let clients = [previous.client.certificate(), newest.client.certificate()];
            let peers = [previous.peer.certificate(), newest.peer.certificate()];
            assert_eq!(holds(&files.client, clients), client, "{listed:?}");
            assert_eq!(holds(&files.peer, peers), peer, "{listed:?}");
        }
    }

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
