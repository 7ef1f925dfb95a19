//! Changes of a member list, as etcd allows and refuses them.

use plan::observed::{Member, quorum};

use crate::world::{Cluster, Container, World};

/// Voters must have been connected for so long before a member is added, in seconds.
const CONNECTED: i64 = 5;

impl World {
    /// Voters of the cluster that clients use, each serving and following a leader.
    pub fn healthy_voters(&self) -> usize {
        let live = |(id, cluster): (&u64, &Cluster)| {
            let voters = cluster.members.iter().filter(|member| !member.learner);
            let serving = voters.filter(|voter| {
                self.process_of(*id, voter.id)
                    .is_some_and(|process| process.serving && !process.hung)
            });
            if cluster.leader.is_some() {
                serving.count()
            } else {
                0
            }
        };
        self.clusters.iter().map(live).max().unwrap_or(0)
    }

    /// `MemberAdd` as a learner.
    pub(crate) fn member_add(&mut self, id: u64, url: &str) -> Result<(), String> {
        self.need_quorum(id)?;
        let voters = self.voters(id);
        let calm = self.live_voters(id).iter().all(|voter| {
            self.process_of(id, *voter).is_some_and(|process| {
                process.serving
                    && (voters == 1
                        || self.now.duration_since(process.connected).as_secs() >= CONNECTED)
            })
        });
        if !calm || self.live_voters(id).len() < voters {
            return Err("etcdserver: unhealthy cluster".to_owned());
        }
        let new = 0xa000 + self.counter + 1;
        let limit = if self.minors().into_iter().all(|minor| minor >= 6) {
            usize::MAX
        } else {
            1
        };
        let Some(cluster) = self.clusters.get_mut(&id) else {
            return Err("gone".to_owned());
        };
        if cluster
            .members
            .iter()
            .any(|m| m.peer_urls.iter().any(|known| known == url))
        {
            return Ok(());
        }
        if cluster
            .members
            .iter()
            .filter(|member| member.learner)
            .count()
            >= limit
        {
            return Err("etcdserver: too many learner members in cluster".to_owned());
        }
        self.counter += 1;
        let peer_urls = vec![url.to_owned()];
        cluster.members.push(Member {
            id: new,
            name: String::new(),
            peer_urls,
            learner: true,
        });
        cluster.added.push(new);
        Ok(())
    }

    /// `MemberUpdate`.
    pub(crate) fn member_update(
        &mut self,
        id: u64,
        member: u64,
        urls: &[String],
    ) -> Result<(), String> {
        self.need_quorum(id)?;
        let cluster = self.clusters.get_mut(&id);
        let mut members = cluster.into_iter().flat_map(|cluster| &mut cluster.members);
        let Some(found) = members.find(|of| of.id == member) else {
            return Err("etcdserver: member not found".to_owned());
        };
        found.peer_urls = urls.to_vec();
        // Releases before 3.5.31 and 3.6.12 do so.
        if std::mem::take(&mut found.learner) {
            self.violate("a learner got its vote by an update of its URLs");
        }
        Ok(())
    }

    /// `MemberPromote`.
    pub(crate) fn member_promote(&mut self, id: u64, member: u64) -> Result<(), String> {
        self.need_quorum(id)?;
        let leader = self
            .clusters
            .get(&id)
            .and_then(|cluster| cluster.leader)
            .unwrap_or(0);
        let running = self
            .process_of(id, member)
            .is_some_and(|process| process.serving);
        if !running || self.log_of(id, member) * 10 < self.log_of(id, leader) * 9 {
            return Err(
                "can only promote a learner member which is in sync with leader".to_owned(),
            );
        }
        let now = self.now;
        let members = self
            .clusters
            .get_mut(&id)
            .map(|cluster| &mut cluster.members);
        let Some(own) = members.into_iter().flatten().find(|m| m.id == member) else {
            return Err("etcdserver: member not found".to_owned());
        };
        own.learner = false;
        for pod in self.pods.values_mut() {
            if let Container::Etcd(process) = &mut pod.container
                && process.member == member
            {
                process.connected = now;
            }
        }
        Ok(())
    }

    /// `MemberRemove`.
    pub fn member_remove(&mut self, id: u64, member: u64) -> Result<(), String> {
        self.need_quorum(id)?;
        let rest: Vec<u64> = self
            .live_voters(id)
            .into_iter()
            .filter(|v| *v != member)
            .collect();
        let Some(cluster) = self.clusters.get_mut(&id) else {
            return Err("gone".to_owned());
        };
        let voters = cluster
            .members
            .iter()
            .filter(|m| !m.learner && m.id != member)
            .count();
        if rest.len() < quorum(voters) {
            return Err("re-configuration failed due to not enough started members".to_owned());
        }
        if cluster.members.iter().any(|m| m.id == member) {
            cluster.members.retain(|m| m.id != member);
            cluster.removed.insert(member);
        }
        Ok(())
    }

    fn need_quorum(&self, id: u64) -> Result<(), String> {
        if self.has_quorum(id) {
            Ok(())
        } else {
            Err("context deadline exceeded".to_owned())
        }
    }
}
