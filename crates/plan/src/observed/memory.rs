//! What is remembered, against what is seen.

use std::collections::BTreeMap;

use api::v1alpha1::cluster::Retention;
use api::v1alpha1::memory::RestoreMemory;
use api::{EtcdVersion, Lineage, names};
use jiff::SignedDuration;

use super::{Disturbance, Latched, MemberList, Observed, format_id, parse_id};
use crate::target::decide_target;
use crate::why::Unreadable;

/// How far the clock of another operator may run ahead of ours.
const AHEAD: SignedDuration = SignedDuration::from_mins(10);

impl Latched {
    /// The part of the memory that decides over data.
    pub fn lineage(&self) -> Lineage {
        Lineage {
            incarnation: self.incarnation,
            bootstrap: self.bootstrap.clone(),
            cluster_id: self.cluster_id.map(format_id),
            resumed: self.resumed,
            fence: self.fence,
            recovery: self.recovery.clone(),
            transport: self.transport.unwrap_or_default(),
            switches: self.switches,
            restore: self.restore.clone(),
            replace: self.replace.clone(),
            version: None,
        }
    }
}

impl Observed {
    /// The spec makes no sense, and what is in force goes on.
    pub fn is_spec_invalid(&self) -> bool {
        let target = self.cluster.target.as_ref();
        target.is_some_and(|target| target.invalid.is_some())
    }

    /// The member list, unless it is that of another cluster than the one that is recorded: nothing follows from that.
    pub fn own_list(&self) -> Option<&MemberList> {
        let known = self.cluster.latched.cluster_id;
        let list = self.etcd.members.as_ref();
        list.filter(|list| known.is_none_or(|known| known == list.cluster_id))
    }

    /// Sets a memory right that was wiped, was edited, or is older than what is written on the claims and pods of this object.
    pub fn recall(&mut self) {
        self.doubt();
        self.recall_lineage();
        self.recall_fence();
    }

    /// A person may have edited it. What cannot be true counts as absent.
    fn doubt(&mut self) {
        let name = &self.cluster.name;
        let is_member = |member: &str| names::ordinal(name, member).is_some();
        let spec = self.cluster.intent.as_ref();
        let discards = spec.is_ok_and(|spec| spec.storage.when_stopped == Retention::Delete);
        let latched = &mut self.cluster.latched;
        // Data ends when the last pod is gone, and no pod comes before it has ended.
        latched.ending &= discards && self.pods.is_empty();
        let of_a_member = |disturbance: &Disturbance| match disturbance {
            Disturbance::Trial(trial) => is_member(&trial.member),
            Disturbance::Defragment { member } => is_member(member),
            Disturbance::RenewLogs => true,
        };
        let disturbance = latched.disturbance.take();
        latched.disturbance = disturbance.filter(of_a_member);
        latched.voters.retain(|voter| is_member(&voter.member));
        let latest = self.now.saturating_add(AHEAD).unwrap_or(self.now);
        latched.hung.retain(|hung| hung.time.0 <= latest);
    }

    /// What is written on the claims was in the status before. Where the status says less, it was wiped or an older one was
    /// restored: then the claims are right, and what an older status says of another cluster or incarnation is not.
    fn recall_lineage(&mut self) {
        let claims = self.claims.values().filter(|claim| claim.ours);
        let written = claims.filter_map(|claim| claim.lineage.as_ref());
        let Some(latest) = written.max_by_key(|lineage| lineage.rank()) else {
            return;
        };
        let latched = &self.cluster.latched;
        if latest.rank() <= latched.lineage().rank() {
            return;
        }
        let restore = self.recall_restore(latest);
        let cluster_id = latest.cluster_id.as_deref().and_then(parse_id);
        let same = latched.incarnation == latest.incarnation
            && (latched.cluster_id.is_none() || latched.cluster_id == cluster_id);
        // What an older status calls proven is what members ran on before they were switched.
        let switched = latched.cluster_id.is_some() && latched.switches < latest.switches;
        let before = if same && !switched {
            latched.clone()
        } else if same {
            Latched {
                proven: None,
                transport_before: None,
                ..latched.clone()
            }
        } else {
            let replicas = latched.replicas;
            Latched {
                replicas,
                ..Latched::default()
            }
        };
        self.cluster.latched = Latched {
            incarnation: latest.incarnation,
            bootstrap: latest.bootstrap.clone(),
            cluster_id,
            resumed: latest.resumed,
            fence: latest.fence,
            recovery: latest.recovery.clone(),
            transport: (cluster_id.is_some() || latest.bootstrap.is_some())
                .then_some(latest.transport)
                .or(before.transport),
            switches: latest.switches,
            restore,
            replace: latest.replace.clone(),
            ..before
        };
        self.cluster.recalled = true;
        let target = self.cluster.target.as_ref();
        let sensible = target.is_none_or(|target| target.invalid.is_none());
        if let Some(intent) = self.cluster.intent.as_ref().ok().filter(|_| sensible) {
            self.cluster.target = Some(decide_target(intent, &self.cluster.latched));
        }
    }

