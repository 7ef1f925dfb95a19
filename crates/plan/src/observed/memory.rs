//! What is remembered, against what is seen.

use std::collections::BTreeMap;

use api::Lineage;

use super::{Latched, MemberList, Observed, format_id, parse_id};
use crate::target::decide_target;

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
        }
    }
}

impl Observed {
    /// The spec makes no sense, and what is in force goes on.
    pub fn is_spec_invalid(&self) -> bool {
        let target = self.cluster.target.as_ref();
        target.is_some_and(|target| target.invalid.is_some())
    }

    /// The member list, unless it is that of another cluster than the one that is written down: nothing follows from that.
    pub fn own_list(&self) -> Option<&MemberList> {
        let known = self.cluster.latched.cluster_id;
        let list = self.etcd.members.as_ref();
        list.filter(|list| known.is_none_or(|known| known == list.cluster_id))
    }

    /// Sets a memory right that was wiped, or is older than what is written on the claims and pods of this object.
    pub fn recall(&mut self) {
        self.recall_lineage();
        self.recall_fence();
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
        let cluster_id = latest.cluster_id.as_deref().and_then(parse_id);
        let same = latched.incarnation == latest.incarnation
            && (latched.cluster_id.is_none() || latched.cluster_id == cluster_id);
        let before = if same {
            latched.clone()
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
            ..before
        };
        self.cluster.recalled = true;
        let target = self.cluster.target.as_ref();
        let sensible = target.is_none_or(|target| target.invalid.is_none());
        if let Some(intent) = self.cluster.intent.as_ref().ok().filter(|_| sensible) {
            self.cluster.target = Some(decide_target(intent, &self.cluster.latched));
        }
    }

    /// Where somebody wiped the status, the fence that pods bear still counts: what it holds back must not come to life
    /// beside what was made of it.
    fn recall_fence(&mut self) {
        let borne = self.pods.values().filter_map(|pod| pod.fence).max();
        let latched = &mut self.cluster.latched;
        let wiped = latched.cluster_id.is_none() && latched.bootstrap.is_none();
        if wiped && latched.fence < borne {
            latched.fence = borne;
            latched.incarnation = latched.incarnation.max(borne.unwrap_or(0));
        }
    }

    /// By ordinal: what is to be written on each claim. Who may found the cluster is written on its own claim only, so that
    /// a new cluster does not wait for a write to every claim.
    pub(crate) fn lineages(&self, claims: &[u32]) -> BTreeMap<u32, String> {
        let all = self.cluster.latched.lineage();
        let founder = all.bootstrap.as_ref().map(|founder| founder.member.clone());
        let formed = all.cluster_id.is_some();
        let texts = claims.iter().map(|ordinal| {
            let founds = founder.as_ref() == Some(&self.member_name(*ordinal));
            let own = Lineage {
                bootstrap: all.bootstrap.clone().filter(|_| founds && !formed),
                ..all.clone()
            };
            (*ordinal, own.to_text())
        });
        texts.collect()
    }
}
