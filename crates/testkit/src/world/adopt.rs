//! The cluster of an earlier operator: a StatefulSet of our name and owner without a gate, peer URLs with the
//! cluster's domain, data without an identity file.

use std::collections::BTreeSet;

use api::names;
use plan::observed::Member;

use crate::world::{
    Claim, Cluster, Container, Data, NAME, Pod, Process, Set, Template, Volume, World, peer_url,
};

impl World {
    /// A cluster that an earlier operator runs, and that clients have written to.
    pub fn of_predecessor(size: u32, minor: u8, seed: u64) -> Self {
        let mut world = Self::new(size, minor, seed);
        let id = 0xc0de;
        let template = Template {
            minor,
            ungated: true,
            ..Template::default()
        };
        let members: Vec<Member> = (0..size).map(member).collect();
        for ordinal in 0..size {
            let data = Data {
                cluster: id,
                member: member(ordinal).id,
                log: 7,
                storage: minor,
                log_line: minor,
            };
            world.plant(ordinal, data, &template, &members);
        }
        world.set = Some(Set {
            owner: world.object.uid.clone(),
            replicas: size,
            template,
            kept: None,
            storage: 10,
            uid: "predecessor".to_owned(),
            revision: 1,
        });
        let started: BTreeSet<u64> = members.iter().map(|member| member.id).collect();
        let cluster = Cluster {
            members,
            started,
            acknowledged: 7,
            ..Cluster::default()
        };
        world.clusters.insert(id, cluster);
        world
    }

    fn plant(&mut self, ordinal: u32, data: Data, template: &Template, members: &[Member]) {
        let claim = Claim {
            uid: self.fresh("claim"),
            cluster_uid: String::new(),
            terminating: false,
            requested: 10,
            capacity: 10,
            node: None,
            lineage: String::new(),
            volume: Volume {
                data: Some(data),
                ..Volume::default()
            },
        };
        let pod = Pod {
            refuses: false,
            uid: self.fresh("pod"),
            owner: self.object.uid.clone(),
            created: self.now,
            terminating: false,
            template: template.clone(),
            told_removed: Vec::new(),
            told: None,
            refreshed: None,
            grant: None,
            container: Container::Etcd(Process {
                cluster: data.cluster,
                member: data.member,
                minor: template.minor,
                serving: true,
                connected: self.now,
                view: members.to_vec(),
                trust: Vec::new(),
                hung: false,
                followed: None,
            }),
            node: Some(format!("node-of-{ordinal}")),
            frozen: false,
        };
        self.claims.insert(ordinal, claim);
        self.pods.insert(ordinal, pod);
    }
}

fn member(ordinal: u32) -> Member {
    let url = peer_url(ordinal).replace(".svc:", ".svc.cluster.local:");
    Member {
        id: 0xde00 + u64::from(ordinal),
        name: names::member(NAME, ordinal),
        peer_urls: vec![url],
        learner: false,
    }
}
