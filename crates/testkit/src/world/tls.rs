//! Schemes, authorities and the Secrets of certificates. A member hears the others only if it listens on the scheme that it is
//! listed under, and trusts the authority that issued their certificates; it reads what it trusts once, when it starts.

use std::collections::{BTreeMap, BTreeSet};

use api::certificates::{Copied, Record, Rotation};
use api::intent::Source;
use api::names::Scheme;
use api::{Plane, Transport, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::Step;
use plan::observed::{Certificates, Issued, Offered, Request};

use crate::world::{Container, NAME, NAMESPACE, Pod, World};

/// How long a certificate is valid in this world, in seconds.
pub const LIFETIME: i64 = 90 * 24 * 60 * 60;

/// The three Secrets; `None` where there is none.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// `db-ca`.
    pub authority: Option<Record>,
    /// `db-tls`.
    pub members: Option<Record>,
    /// `db-client-tls`.
    pub clients: Option<Record>,
    /// How many authorities there ever were.
    pub made: u64,
    /// What the Secrets of the user's hold, where those are the source: certificates, or why they cannot be used.
    pub theirs: Option<Result<Copied, String>>,
    /// What cert-manager will put there once it is asked; `None` where it was, or is no part of this world.
    pub awaits: Option<Result<Copied, String>>,
    /// When authorities of ours expire, by their names.
    pub(super) expire: BTreeMap<String, Timestamp>,
    /// Pods of members for which nothing could be issued any more that they trust, when other certificates were shown.
    pub(super) stranded: BTreeSet<String>,
    issued: u64,
}

impl Secrets {
    /// They go with the object that owned them.
    pub(super) fn forget(&mut self) {
        (self.authority, self.members, self.clients) = (None, None, None);
    }
}

impl World {
    pub(crate) fn asked_transport(&self) -> Transport {
        let plane = Plane::from_switch(self.object.tls);
        let both = Transport {
            client: plane,
            peer: plane,
        };
        self.object.transport.unwrap_or(both)
    }

    /// A member listens as the others look for it, and can reach each of them. (One without others is looked for by none.)
    fn check_peers(&mut self) {
        let lives: Vec<(u32, u64, u64)> = self
            .live()
            .map(|(ordinal, process)| (ordinal, process.cluster, process.member))
            .collect();
        for (ordinal, cluster, member) in lives {
            let known = self.clusters.get(&cluster).filter(|it| !it.given_up);
            let mut members = known.into_iter().flat_map(|cluster| &cluster.members);
            let listed = members.any(|of| of.id == member);
            if listed && self.is_unreachable(cluster, member) {
                let url = self.own_peer_url(ordinal);
                self.violate(format!("no peer reaches the member that listens as {url}"));
            }
        }
    }

    /// It listens on a scheme under which it is not listed, or for which another has no certificates.
    fn is_unreachable(&self, cluster: u64, member: u64) -> bool {
        if self.voters(cluster) < 2 {
            return false;
        }
        let mut live = self.live();
        let live = live.find(|(_, it)| (it.cluster, it.member) == (cluster, member));
        let Some((ordinal, _)) = live else {
            return false;
        };
        let url = self.own_peer_url(ordinal);
        let scheme = |url: &str| url.split_once("://").map(|(scheme, _)| scheme.to_owned());
        let members = self.clusters.get(&cluster).map(|cluster| &cluster.members);
        let mut members = members.into_iter().flatten().filter(|of| of.id == member);
        // Who was removed is told so by the others.
        let Some(of) = members.next() else {
            return false;
        };
        // By which name does not matter: an earlier operator listed its members with the cluster's domain.
        let listed = of.peer_urls.iter().any(|it| scheme(it) == scheme(&url));
        let mut others = self.live().filter(|(_, it)| it.cluster == cluster);
        let bare = others.any(|(ordinal, _)| {
            let pod = self.pods.get(&ordinal);
            pod.is_some_and(|pod| pod.template.transport.peer.is_plain())
        });
        !listed || (bare && url.starts_with("https:"))
    }

