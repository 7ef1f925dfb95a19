//! What members say of their databases: how large they are, which alarms stand, and by which hash they are compared.

use std::collections::BTreeSet;

use super::{Observed, Pod, Serving};

/// How large a database is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the file, as etcd counts them against its quota.
    pub size: u64,
    /// Bytes of those that hold data.
    pub in_use: u64,
    /// Bytes that the file may have; `None` where etcd does not say (3.5).
    pub quota: Option<u64>,
    /// Revision that the member has reached.
    pub revision: u64,
}

/// A checksum over the data up to a revision. Two of them can be compared where both revisions are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash {
    /// The revision up to which it goes.
    pub revision: u64,
    /// The revision up to which the history was forgotten; -1 is never.
    pub compacted: i64,
    /// The checksum.
    pub hash: u32,
}

/// What etcd raises an alarm for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// A database is at its quota: nothing is written any more.
    NoSpace,
    /// The data of members differs: nothing is read or written any more.
    Corrupt,
}

/// An alarm that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// What for.
    pub kind: AlarmKind,
    /// Whose; it may have been removed since.
    pub member_id: u64,
}

impl Alarm {
    /// Reads `memberID:123 alarm:NOSPACE`. How many spaces there are differs from one alarm to the next, on purpose
    /// (3.7).
    pub fn parse(text: &str) -> Option<Self> {
        let mut member_id = 0;
        let mut kind = None;
        for word in text.split_whitespace() {
            match word.split_once(':')? {
                ("memberID", id) => member_id = id.parse().ok()?,
                ("alarm", "NOSPACE") => kind = Some(AlarmKind::NoSpace),
                ("alarm", "CORRUPT") => kind = Some(AlarmKind::Corrupt),
                _other => return None,
            }
        }
        let kind = kind?;
        Some(Self { kind, member_id })
    }
}

impl Observed {
    /// The alarms that members of the cluster report.
    pub fn alarms(&self) -> BTreeSet<Alarm> {
        let ours = self.etcd.members.as_ref().map(|list| list.cluster_id);
        let serving = self.pods.values().filter_map(Pod::serving);
        serving
            .filter(|serving| Some(serving.cluster_id) == ours)
            .flat_map(|serving| &serving.errors)
            .filter_map(|text| Alarm::parse(text))
            .collect()
    }

    /// The quota of a member: what it says, or what its pod template sets.
    pub fn quota_of(&self, serving: &Serving) -> Option<u64> {
        let target = self.cluster.target.as_ref();
        let told = || {
            let mut pods = self.pods.values();
            let pod = pods.find(|pod| pod.serving() == Some(serving))?;
            let live = self.objects.quota;
            let live = live.filter(|_| self.objects.template.as_ref() == Some(&pod.template));
            let target =
                target.filter(|target| target.template == pod.template && target.invalid.is_none());
            target.map(|target| target.intent.quota()).or(live)
        };
        serving.space.quota.or_else(told).filter(|quota| *quota > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_read_whatever_the_spaces() {
        let found = |kind| Some(Alarm { kind, member_id: 7 });
        for text in ["memberID:7 alarm:NOSPACE ", "memberID:7  alarm:NOSPACE"] {
            assert_eq!(Alarm::parse(text), found(AlarmKind::NoSpace));
        }
        let corrupt = Alarm::parse("memberID:7 alarm:CORRUPT");
        assert_eq!(corrupt, found(AlarmKind::Corrupt));
        // An alarm without a member has no ID.
        let without_member = Alarm::parse("alarm:CORRUPT ").map(|alarm| alarm.member_id);
        assert_eq!(without_member, Some(0));
        for text in ["etcdserver: no leader", "alarm:NONE", "memberID:7", ""] {
            assert_eq!(Alarm::parse(text), None, "{text}");
        }
    }
}
