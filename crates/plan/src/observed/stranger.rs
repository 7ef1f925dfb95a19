//! Who answered. A pod is asked at the address that its status holds, and that may lead elsewhere: the kubelet is silent,
//! the pod is gone, and its address was given to another. What another pod says is no answer of this one.

use std::collections::BTreeMap;

use super::{MemberList, Observed, Process, Serving};

impl Observed {
    /// Reports of other pods than the one that was asked count as no answer. One that reports bytes is that of a member
    /// which runs for the first time.
    pub fn disown_waits(&mut self) {
        for pod in self.pods.values_mut() {
            let Process::Held(report) = &pod.process else {
                continue;
            };
            if report.pod_uid != pod.uid {
                pod.stranger = Some(format!("the pod with UID {}", report.pod_uid));
                pod.process = Process::Unknown;
            } else if report.received_bytes.is_some() {
                pod.received = report.received_bytes;
                pod.process = Process::Starting;
            }
        }
    }

    /// The member list that the member of an ordinal gave is that of this cluster: the one that is recorded, or one
    /// that lists the member which gave it under the peer URL of the pod that was asked.
    pub fn is_own_list(&self, ordinal: u32, list: &MemberList) -> bool {
        let pod = self.pods.get(&ordinal);
        let given_by = pod.and_then(|pod| pod.serving());
        let known = self.cluster.latched.cluster_id == Some(list.cluster_id);
        given_by.is_some_and(|serving| known || self.is_listed_here(ordinal, serving, list))
    }

    /// Pods whose member has to be asked for its own list, because nothing else shows whether it is theirs.
    pub fn unproved(&self) -> Vec<u32> {
        let serving = self.pods.iter();
        let serving = serving.filter_map(|(ordinal, pod)| Some((*ordinal, pod.serving()?)));
        serving
            .filter(|(ordinal, serving)| self.is_member_here(*ordinal, serving).is_none())
            .map(|(ordinal, _)| ordinal)
            .collect()
    }

    /// Members that are not listed for the pod that was asked count as no answer. `own` has what the unproved ones list
    /// themselves.
    pub fn disown_members(&mut self, own: &BTreeMap<u32, MemberList>) {
        let strangers: Vec<(u32, String)> = self
            .pods
            .iter()
            .filter_map(|(ordinal, pod)| {
                let serving = pod.serving()?;
                let lists_itself = |list| self.is_listed_here(*ordinal, serving, list);
                let proved = self
                    .is_member_here(*ordinal, serving)
                    .unwrap_or_else(|| own.get(ordinal).is_some_and(lists_itself));
                (!proved).then(|| (*ordinal, self.name_stranger(serving)))
            })
            .collect();
        for (ordinal, stranger) in strangers {
            if let Some(pod) = self.pods.get_mut(&ordinal) {
                pod.stranger = Some(stranger);
                pod.process = Process::Unknown;
            }
        }
    }

    /// Whether the member that answered at a pod's address is that pod's; `None` where that is not known.
    fn is_member_here(&self, ordinal: u32, serving: &Serving) -> Option<bool> {
        let same = |list: &&MemberList| list.cluster_id == serving.cluster_id;
        let listed = self.etcd.members.as_ref().filter(same).and_then(|list| {
            let mut members = list.members.iter();
            members.find(|member| member.id == serving.member_id)
        });
        if let Some(listed) = listed {
            // Who is listed under no name of ours was given another URL by hand, and is of this cluster all the same.
            let at = self.ordinal_of(listed);
            return Some(at.is_none_or(|at| at == ordinal));
        }
        // The ID of a cluster is made from its token, which holds this object's UID: another one has another ID.
        (self.cluster.latched.cluster_id == Some(serving.cluster_id)).then(|| {
            let known = self.known_name(serving.member_id);
            known.is_none_or(|known| known == self.member_name(ordinal))
        })
    }

    fn is_listed_here(&self, ordinal: u32, serving: &Serving, list: &MemberList) -> bool {
        let same = list.cluster_id == serving.cluster_id;
        let mut members = list.members.iter();
        same && members.any(|member| {
            member.id == serving.member_id && self.ordinal_of(member) == Some(ordinal)
        })
    }

    /// The member that last voted under an ID.
    fn known_name(&self, id: u64) -> Option<&str> {
        let mut voters = self.cluster.latched.voters.iter();
        let known = voters.find(|voter| super::parse_id(&voter.member_id) == Some(id));
        known.map(|known| known.member.as_str())
    }

    fn name_stranger(&self, serving: &Serving) -> String {
        let (id, cluster) = (serving.member_id, serving.cluster_id);
        let listed = self.etcd.members.iter().flat_map(|list| &list.members);
        let mut listed = listed.filter(|member| member.id == id);
        let name = listed.find_map(|member| self.ordinal_of(member));
        let name = name.map(|ordinal| self.member_name(ordinal));
        match name.as_deref().or_else(|| self.known_name(id)) {
            Some(name) => format!("{name} (member {id:x})"),
            None => format!("member {id:x} of cluster {cluster:x}"),
        }
    }
}
