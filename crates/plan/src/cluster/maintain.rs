//! Room in the database: history beyond a floor is forgotten, files are rewritten one member at a time and the
//! leader last, and etcd's alarm is disarmed once there is enough free space. Nothing of it is done while a member is
//! missing, joins, leaves or tries a change; where it does not help, the condition says which limit to raise.

use std::cmp::Reverse;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Alarm, AlarmKind, Disturbance, Member, MemberList, Observed, UpkeepTask};
use crate::why::{Advice, Database, Full, Need, Space};

/// Compaction is worth the while for so many revisions.
const WORTH: u64 = 1000;
/// A file that is worth defragmenting without need: so large, in bytes, and less than half of it used.
const LARGE: u64 = 100 << 20;
/// The least that a defragmentation must win, in bytes; and a tenth of the file.
const LEAST: u64 = 1 << 20;

/// A voter and its database.
struct Room<'a> {
    member: &'a Member,
    ordinal: u32,
    size: u64,
    in_use: u64,
    quota: Option<u64>,
    revision: u64,
}

impl Room<'_> {
    /// Its file has so many percent of its quota, or more; `None` where the quota is not known.
    fn fills(&self, percent: u64) -> Option<bool> {
        let quota = self.quota?;
        Some(self.size.saturating_mul(100) >= quota.saturating_mul(percent))
    }

    fn waste(&self) -> u64 {
        self.size.saturating_sub(self.in_use)
    }

    /// For a sentence.
    fn database(&self, observed: &Observed) -> Database {
        Database {
            member: observed.member_name(self.ordinal),
            in_use: self.in_use,
            size: self.size,
        }
    }

    /// A defragmentation would win something.
    fn is_loose(&self) -> bool {
        self.waste() >= LEAST && self.waste().saturating_mul(10) >= self.size
    }

    /// A defragmentation would help it out of a need.
    fn is_helped(&self) -> bool {
        self.is_loose() && self.fills(80) != Some(false)
    }

    /// A defragmentation is due though there is no need.
    fn is_fragmented(&self) -> bool {
        self.size >= LARGE && self.in_use.saturating_mul(2) < self.size && self.is_loose()
    }
}

/// Voters that serve.
fn rooms<'a>(observed: &'a Observed, list: &'a MemberList) -> Vec<Room<'a>> {
    let rooms = list.voters().filter_map(|member| {
        let serving = observed.serving_as(member.id)?;
        Some(Room {
            member,
            ordinal: observed.ordinal_of(member)?,
            size: serving.space.size,
            in_use: serving.space.in_use,
            quota: observed.quota_of(serving),
            revision: serving.space.revision,
        })
    });
    rooms.collect()
}

fn no_space(observed: &Observed) -> Option<Alarm> {
    let mut alarms = observed.alarms().into_iter();
    alarms.find(|alarm| alarm.kind == AlarmKind::NoSpace)
}

