//! What people, nodes and disks do to a cluster.

use api::v1alpha1::cluster::Retention;
use api::{EtcdClusterStatus, names};
use plan::observed::{Latched, Member};

use crate::world::{Claim, Cluster, Container, Data, NAME, Volume, World, peer_url};

impl World {
    /// The spec is edited into something that cannot be read, or back.
    pub fn spoil_spec(&mut self, invalid: bool) {
        self.object.invalid = invalid;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// A user changes the spec.
    pub fn resize(&mut self, size: u32) {
        self.object.size = size;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// A user changes something that reaches the pods.
    pub fn edit(&mut self, edit: u32) {
        self.object.edit = edit;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// A user asks for another minor version of etcd.
    pub fn upgrade(&mut self, minor: u8) {
        self.object.minor = minor;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// TLS is asked for, or no longer.
    pub fn ask_for_tls(&mut self, tls: bool) {
        self.object.tls = tls;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// Another transport is asked for, of members that run.
    pub fn switch(&mut self, to: api::Transport) {
        self.object.transport = Some(to);
        self.object.live_switch = true;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// A user asks for larger volumes.
    pub fn enlarge(&mut self, storage: u64) {
        self.object.storage = storage;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// A user asks for a pause, or reverts that.
    pub fn pause(&mut self, paused: bool) {
        self.object.paused = paused;
        self.object.revision += 1;
    }

    /// What is recorded in the status.
    pub fn memory(&self) -> Latched {
        plan::status::latched(&self.object.status)
    }

    /// A user wipes the status by hand.
    pub fn wipe_status(&mut self) {
        self.object.status = EtcdClusterStatus::default();
        self.object.revision += 1;
    }

    /// The object is deleted and recreated under the same name. What it owned goes by and by.
    pub fn create_again(&mut self, size: u32) {
        if self.object.when_deleted == Retention::Delete {
            for claim in self.claims.values_mut() {
                claim.terminating = true;
            }
        }
        self.certificates.forget();
        self.object.uid = self.fresh("object");
        self.object.generation = 1;
        self.object.size = size;
        self.tried.clear();
        self.wipe_status();
    }

    /// A backup of the object is restored after it was deleted, with the status that it had: the same name, another UID.
    pub fn restore_object(&mut self) {
        let status = self.object.status.clone();
        self.create_again(self.object.size);
        self.object.status = status;
    }

    /// A person restores a status that the object had earlier.
    pub fn restore_status(&mut self, status: EtcdClusterStatus) {
        self.object.status = status;
        self.object.revision += 1;
    }

    /// The container ends and will start again.
    pub fn crash(&mut self, ordinal: u32) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.container = Container::Down;
        }
    }

    /// The pod is deleted.
    pub fn delete_pod(&mut self, ordinal: u32) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.terminating = true;
        }
    }

    /// The claim is deleted, and the pod with it: both come back, the data does not.
    pub fn lose_claim(&mut self, ordinal: u32) {
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.terminating = true;
        }
        self.delete_pod(ordinal);
    }

    /// The volume is empty all of a sudden, and its process dies of it.
    pub fn empty_volume(&mut self, ordinal: u32) {
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume = Volume::default();
        }
        self.crash(ordinal);
    }

    /// The data can no longer be read.
    pub fn damage_volume(&mut self, ordinal: u32) {
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume.damaged = true;
        }
        self.crash(ordinal);
    }

    /// The database is no use any more, though its log can be read.
    pub fn break_volume(&mut self, ordinal: u32) {
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume.broken = true;
        }
        self.crash(ordinal);
    }

    /// A user adds a member that is none of ours, and never starts it.
    pub fn add_stranger(&mut self, id: u64, learner: bool) {
        for cluster in self.clusters.values_mut() {
            cluster.members.push(Member {
                id,
                name: String::new(),
                peer_urls: vec!["http://elsewhere:2380".to_owned()],
                learner,
            });
        }
    }

    /// What starts on this volume never begins to serve.
    pub fn make_sluggish(&mut self, ordinal: u32) {
        let claim = self.claims.get(&ordinal);
        self.sluggish.extend(claim.map(|claim| claim.uid.clone()));
    }

    /// The volume is as it was at an earlier time. That happens only while no pod uses it.
    pub fn roll_back(&mut self, ordinal: u32, log: u64) {
        let claim = self.claims.get_mut(&ordinal);
        if let Some(data) = claim.and_then(|claim| claim.volume.data.as_mut()) {
            data.log = data.log.min(log);
        }
        self.pods.remove(&ordinal);
    }

    /// Behind our own claim there is the volume of another cluster all of a sudden.
    pub fn exchange_volume(&mut self, ordinal: u32, cluster: u64) {
        let volume = self.claims.get_mut(&ordinal).map(|claim| &mut claim.volume);
        if let Some(volume) = volume {
            if let Some(identity) = &mut volume.identity {
                "another-object".clone_into(&mut identity.cluster_uid);
            }
            if let Some(data) = &mut volume.data {
                (data.cluster, data.member) = (cluster, cluster);
            }
        }
        self.pods.remove(&ordinal);
    }

    /// Behind two of our claims there is the volume of the other one each.
    pub fn swap_volumes(&mut self, one: u32, other: u32) {
        let volume = |world: &Self, ordinal| {
            let claim = world.claims.get(&ordinal);
            claim.map(|claim| claim.volume.clone())
        };
        let (first, second) = (volume(self, one), volume(self, other));
        for (ordinal, volume) in [(one, second), (other, first)] {
            if let (Some(claim), Some(volume)) = (self.claims.get_mut(&ordinal), volume) {
                claim.volume = volume;
            }
            self.pods.remove(&ordinal);
        }
    }

    /// A claim with data of a cluster that is not known here.
    pub fn plant_foreign_claim(&mut self, ordinal: u32, cluster: u64) {
        let uid = self.fresh("claim");
        let cluster_uid = "another-object".to_owned();
        let data = Data {
            cluster,
            member: 0xbad0 + u64::from(ordinal),
            log: 7,
            storage: 6,
            log_line: 6,
        };
        let volume = Volume {
            identity: None,
            data: Some(data),
            damaged: false,
            broken: false,
            needs: 0,
            stalled: false,
            stubborn: false,
            brought: None,
        };
        self.claims.insert(
            ordinal,
            Claim {
                uid,
                cluster_uid,
                terminating: false,
                requested: 10,
                capacity: 10,
                node: None,
                lineage: String::new(),
                volume,
            },
        );
        let members = self.claims.iter().filter_map(|(ordinal, claim)| {
            let data = claim.volume.data.filter(|data| data.cluster == cluster)?;
            Some(Member {
                id: data.member,
                name: names::member(NAME, *ordinal),
                peer_urls: vec![peer_url(*ordinal)],
                learner: false,
            })
        });
        let members: Vec<Member> = members.collect();
        let started = members.iter().map(|member| member.id).collect();
        let known = Cluster {
            members,
            started,
            acknowledged: 7,
            ..Cluster::default()
        };
        self.clusters.insert(cluster, known);
    }
}
