//! Members that run and yet do not keep up: what was watched of them over several looks. What is watched is kept in
//! memory only. An operator that forgets it starts over, and everything that rests on it happens later, never sooner.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Member, MemberList, Observed, Pod, Process};

/// No member is said to hang before that has lasted so long, in seconds.
const SUSTAINED: i64 = 30;
/// A disk that takes so many milliseconds for a write is no use: etcd elects another leader in less.
const SLOW: u64 = 1000;
/// Entries that a member may be behind before its agent is asked what it is doing.
const BEHIND: u64 = 1000;

/// What etcd counts of itself, whether or not it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Last index it applied.
    pub applied: u64,
    /// It follows a leader, or leads.
    pub led: bool,
    /// It receives or applies a snapshot, or is being defragmented: nothing else happens meanwhile.
    pub busy: bool,
    /// Writes to its log that have ended.
    pub log: Option<Writes>,
    /// Commits of its database that have ended.
    pub database: Option<Writes>,
}

/// Writes that a disk has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// How many.
    pub count: u64,
    /// Milliseconds that they took together.
    pub millis: u64,
}

/// A voter that runs, follows a leader, and yet answers no read that a quorum must confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Since when, as far as it was watched.
    pub since: Timestamp,
    /// It is behind the others, and has applied nothing since.
    pub stuck: bool,
    /// What its disk ended since, of the log.
    pub log: Option<Writes>,
    /// What its disk ended since, of the database.
    pub database: Option<Writes>,
}

/// What was watched of the members of a cluster, by the UID of their pods.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Those that do not keep up with the others.
    late: BTreeMap<String, (Timestamp, Vitals)>,
    /// Those that name a leader while no quorum confirms a member list: since when their log has ended where it does.
    idle: BTreeMap<String, (Timestamp, u64)>,
}

impl Vitals {
    /// It counts from the beginning again: another process runs in the same pod.
    fn is_younger(&self, before: &Self) -> bool {
        let count = |writes: Option<Writes>| writes.map(|writes| writes.count);
        count(self.log) < count(before.log) || count(self.database) < count(before.database)
    }
}

impl Writes {
    fn since(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            millis: self.millis.saturating_sub(before.millis),
        }
    }

    /// Milliseconds for each of them.
    fn each(self) -> Option<u64> {
        self.millis.checked_div(self.count)
    }
}

impl Stall {
    fn new((since, before): &(Timestamp, Vitals), now: &Vitals, head: u64) -> Self {
        let ended = |now: Option<Writes>, before: Option<Writes>| Some(now?.since(before?));
        Self {
            since: *since,
            stuck: now.applied == before.applied && now.applied < head,
            log: ended(now.log, before.log),
            database: ended(now.database, before.database),
        }
    }

    /// Milliseconds since it began.
    fn lasts(&self, now: Timestamp) -> u64 {
        u64::try_from(now.duration_since(self.since).as_millis()).unwrap_or(0)
    }

    /// Milliseconds that its disk takes for a write of the log: what etcd measured, or, since it had something to do
    /// all the time, what there is between two writes that end.
    fn between(&self, now: Timestamp) -> Option<u64> {
        let log = self.log?;
        let gap = self.lasts(now).checked_div(log.count.max(1));
        log.each().max(gap)
    }

    fn is_slow(&self, now: Timestamp) -> bool {
        let database = self.database.and_then(Writes::each);
        let slowest = self.between(now).max(database);
        slowest.is_some_and(|slowest| slowest >= SLOW)
    }

    /// It has lasted long enough to say that the member hangs.
    pub(super) fn is_hang(&self, now: Timestamp) -> bool {
        let lasts = now.duration_since(self.since).as_secs() >= SUSTAINED;
        lasts && (self.stuck || self.is_slow(now))
    }

    /// What it does, in words that do not change from look to look.
    pub fn describe(&self, now: Timestamp) -> String {
        let seconds = |millis: u64| millis.saturating_add(500) / 1000;
        let fsync = self.log.and_then(Writes::each).filter(|m| *m >= SLOW);
        let commit = self.database.and_then(Writes::each).filter(|m| *m >= SLOW);
        let between = self.between(now).filter(|m| *m >= SLOW);
        match (fsync, commit, between, self.log) {
            (Some(fsync), ..) => format!("its disk takes {} s per write (fsync)", seconds(fsync)),
            (_, Some(commit), ..) => {
                let took = seconds(commit);
                format!("its disk takes {took} s per write (commit of the database)")
            }
            (_, _, Some(_), Some(Writes { count: 0, .. })) => {
                format!(
                    "it has completed no disk write since {}",
                    minute(self.since)
                )
            }
            (_, _, Some(between), _) => {
                format!(
                    "it completes only one disk write every {} s",
                    seconds(between)
                )
            }
            _its_disk_is_well => format!("it has applied nothing since {}", minute(self.since)),
        }
    }
}

