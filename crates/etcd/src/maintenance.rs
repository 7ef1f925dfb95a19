//! The calls that keep a database in shape: alarms, compaction, defragmentation, and the hash by which members are
//! compared. What they are worth, and when they may be made, is for others to say.

use crate::error::Error;
use crate::member::{Member, Rpc};
use crate::proto;

const ALARM: Rpc = ("alarm", "/etcdserverpb.Maintenance/Alarm");
const DEFRAGMENT: Rpc = ("defragment", "/etcdserverpb.Maintenance/Defragment");
const HASH_KV: Rpc = ("hash", "/etcdserverpb.Maintenance/HashKV");
const COMPACT: Rpc = ("compact", "/etcdserverpb.KV/Compact");

/// What etcd raises an alarm for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// A database is at its quota: nothing is written any more.
    NoSpace,
    /// The data of members differs: nothing is read or written any more.
    Corrupt,
}

impl AlarmKind {
    fn to_proto(self) -> i32 {
        match self {
            Self::NoSpace => 1,
            Self::Corrupt => 2,
        }
    }

    fn from_proto(number: i32) -> Option<Self> {
        [Self::NoSpace, Self::Corrupt]
            .into_iter()
            .find(|kind| kind.to_proto() == number)
    }
}

/// An alarm that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// The member that raised it, or that it was raised for; it may have been removed since.
    pub member_id: u64,
    /// What for.
    pub kind: AlarmKind,
}

/// A checksum over the keys up to a revision. Two of them can be compared where both revisions are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash {
    /// The checksum.
    pub hash: u32,
    /// The revision up to which it goes; that which was asked for where etcd does not tell (3.5).
    pub revision: i64,
    /// The revision up to which the member has compacted; -1 before the first compaction.
    pub compact_revision: i64,
}

impl Member {
    /// The alarms that stand, confirmed by a quorum. A kind that this crate does not know is left out.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, Error> {
        let request = proto::AlarmRequest {
            action: 0,
            member_id: 0,
            alarm: 0,
        };
        let answer: proto::AlarmResponse = self.call(ALARM, request).await?;
        let known = answer.alarms.into_iter().filter_map(|alarm| {
            let kind = AlarmKind::from_proto(alarm.alarm)?;
            let member_id = alarm.member_id;
            Some(Alarm { member_id, kind })
        });
        // etcd lists them in no order.
        let mut known: Vec<Alarm> = known.collect();
        known.sort_unstable();
        Ok(known)
    }

    /// Disarms one alarm. An alarm that is not raised is no error; the ID must be the exact one, 0 matches no member.
    pub async fn disarm(&self, alarm: Alarm) -> Result<(), Error> {
        let request = proto::AlarmRequest {
            action: 2,
            member_id: alarm.member_id,
            alarm: alarm.kind.to_proto(),
        };
        let proto::AlarmResponse { alarms: _ } = self.call(ALARM, request).await?;
        Ok(())
    }

    /// Forgets every older revision of every key, on all members. With `physical` the answer comes once this member has
    /// freed what they took in its file. [`Cause::Compacted`](crate::Cause::Compacted) if that was done before.
    pub async fn compact(&self, revision: i64, physical: bool) -> Result<(), Error> {
        let request = proto::CompactionRequest { revision, physical };
        self.call(COMPACT, request).await.map(|proto::Done {}| ())
    }

    /// Writes the member's file again without what is free in it. The member answers nothing meanwhile, about five
    /// seconds for each GiB, and goes on with it when the deadline has passed.
    pub async fn defragment(&self) -> Result<(), Error> {
        let request = proto::DefragmentRequest {};
        self.call(DEFRAGMENT, request)
            .await
            .map(|proto::Done {}| ())
    }

    /// The checksum over everything up to a revision; 0 is the newest one. Takes about half a second for each GiB.
    pub async fn hash_kv(&self, revision: i64) -> Result<Hash, Error> {
        let request = proto::HashKvRequest { revision };
        let answer: proto::HashKvResponse = self.call(HASH_KV, request).await?;
        let header = answer.header.ok_or_else(|| self.headless(HASH_KV))?;
        let told = [answer.hash_revision, revision, header.revision];
        Ok(Hash {
            hash: answer.hash,
            revision: told.into_iter().find(|told| *told != 0).unwrap_or_default(),
            compact_revision: answer.compact_revision,
        })
    }
}
