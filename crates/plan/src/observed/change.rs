//! What the members run on, and what is asked for.

use super::{Observed, Pod, Proven};

impl Observed {
    /// What is proven and what is asked for, once there is a cluster.
    pub(crate) fn goal(&self) -> Option<(&Proven, &str)> {
        let target = self.cluster.target.as_ref()?;
        let latched = &self.cluster.latched;
        let proven = latched
            .proven
            .as_ref()
            .filter(|_| latched.cluster_id.is_some())?;
        Some((proven, &target.template))
    }

    /// Members run on something else than is asked for, or a member tries it. What was called off is waited for until a person
    /// changes it.
    pub fn is_changing(&self) -> bool {
        let Some((proven, target)) = self.goal() else {
            return false;
        };
        let target = if self.is_called_off(target) {
            &proven.template
        } else {
            target
        };
        let differs = |pod: &Pod| pod.template != target;
        proven.template != target
            || !proven.everywhere
            || self.cluster.latched.trial().is_some()
            || self.pods.values().any(differs)
    }

    /// No member is seen to have data that the target's minor version cannot read: what etcd had prepared may have been undone.
    pub(crate) fn may_be_read(&self, proven: &Proven) -> bool {
        let Some(target) = &self.cluster.target else {
            return true;
        };
        let (from, to) = (proven.version.minor, target.intent.version.minor);
        let mut formats = self.pods.values().filter_map(|pod| {
            let serving = pod.serving()?;
            let newer = serving.version.is_some_and(|version| version.minor > to);
            serving.storage.filter(|_| newer || from < to)
        });
        from == to || formats.all(|format| format <= to && to <= format.saturating_add(1))
    }
}