fn minute(time: Timestamp) -> String {
    time.strftime("%H:%M:%S UTC").to_string()
}

impl Watch {
    /// Takes note of a look, and says in it who stalls.
    pub fn note(&mut self, observed: &mut Observed, vitals: &BTreeMap<u32, Vitals>) {
        let uids: BTreeSet<&String> = observed.pods.values().map(|pod| &pod.uid).collect();
        self.late.retain(|uid, _| uids.contains(uid));
        self.idle.retain(|uid, _| uids.contains(uid));
        let mut stalls = BTreeMap::new();
        for (ordinal, pod) in &observed.pods {
            match is_suspect(observed, *ordinal, pod) {
                // Nothing was heard: nothing is learned, and nothing forgotten.
                None => {}
                Some(false) => drop(self.late.remove(&pod.uid)),
                Some(true) => {
                    let stall = vitals.get(ordinal).and_then(|seen| {
                        let head = head_beside(observed, *ordinal);
                        self.follow(&pod.uid, observed.now, *seen, head)
                    });
                    stalls.extend(stall.map(|stall| (*ordinal, stall)));
                }
            }
        }
        stalls.extend(self.note_idle(observed));
        for (ordinal, stall) in stalls {
            if let Some(pod) = observed.pods.get_mut(&ordinal) {
                pod.stall = Some(stall);
            }
        }
    }

    /// A member whose raft has stopped answers what it has in memory, and names the leader that it had. Where it confirms no
    /// member list and its log does not grow, there is no leader.
    fn note_idle(&mut self, observed: &Observed) -> BTreeMap<u32, Stall> {
        if observed.etcd.members.is_some() {
            self.idle.clear();
            return BTreeMap::new();
        }
        let pods = observed.pods.iter().filter_map(|(ordinal, pod)| {
            let led = pod.serving().filter(|serving| serving.leader != 0);
            let Some(serving) = led else {
                self.idle.remove(&pod.uid);
                return None;
            };
            let seen = (observed.now, serving.raft_index);
            let began = self.idle.entry(pod.uid.clone()).or_insert(seen);
            if began.1 != serving.raft_index {
                *began = seen;
            }
            let stall = Stall {
                since: began.0,
                stuck: true,
                log: None,
                database: None,
            };
            stall.is_hang(observed.now).then_some((*ordinal, stall))
        });
        pods.collect()
    }

    fn follow(&mut self, uid: &str, now: Timestamp, seen: Vitals, head: u64) -> Option<Stall> {
        // Behind a partition it follows no leader, and a snapshot takes its time.
        if !seen.led || seen.busy {
            self.late.remove(uid);
            return None;
        }
        let began = self.late.entry(uid.to_owned()).or_insert((now, seen));
        if seen.is_younger(&began.1) {
            *began = (now, seen);
        }
        let stall = Stall::new(began, &seen, head);
        if stall.stuck || stall.is_slow(now) {
            return Some(stall);
        }
        *began = (now, seen);
        None
    }
}

/// Voters whose agents should be asked what they are doing: one that has started and does not serve, one that
/// Kubernetes does not call ready, and one that is far behind.
pub fn doubts(observed: &Observed) -> BTreeSet<u32> {
    let list = observed.etcd.members.as_ref();
    let doubtful = |voter: &Member| {
        let ordinal = observed.ordinal_of(voter)?;
        let pod = observed.pods.get(&ordinal).filter(|pod| !pod.terminating)?;
        let doubtful = match &pod.process {
            Process::Unknown | Process::Refusing(_) | Process::Held(_) => false,
            Process::Starting => true,
            Process::Serving(serving) => {
                let behind = head_beside(observed, ordinal).saturating_sub(serving.applied_index);
                serving.member_id == voter.id
                    && serving.leader != 0
                    && (!pod.ready || behind > BEHIND)
            }
        };
        doubtful.then_some(ordinal)
    };
    let voters = list.into_iter().flat_map(MemberList::voters);
    voters.filter_map(doubtful).collect()
}

/// Whether it answers no read that a quorum must confirm; `None` while that is not known.
fn is_suspect(observed: &Observed, ordinal: u32, pod: &Pod) -> Option<bool> {
    let unknown = matches!(pod.process, Process::Unknown | Process::Refusing(_));
    if observed.etcd.members.is_none() || unknown {
        return None;
    }
    if !doubts(observed).contains(&ordinal) {
        return Some(false);
    }
    match pod.serving() {
        Some(serving) => serving.reads.map(|answers| !answers),
        None => Some(true),
    }
}

