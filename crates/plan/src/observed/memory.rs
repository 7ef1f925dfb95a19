//! What is remembered, against what is seen.

use super::{MemberList, Observed};

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

    /// Where somebody wiped the status, the fence that pods bear still counts: what it holds back must not come to life
    /// beside what was made of it.
    pub fn recall_fence(&mut self) {
        let borne = self.pods.values().filter_map(|pod| pod.fence).max();
        let latched = &mut self.cluster.latched;
        let wiped = latched.cluster_id.is_none() && latched.bootstrap.is_none();
        if wiped && latched.fence < borne {
            latched.fence = borne;
            latched.incarnation = latched.incarnation.max(borne.unwrap_or(0));
        }
    }
}
