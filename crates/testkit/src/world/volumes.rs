//! Volumes that grow, and the StatefulSet that is recreated around its pods for them.

use api::v1alpha1::cluster::Retention;

use plan::observed::parse_id;

use crate::world::{Claim, World};

impl Claim {
    /// The disk is full: nothing can be written to it.
    pub(super) fn is_full(&self) -> bool {
        self.capacity < self.volume.needs
    }
}

impl World {
    /// The disk of a member is full until its volume has so many GiB; etcd ends.
    pub fn fill_disk(&mut self, ordinal: u32, needs: u64) {
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume.needs = needs;
        }
        self.crash(ordinal);
    }

    /// Ordinals of claims of this object that no member uses and none is to, where the owner's policy is to delete them.
    pub fn garbage(&self) -> Vec<u32> {
        let object = &self.object;
        let deletes = object.when_scaled == Retention::Delete && object.size > 0;
        let status = &object.status;
        let formed = status.cluster_id.as_deref().and_then(parse_id);
        let sure = formed.is_some() && deletes;
        let unused = self.claims.iter().filter(|(ordinal, claim)| {
            // What holds data of another cluster is for a person to give up.
            let other = claim
                .volume
                .data
                .filter(|data| Some(data.cluster) != formed);
            let ours = claim.cluster_uid == object.uid && other.is_none();
            sure && ours && **ordinal >= object.size && !self.has_member(**ordinal)
        });
        unused.map(|(ordinal, _)| *ordinal).collect()
    }

    /// The driver resizes volumes by and by.
    pub(super) fn run_resizer(&mut self) {
        for claim in self.claims.values_mut() {
            if claim.capacity < claim.requested && self.rng.chance(20) {
                claim.capacity += 1;
            }
        }
    }

    /// The operator asks for a larger volume.
    pub(super) fn expand(&mut self, ordinal: u32, bytes: u64) {
        let gib = bytes >> 30;
        let expandable = self.expandable;
        let Some(claim) = self.claims.get_mut(&ordinal) else {
            return;
        };
        if gib < claim.requested {
            self.violate(format!("the claim of {ordinal} would shrink"));
        } else if expandable {
            claim.requested = gib;
        } else {
            self.violate(format!("the claim of {ordinal} cannot be expanded"));
        }
    }

    /// The StatefulSet goes, and its pods stay.
    pub(super) fn orphan(&mut self, uid: &str) {
        self.set = self.set.take().filter(|set| set.uid != uid);
    }
}