/// How far the others are.
fn head_beside(observed: &Observed, ordinal: u32) -> u64 {
    let others = observed.pods.iter().filter(|(other, _)| **other != ordinal);
    let ours = observed.etcd.members.as_ref().map(|list| list.cluster_id);
    let serving = others.filter_map(|(_, pod)| pod.serving());
    let serving = serving.filter(|serving| Some(serving.cluster_id) == ours);
    serving.map(|s| s.applied_index).max().unwrap_or(0)
}

impl Observed {
    /// A member that answers follows a leader, and is not known to hang: one that does names its last leader for ever.
    pub fn is_led(&self) -> bool {
        self.pods.values().any(|pod| {
            let hangs = pod
                .stall
                .as_ref()
                .is_some_and(|stall| stall.is_hang(self.now));
            pod.serving().is_some_and(|serving| serving.leader != 0) && !hangs
        })
    }

    /// What is known of a voter that runs and has not kept up for so long that it hangs.
    pub fn hangs(&self, member: &Member) -> Option<&Stall> {
        let pod = self.pods.get(&self.ordinal_of(member)?)?;
        let stall = pod.stall.as_ref().filter(|stall| stall.is_hang(self.now))?;
        let same = pod.serving().is_none_or(|s| s.member_id == member.id);
        (same && !member.learner && !pod.terminating).then_some(stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap_or(Timestamp::MAX)
    }

    fn seen(applied: u64, count: u64, millis: u64) -> Vitals {
        Vitals {
            applied,
            led: true,
            busy: false,
            log: Some(Writes { count, millis }),
            database: None,
        }
    }

    /// What is watched of one pod, second by second; the others are always ahead.
    fn watch(looks: &[(i64, Vitals)]) -> Option<(Stall, Timestamp)> {
        let mut watch = Watch::default();
        let mut last = None;
        for (second, vitals) in looks {
            let stall = watch.follow("pod", at(*second), *vitals, 1_000_000);
            last = stall.map(|stall| (stall, at(*second)));
        }
        last
    }

    fn hangs(looks: &[(i64, Vitals)]) -> Option<String> {
        let (stall, now) = watch(looks)?;
        stall.is_hang(now).then(|| stall.describe(now))
    }

    #[test]
    fn an_index_that_stands_still_for_half_a_minute_is_a_hang() {
        let well = |second: i64, count| (second, seen(7, count, count));
        let stuck = [well(0, 100), well(10, 10_000), well(30, 30_000)];
        let words = "it has applied nothing since 08:00:00 UTC";
        assert_eq!(hangs(&stuck).as_deref(), Some(words));
        assert_eq!(hangs(&[well(0, 100), well(29, 29_000)]), None, "too early");
    }

    #[test]
    fn an_index_that_rises_on_a_quick_disk_is_alive() {
        let rising: Vec<(i64, Vitals)> = (0..100)
            .map(|second| {
                let step = u64::try_from(second).unwrap_or(0);
                (second, seen(7 + step / 20, 20 * step, 20 * step))
            })
            .collect();
        assert_eq!(hangs(&rising), None);
    }

    #[test]
    fn a_disk_that_takes_seconds_is_named_even_if_the_index_rises() {
        // As etcd measures it.
        let slow = [(0, seen(7, 100, 500)), (31, seen(90, 106, 31_700))];
        let words = "its disk takes 5 s per write (fsync)";
        assert_eq!(hangs(&slow).as_deref(), Some(words));
        // Where the time is lost outside of what etcd measures.
        let late = [(0, seen(7, 100, 500)), (30, seen(90, 106, 530))];
        let words = "it completes only one disk write every 5 s";
        assert_eq!(hangs(&late).as_deref(), Some(words));
        // A write that never ends is in no histogram.
        let never = [(0, seen(7, 100, 500)), (40, seen(7, 100, 500))];
        let words = "it has completed no disk write since 08:00:00 UTC";
        assert_eq!(hangs(&never).as_deref(), Some(words));
    }

    #[test]
    fn a_member_that_takes_a_snapshot_has_no_leader_or_was_restarted_does_not_hang() {
        let begin = (0, seen(7, 100, 500));
        let busy = Vitals {
            busy: true,
            ..seen(7, 100, 500)
        };
        let alone = Vitals {
            led: false,
            ..seen(7, 100, 500)
        };
        for between in [busy, alone, seen(7, 3, 3)] {
            let looks = [begin, (20, between), (40, seen(7, 100, 500))];
            assert_eq!(hangs(&looks), None, "{between:?}");
        }
    }
}