    /// A client that is not told anything finds a scheme that every member serves.
    pub(super) fn check_schemes(&mut self) {
        let live: Vec<Plane> = self.live().filter_map(|(n, _)| self.client_of(n)).collect();
        let serves = |scheme: Scheme| live.iter().all(|plane| plane.served().contains(&scheme));
        if !serves(Scheme::Http) && !serves(Scheme::Https) {
            self.violate("no scheme is served by every member");
        }
        self.check_peers();
        self.check_trust();
    }

    /// At rest members speak, trust and ask as their owner said.
    pub(crate) fn check_arrived(&mut self) {
        let asked = self.asked_transport();
        let mut pods = self.pods.values();
        let switched = pods.all(|pod| pod.template.transport == asked);
        let mut alive = self.clusters.values().filter(|cluster| !cluster.given_up);
        let enabled = alive.any(|cluster| cluster.accounts.enabled);
        let auth = self.object.auth.is_none_or(|asked| asked == enabled);
        let ours = self.certificates.authority.as_ref();
        let ours = ours.filter(|_| self.object.rotate.is_some());
        let rotated = ours.is_none_or(|ours| {
            let rotation = ours.rotation.as_ref();
            let done = rotation.and_then(|it| it.asked.as_ref()) == self.object.rotate.as_ref();
            let shown = self.certificates.members.as_ref();
            done && shown.is_some_and(|it| it.authorities == ours.authorities)
        });
        if !(switched && auth && rotated) {
            self.violate("it rests, and is not what was asked for");
        }
    }

    fn client_of(&self, ordinal: u32) -> Option<Plane> {
        let pod = self.pods.get(&ordinal)?;
        Some(pod.template.transport.client)
    }

    /// The agent notes how etcd is started.
    pub(super) fn note_transport(&mut self, ordinal: u32) {
        let pod = self.pods.get(&ordinal);
        let transport = pod.map(|pod| pod.template.transport).unwrap_or_default();
        let claim = self.claims.get_mut(&ordinal);
        if let Some(identity) = claim.and_then(|claim| claim.volume.identity.as_mut()) {
            identity.transport = (!transport.is_plain()).then(|| transport.to_string());
        }
    }

    /// Where the certificates of members come from.
    pub(super) fn source(&self) -> Source {
        match &self.certificates.theirs {
            None => Source::Operator,
            Some(_) => Source::Secrets {
                certificate: "theirs".to_owned(),
                authority: None,
            },
        }
    }

    pub(super) fn observe_certificates(&self) -> Certificates {
        let of = |record: &Option<Record>| match record {
            Some(record) => Issued::Recorded(record.clone()),
            None => Issued::Missing,
        };
        let secrets = &self.certificates;
        Certificates {
            authority: of(&secrets.authority),
            members: of(&secrets.members),
            clients: of(&secrets.clients),
            asked_of_members: "asked".to_owned(),
            asked_of_clients: self.asked_of_clients(),
            offered: match secrets.theirs.clone() {
                None => Offered::Own,
                Some(Ok(copied)) => Offered::Usable(copied),
                Some(Err(why)) => Offered::Unusable(why),
            },
            request: Request {
                due: secrets.awaits.is_some(),
                trouble: None,
            },
        }
    }

    /// Clients are told what members show.
    fn asked_of_clients(&self) -> String {
        let shown = self.certificates.members.as_ref();
        let copied = shown.and_then(|record| record.copied.as_ref());
        let source = copied.map_or("asked", |copied| copied.trust.as_str());
        let trusted = shown.and_then(|record| record.trust.as_ref());
        let trusted = trusted.map(|trust| trust.authorities.join(" "));
        format!("{source}{}", trusted.unwrap_or_default())
    }

    /// The URL under which a pod listens for peers.
    pub(super) fn own_peer_url(&self, ordinal: u32) -> String {
        let transport = self.pods.get(&ordinal).map(|pod| pod.template.transport);
        let scheme = transport.unwrap_or_default().peer.scheme();
        names::peer_url(scheme, NAME, NAMESPACE, ordinal)
    }