/// etcd takes no writes, or is about to.
fn is_pressed(observed: &Observed, rooms: &[Room<'_>]) -> bool {
    no_space(observed).is_some() || rooms.iter().any(|room| room.fills(90) == Some(true))
}

/// Every voter is well and here, and no member joins, leaves or tries a change.
fn is_calm(observed: &Observed, list: &MemberList) -> bool {
    is_whole(observed, list) && observed.cluster.latched.trial().is_none()
}

/// Every voter is well and here, and no member joins or leaves.
fn is_whole(observed: &Observed, list: &MemberList) -> bool {
    // One that answers no read may hang though nothing is written that it could be behind with.
    let reads = |voter: &Member| {
        let serving = observed.serving_as(voter.id);
        serving.is_none_or(|serving| serving.reads != Some(false))
    };
    let here = |voter: &Member| observed.is_healthy(voter) && !observed.is_away(voter);
    list.voters().all(|voter| here(voter) && reads(voter))
        && list.learners().next().is_none()
        && observed.open_grant().is_none()
        && !observed.is_member_leaving()
}

/// What a database in need gets before anything else is begun; a rollout that waits for something does not hold it up, and one
/// that is under way does so for one member.
pub(super) fn relieve(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if observed.upkeep_under_way().is_some() {
        return None;
    }
    let rooms = rooms(observed, list);
    // First: one member at a time, and the one that is recorded is dropped or done before anything else is judged.
    finish(observed, list, &rooms).or_else(|| {
        if !is_pressed(observed, &rooms) || !is_whole(observed, list) {
            return None;
        }
        let relief = relief(observed, list, &rooms)?;
        match observed.cluster.latched.trial() {
            Some(_) => suspend(observed),
            None => Some(relief),
        }
    })
}

/// What frees space now; `None` where nothing does.
fn relief(observed: &Observed, list: &MemberList, rooms: &[Room<'_>]) -> Option<Decision> {
    // Before anything is forgotten: where there is room already, nothing need be.
    disarm(observed, list, rooms).or_else(|| {
        let helped: (_, fn(&Room<'_>) -> bool) = (Need::Full, |room| room.is_helped());
        let ways = [
            // Before a defragmentation, which wins only what was compacted.
            compact(observed, rooms, WORTH),
            next(observed, list, rooms, helped),
            // Last: where nothing is written any more and the files are dense, every revision counts.
            no_space(observed).and_then(|_| compact(observed, rooms, 1)),
        ];
        observed.first_awake(ways.into_iter().flatten())
    })
}

/// A rollout gives way once the member that it restarted is back on what is proven: the next one is recorded after space was
/// freed. A pod that still stands as it was may be deleted by now, and a template that is tried is proven or fails first.
fn suspend(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    let (trial, proven) = (latched.trial()?, latched.proven.as_ref()?);
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
    let pod = observed.pods.get(&ordinal)?;
    let returned = pod.template == trial.template && !pod.terminating;
    (returned && trial.template == proven.template).then(|| {
        let why = Space::RolloutSuspended(trial.member.clone());
        Decision::act(Step::Latch(latched.clone().undisturbed()), why)
    })
}

/// A call that this operator has begun, and that has not ended. Repairs do not wait for it.
pub(super) fn under_way(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let upkeep = observed.upkeep_under_way()?;
    let why = match upkeep.task {
        UpkeepTask::Defragment { ordinal } => {
            Space::DefragmentationRuns(observed.member_name(ordinal), upkeep.since)
        }
        UpkeepTask::Compact { revision } => Space::CompactionRuns(revision, upkeep.since),
    };
    Some(Decision::wait(why, LATER))
}

/// The only voter answers nothing while it is defragmented: that is no loss of quorum.
pub(super) fn alone(observed: &Observed) -> Option<Decision> {
    let list = MemberList::default();
    let alone = observed.etcd.members.is_none() && observed.cluster.latched.voters.len() == 1;
    alone.then(|| under_way(observed, &list)).flatten()
}

/// A settled cluster whose files are mostly empty.
pub(super) fn tidy_up(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let maintenance = observed.cluster.intent.as_ref().ok()?.maintenance;
    let now = observed.now.as_second();
    let open = maintenance.window.is_none_or(|window| window.holds(now));
    let settled = is_calm(observed, list) && !observed.is_changing();
    if !maintenance.defragment || !open || !settled {
        return None;
    }
    let rooms = rooms(observed, list);
    next(
        observed,
        list,
        &rooms,
        (Need::Fragmented, |room| room.is_fragmented()),
    )
}

/// Nothing is left to be done, and etcd still takes no writes.
pub(super) fn exhausted(observed: &Observed, _: &MemberList) -> Option<Decision> {
    no_space(observed)?;
    let full = complaint(observed)?;
    Some(Decision::refuse(Space::Exhausted(full, advice(observed))))
}

/// What to do where nothing else helps.
pub(crate) fn advice(observed: &Observed) -> Advice {
    let intent = observed.cluster.intent.as_ref();
    match intent.map(|intent| intent.maintenance.history) {
        Ok(None) => Advice::Compact,
        Ok(Some(_)) | Err(_) => Advice::Raise,
    }
}

/// Which member uses how much; `None` while there is room.
pub(crate) fn complaint(observed: &Observed) -> Option<Full> {
    let list = observed.etcd.members.as_ref()?;
    let rooms = rooms(observed, list);
    if !is_pressed(observed, &rooms) {
        return None;
    }
    let share = |room: &&Room<'_>| {
        let quota = room.quota.unwrap_or(u64::MAX);
        room.size.saturating_mul(1000).checked_div(quota)
    };
    let fullest = rooms.iter().max_by_key(share)?;
    Some(Full {
        alarm: no_space(observed).is_some(),
        database: fullest.database(observed),
        quota: fullest.quota,
    })
}

/// With room to spare on every voter the alarm goes, one after another.
fn disarm(observed: &Observed, list: &MemberList, rooms: &[Room<'_>]) -> Option<Decision> {
    let alarm = no_space(observed)?;
    let all = rooms.len() == list.voters().count();
    let spare = rooms.iter().all(|room| room.fills(80) == Some(false));
    (all && spare).then(|| Decision::act(Step::Disarm { alarm }, Space::Free))
}

/// History goes down to what the owner keeps, if that is at least so many revisions more than last time.
fn compact(observed: &Observed, rooms: &[Room<'_>], more: u64) -> Option<Decision> {
    let kept = observed.cluster.intent.as_ref().ok()?.maintenance.history?;
    let reached = rooms.iter().map(|room| room.revision).min()?;
    let revision = reached.saturating_sub(kept);
    let before = observed.cluster.latched.compacted;
    // What lies above every revision was edited.
    let before = before.filter(|before| *before <= reached).unwrap_or(0);
    (revision > 0 && revision >= before.saturating_add(more))
        .then(|| Decision::act(Step::Compact { revision }, Space::Compacting(kept)))
}

/// The next member to be defragmented: the one that frees most space, the leader last and only after leadership was
/// transferred. It is recorded first, so that a late look defragments no other member.
fn next(
    observed: &Observed,
    list: &MemberList,
    rooms: &[Room<'_>],
    (need, due): (Need, fn(&Room<'_>) -> bool),
) -> Option<Decision> {
    let leads = |room: &Room<'_>| observed.leader() == Some(room.member.id);
    let due = rooms.iter().filter(|room| due(room));
    // A keeper that reads it would stall it: the next look after that defragments it.
    let due = due.filter(|room| !observed.backups.read.contains(&room.ordinal));
    let due = due.filter(|room| !observed.rests(&defragment(room)));
    let room = due.min_by_key(|room| (leads(room), Reverse(room.waste()), room.ordinal))?;
    let name = observed.member_name(room.ordinal);
    Some(hand_over(observed, list, room, need).unwrap_or_else(|| {
        let why = Space::Next(room.database(observed), need);
        record(observed, Some(name), why)
    }))
}

fn defragment(room: &Room<'_>) -> Step {
    Step::Defragment {
        id: room.member.id,
        ordinal: room.ordinal,
    }
}

fn record(observed: &Observed, member: Option<String>, why: Space) -> Decision {
    let latched = observed.cluster.latched.clone();
    let latched = match member {
        Some(member) => latched.with_disturbance(Disturbance::Defragment { member }),
        None => latched.undisturbed(),
    };
    Decision::act(Step::Latch(latched), why)
}

/// Clients of the leader would wait; another member can lead, unless this one is alone.
fn hand_over(
    observed: &Observed,
    list: &MemberList,
    room: &Room<'_>,
    need: Need,
) -> Option<Decision> {
    if observed.leader() != Some(room.member.id) {
        return None;
    }
    let transferee = observed.transferee(list, room.member.id)?;
    let step = Step::MoveLeader {
        to: transferee.id,
        ordinal: room.ordinal,
    };
    let name = observed.member_name(room.ordinal);
    let why = Space::HandsOver(name, transferee.name.clone(), need);
    Some(Decision::act(step, why))
}

/// The member that was recorded, until nothing is left to be won; then it is forgotten.
fn finish(observed: &Observed, list: &MemberList, rooms: &[Room<'_>]) -> Option<Decision> {
    let name = observed.cluster.latched.defragmenting()?;
    let ordinal = api::names::ordinal(&observed.cluster.name, name);
    let listed = list
        .voters()
        .any(|voter| ordinal.is_some() && observed.ordinal_of(voter) == ordinal);
    let room = rooms.iter().find(|room| Some(room.ordinal) == ordinal);
    let pressed = is_pressed(observed, rooms);
    let need = if pressed {
        Need::Full
    } else {
        Need::Fragmented
    };
    let intent = observed.cluster.intent.as_ref();
    let wanted = pressed || intent.is_ok_and(|intent| intent.maintenance.defragment);
    let due = room.is_none_or(Room::is_loose) && listed && wanted;
    if !due {
        let why = Space::NotNeeded(name.to_owned(), need);
        return Some(record(observed, None, why));
    }
    if room.is_some_and(|room| observed.rests(&defragment(room))) {
        let why = Space::GivenUp(name.to_owned(), need);
        return Some(record(observed, None, why));
    }
    let read = |room: &&Room<'_>| observed.backups.read.contains(&room.ordinal);
    let room = room.filter(|room| is_calm(observed, list) && !read(room))?;
    Some(hand_over(observed, list, room, need).unwrap_or_else(|| {
        let why = Space::Defragmenting(room.database(observed), need);
        Decision::act(defragment(room), why)
    }))
}