    /// What the cluster begins with: only what was written together with the permission to begin is known to belong to it.
    fn recall_restore(&self, latest: &Lineage) -> Option<Box<RestoreMemory>> {
        let latched = &self.cluster.latched;
        let claims = self.claims.values().filter(|claim| claim.ours);
        let mut written = claims.filter_map(|claim| {
            let lineage = claim.lineage.as_ref();
            let lineage = lineage.filter(|it| it.incarnation == latest.incarnation)?;
            lineage.restore.clone()
        });
        let known = latched
            .restore
            .clone()
            .filter(|_| latched.cluster_id.is_some());
        written.next().or(known)
    }

    /// Where the status was wiped, the fence that pods bear still counts: data behind it must not run beside the
    /// cluster that was made of it.
    fn recall_fence(&mut self) {
        let borne = self.pods.values().filter_map(|pod| pod.fence).max();
        let latched = &mut self.cluster.latched;
        let wiped = latched.cluster_id.is_none() && latched.bootstrap.is_none();
        if wiped && latched.fence < borne {
            latched.fence = borne;
            latched.incarnation = latched.incarnation.max(borne.unwrap_or(0));
        }
    }

    /// By ordinal: what is to be written on each claim. Which member may bootstrap the cluster is written on its own
    /// claim only, so that a new cluster does not wait for a write to every claim.
    pub(crate) fn lineages(&self, claims: &[u32]) -> BTreeMap<u32, String> {
        let all = self.cluster.latched.lineage();
        let chosen = all.bootstrap.as_ref().map(|intent| intent.member.clone());
        let formed = all.cluster_id.is_some();
        let texts = claims.iter().map(|ordinal| {
            let bootstraps = chosen.as_ref() == Some(&self.member_name(*ordinal));
            let written = self.claims.get(ordinal).and_then(|c| c.lineage.as_ref());
            let written = written.and_then(|lineage| lineage.version.clone());
            let version = self.data_version().map(|version| version.to_string());
            let name = self.member_name(*ordinal);
            let brought = all.restore.as_ref();
            let brought = brought.filter(|it| it.member == name && it.fetched.is_some());
            let own = Lineage {
                bootstrap: all.bootstrap.clone().filter(|_| bootstraps && !formed),
                restore: brought.cloned(),
                // Until it is known again what the members run, what is on the claim holds.
                version: version.or(written).filter(|_| formed),
                ..all.clone()
            };
            (*ordinal, own.to_text())
        });
        texts.collect()
    }

    /// The release that writes the data. The data of a single member follows a newer minor version while that is tried.
    fn data_version(&self) -> Option<EtcdVersion> {
        let latched = &self.cluster.latched;
        let proven = latched.proven.as_ref()?.version;
        let target = self.cluster.target.as_ref().filter(|target| {
            let tried = latched.trial().map(|trial| &trial.template);
            tried == Some(&target.template) && target.intent.version.minor > proven.minor
        });
        Some(target.map_or(proven, |target| target.intent.version))
    }

    /// Why the release that the spec asks for may not be started on data that was kept; `None` where it may, or where it
    /// is not known what wrote the data.
    pub(crate) fn why_unreadable(&self, ordinals: &[u32]) -> Option<Unreadable> {
        let asked = self.cluster.intent.as_ref().ok()?.version;
        let claims = ordinals.iter().filter_map(|n| self.claims.get(n));
        let written = claims.filter_map(|claim| {
            let version = claim.lineage.as_ref()?.version.as_ref()?;
            EtcdVersion::parse(version)
        });
        let wrote = written.max()?;

        if asked.minor < wrote.minor {
            return Some(Unreadable::Newer { wrote, asked });
        }
        let refused = wrote.next_hop(asked, false).err()?;
        Some(Unreadable::Older { wrote, refused })
    }
}