    /// No container starts before its volumes are there.
    pub(super) fn can_mount(&self, pod: &Pod) -> bool {
        // The agent waits for the authorities that its pod was made for.
        let members = self.certificates.members.as_ref();
        let mounted = members.is_some_and(|it| it.generation() >= pod.template.trust);
        pod.template.transport.is_plain() || mounted
    }

    pub(super) fn read_trust(&self, ordinal: u32) -> Vec<String> {
        let pod = self.pods.get(&ordinal);
        let tls = pod.is_some_and(|pod| !pod.template.transport.is_plain());
        let record = self.certificates.members.as_ref().filter(|_| tls);
        record.map_or_else(Vec::new, Record::trusted)
    }

    /// The others do not hear it: it listens on another scheme than it is listed under, or trusts another authority than
    /// issued what they show.
    pub(super) fn is_cut_off(&self, cluster: u64, member: u64) -> bool {
        if self.voters(cluster) < 2 {
            return false;
        }
        let live = self
            .live()
            .find(|(_, process)| (process.cluster, process.member) == (cluster, member));
        let Some((_, process)) = live else {
            return false;
        };
        self.is_unreachable(cluster, member)
            || !self.believes_the_others(process)
            || self.is_expired_for(process)
    }

    fn issue_authority(&mut self) -> Result<(), String> {
        // It is created, and one that is there is never replaced, unless it has expired.
        let there = self.certificates.authority.as_ref();
        if there.is_some_and(|it| it.not_after.0 > self.now) {
            return Err("there is an authority".to_owned());
        }
        let mut trusting = self.pods.values().filter(|pod| {
            pod.owner == self.object.uid
                && !pod.template.transport.is_plain()
                && matches!(pod.container, Container::Etcd(_))
        });
        if trusting.next().is_some() {
            self.violate("another authority while members trust one");
        }
        self.certificates.made += 1;
        let name = format!("authority-{}", self.certificates.made);
        let rotation = self.object.rotate.clone().map(|asked| Rotation {
            asked: Some(asked),
            ..Rotation::default()
        });
        self.make_authority(name, rotation);
        Ok(())
    }

    pub(super) fn certify(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::IssueCertificates(issue) => {
                if issue.authority {
                    self.issue_authority()?;
                }
                let issuer = self.issuer(issue.by)?;
                let leaf = self.issue_leaf(issuer);
                if issue.members {
                    self.note_stranded(&leaf.authorities);
                    let copied = self.certificates.theirs.clone().transpose()?;
                    let leaf = leaf.clone();
                    let trust = self.trust_when_issued(issue.by, copied.as_ref());
                    self.certificates.members = Some(Record {
                        copied,
                        trust,
                        ..leaf
                    });
                }
                if issue.clients {
                    let shown = self.certificates.members.as_ref();
                    let copied = shown.and_then(|record| record.copied.clone());
                    let trust = shown.and_then(|record| record.trust.clone());
                    let asked = self.asked_of_clients();
                    self.certificates.clients = Some(Record {
                        copied,
                        trust,
                        asked,
                        ..leaf
                    });
                }
            }
            Step::RequestCertificate => {
                self.certificates.theirs = self.certificates.awaits.take();
            }
            Step::RotateAuthority(what) => self.rotate(*what)?,
            Step::RefreshCertificates {
                ordinal,
                uid,
                refreshed,
            } => {
                let pod = self.pods.get_mut(ordinal).filter(|pod| pod.uid == *uid);
                pod.ok_or("another pod by now")?.refreshed = Some(refreshed.clone());
            }
            _other => {}
        }
        Ok(())
    }

    pub(super) fn issue_record(&mut self, authorities: String, lifetime: i64) -> Record {
        self.certificates.issued += 1;
        let after = |seconds: i64| Time(self.now + SignedDuration::from_secs(seconds));
        Record {
            authorities,
            asked: "asked".to_owned(),
            issued_at: Time(self.now),
            renew_at: after(lifetime / 3 * 2),
            not_after: after(lifetime),
            data: format!("{:016x}", self.certificates.issued),
            copied: None,
            trust: None,
            rotation: None,
        }
    }
}
