//! A backup that takes the place of the data of a cluster that has formed: who asks for it, and what must never happen on the
//! way.

use std::collections::BTreeSet;

use api::v1alpha1::cluster::OnEverythingLost;
use api::v1alpha1::memory::ReplaceMemory;
use jiff::Timestamp;
use plan::observed::{Member, Offer, ReplaceRequest, parse_id};

use super::backup::wish;
use crate::world::{Cluster, Container, Data, World};

/// An EtcdRestore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    /// Its UID.
    pub uid: String,
    /// The cluster that it names.
    pub replaces: Option<u64>,
    /// ID of the backup, or why it cannot be had.
    pub backup: Result<String, String>,
}

impl World {
    /// A user creates an EtcdRestore that names the cluster there is.
    pub fn ask_to_replace(&mut self, backup: &str) -> String {
        let id = self.object.status.cluster_id.as_deref();
        let replaces = id.and_then(parse_id);
        self.ask_for(replaces, backup)
    }

    /// A user creates an EtcdRestore that names this cluster.
    pub fn ask_for(&mut self, replaces: Option<u64>, backup: &str) -> String {
        let uid = self.fresh("restore");
        self.backup.requests.push(Asks {
            uid: uid.clone(),
            replaces,
            backup: Ok(backup.to_owned()),
        });
        self.backup.named.extend(replaces);
        uid
    }

    pub(super) fn observe_requests(&self) -> Vec<ReplaceRequest> {
        let moment = self.backup.moment;
        let asks = self.backup.requests.iter().map(|asks| ReplaceRequest {
            uid: asks.uid.clone(),
            name: "back".to_owned(),
            replaces: asks.replaces,
            wish: asks
                .backup
                .clone()
                .and_then(|id| wish(&id, moment))
                .map(Box::new),
        });
        asks.collect()
    }

    /// A user lets the operator begin with this backup, of the cluster there is, once everything is lost.
    pub fn leave_to_operator(&mut self, backup: &str) {
        let id = self.object.status.cluster_id.as_deref();
        let of = id.and_then(parse_id).unwrap_or(0);
        self.backup.newest = Some((backup.to_owned(), of));
        self.object.on_everything_lost = OnEverythingLost::FromBackup;
    }

    /// Once there is a cluster, a backup that is brought takes the place of its data.
    pub(super) fn replaces(&self) -> bool {
        !self.backup.named.is_empty() || self.object.on_everything_lost != OnEverythingLost::Ask
    }

    /// The newest backup, where that is looked for.
    pub(super) fn observe_offer(&self) -> Option<Offer> {
        let (id, of) = self.backup.newest.clone()?;
        self.object.status.unavailable_since.as_ref()?;
        let lost = self.object.status.cluster_id.as_deref();
        let lost = lost.and_then(parse_id)?;
        Some(Offer {
            by: "nightly".to_owned(),
            time: Timestamp::UNIX_EPOCH,
            verified: true,
            newer: None,
            locked: false,
            identity: None,
            request: ReplaceRequest {
                uid: ReplaceMemory::by_loss_of(lost),
                name: "nightly".to_owned(),
                replaces: (of == lost).then_some(lost),
                wish: wish(&id, None).map(Box::new),
            },
            id,
        })
    }

    /// No EtcdRestore named the cluster: then its owner left it to the operator, and nothing may hold any of its data.
    fn check_unnamed(&mut self, old: u64) {
        if self.object.on_everything_lost == OnEverythingLost::Ask {
            self.violate("replaced though no EtcdRestore named the cluster");
        }
        if self.backup.newest.as_ref().map(|(_, of)| *of) != Some(old) {
            self.violate("began by itself with a backup of another cluster");
        }
        let mut claims = self.claims.values();
        let left = claims.any(|claim| {
            let data = claim.volume.data.as_ref();
            !claim.volume.damaged && data.is_some_and(|data| data.cluster == old)
        });
        if left {
            self.violate("began by itself with a backup beside data of the cluster");
        }
    }

    /// A member begins without the data that the cluster had.
    pub(super) fn start_in_place(&mut self, ordinal: u32, token: &str) {
        if !self.tokens.insert(token.to_owned()) {
            self.violate(format!("a second bootstrap under the token {token}"));
        }
        let runs = self.pods.values().any(|pod| match &pod.container {
            Container::Etcd(_) => true,
            Container::Down | Container::Waiting(_) => false,
        });
        if runs {
            self.violate("fork: replaced beside a process of the old cluster");
        }
        // The claims say it, whatever is wiped.
        let written = self.claims.values();
        let written = written.filter_map(|claim| api::Lineage::parse(&claim.lineage));
        let written = written.max_by_key(api::Lineage::rank);
        let old = written
            .and_then(|it| parse_id(&it.cluster_id?))
            .unwrap_or(0);
        if !self.backup.named.contains(&old) {
            self.check_unnamed(old);
        }
        let stays = |id: u64| {
            let claims = self.claims.values().filter(|claim| !claim.terminating);
            let mut data = claims.filter_map(|claim| claim.volume.data);
            data.any(|data| data.cluster == id)
        };
        let mut before = self.clusters.iter();
        let written = |it: &Cluster| it.replaces == Some(old) && it.acknowledged > 0;
        if before.any(|(id, it)| written(it) && stays(*id)) {
            self.violate("replaced twice: what was written since is gone");
        }
        let brought = self.claims.get_mut(&ordinal);
        let brought = brought.and_then(|claim| claim.volume.brought.take());
        for old in self.clusters.values_mut() {
            old.acknowledged = 0;
            old.given_up = true;
        }
        self.counter += 1;
        let (id, member) = (0xc000 + self.counter, 0xa000 + self.counter);
        let first = Member {
            id: member,
            name: String::new(),
            peer_urls: vec![self.own_peer_url(ordinal)],
            learner: false,
        };
        let cluster = Cluster {
            members: vec![first.clone()],
            started: BTreeSet::from([member]),
            restored: brought.map(|brought| brought.id),
            replaces: Some(old),
            ..Cluster::default()
        };
        self.clusters.insert(id, cluster);
        let data = Data {
            cluster: id,
            member,
            log: 0,
            storage: 0,
            log_line: 0,
        };
        self.lay_down(ordinal, data, vec![first]);
    }
}
