//! Who of the voters is left, who is gone for good, and who merely does not answer: silence is no proof, for two
//! voters behind a partition still are a quorum.

use std::collections::BTreeSet;

use gate::State;

use crate::observed::{NodeState, Observed, Pod, Process, parse_id, quorum};
use crate::why::Voters;

/// What is known of every voter.
pub(super) struct Account {
    /// Those who have data, and what they say.
    survivors: Vec<String>,
    gone: Vec<String>,
    silent: Vec<String>,
    /// Those who have data and, as far as is known, no vote. etcd does not go on from what a learner has; but one of them
    /// may have been promoted since a member was last asked.
    voteless: Vec<String>,
    voters: usize,
    /// Of the survivors, those whose volumes hold less than they once did, or are those of other members. They do not
    /// start by themselves, and what they lack may exist elsewhere.
    held_back: usize,
}

impl Account {
    /// Of every ordinal that may have a vote: there is no member that could be asked for the list.
    pub(super) fn of(observed: &Observed) -> Self {
        let mut account = Self {
            survivors: Vec::new(),
            gone: Vec::new(),
            silent: Vec::new(),
            voteless: Vec::new(),
            voters: 0,
            held_back: 0,
        };
        let voters = voters(observed);
        for (ordinal, pod) in &observed.pods {
            if let Some(has) = holds(observed, pod).filter(|_| !voters.contains(ordinal)) {
                let name = observed.member_name(*ordinal);
                account.voteless.push(format!("{name} {has}"));
            }
        }
        for ordinal in voters {
            account.voters = account.voters.saturating_add(1);
            let name = observed.member_name(ordinal);
            let pod = observed.pods.get(&ordinal);
            if let Some(why) = why_gone(observed, ordinal) {
                account.gone.push(format!("{name}: {why}"));
            } else if let Some(has) = pod.and_then(|pod| holds(observed, pod)) {
                let starts = pod.is_some_and(|pod| pod.process == Process::Starting);
                let had = known_index(observed, ordinal);
                let has = if starts { format!("{has}{had}") } else { has };
                let held = pod.and_then(Pod::held);
                let back = held.is_some_and(|report| {
                    report.state == State::RolledBack || observed.is_exchanged(ordinal, report)
                });
                account.held_back = account.held_back.saturating_add(usize::from(back));
                account.survivors.push(format!("{name} {has}"));
            } else {
                let what = observed.doing(ordinal);
                let node = silent_node(observed, ordinal);
                let had = known_index(observed, ordinal);
                account
                    .silent
                    .push(format!("{name} {what}{node}, which proves nothing{had}"));
            }
        }
        account
    }

    /// So many are gone, or held back, that the rest is no quorum.
    pub(super) fn is_hopeless(&self) -> bool {
        let lost = self.gone.len().saturating_add(self.held_back);
        self.voters.saturating_sub(lost) < quorum(self.voters)
    }

    /// Some have data and could go on with it, and those who answer are no quorum, whatever becomes of them.
    pub(super) fn is_short_of_a_quorum(&self) -> bool {
        let here = self.survivors.len().saturating_sub(self.held_back);
        !self.survivors.is_empty() && here < quorum(self.voters)
    }

    /// Nor is there one that may have been promoted unseen.
    pub(super) fn has_no_data(&self) -> bool {
        self.survivors.is_empty() && self.voteless.is_empty()
    }

    pub(super) fn all_gone(&self) -> bool {
        self.voters > 0 && self.gone.len() == self.voters
    }

    /// For a sentence.
    pub(super) fn tell(&self) -> Voters {
        Voters {
            gone: self.gone.clone(),
            left: self.survivors.clone(),
            silent: self.silent.clone(),
            voteless: self.voteless.clone(),
        }
    }
}

/// It voted when a member could last be asked.
pub(super) fn voted(observed: &Observed, ordinal: u32) -> bool {
    voters(observed).contains(&ordinal)
}

/// The voters, as last listed; every member with a pod where that was never recorded.
fn voters(observed: &Observed) -> BTreeSet<u32> {
    let (cluster, replicas) = (&observed.cluster, observed.objects.replicas);
    if cluster.latched.voters.is_empty() {
        return (0..replicas.or(cluster.latched.replicas).unwrap_or(0)).collect();
    }
    let known = cluster.latched.voters.iter();
    known
        .filter_map(|voter| api::names::ordinal(&cluster.name, &voter.member))
        .collect()
}

/// Every voter that is missing is proved to be gone, and those who are left are no quorum.
pub(super) fn is_proved(observed: &Observed) -> bool {
    let account = Account::of(observed);
    let sure = account.silent.is_empty() && account.held_back == 0;
    account.is_hopeless() && sure && !account.survivors.is_empty()
}

/// This ordinal's data can never come back.
pub(in crate::cluster) fn is_gone_for_good(observed: &Observed, ordinal: u32) -> bool {
    why_gone(observed, ordinal).is_some()
}

/// A fact that proves it, in a few words.
fn why_gone(observed: &Observed, ordinal: u32) -> Option<String> {
    let name = observed.member_name(ordinal);
    let mut leaving = observed.cluster.latched.retiring.iter();
    // It may have been removed since a member was last asked, and then its loss proves nothing.
    if leaving.any(|leaving| leaving.member == name) {
        return None;
    }
    let pod = observed.pods.get(&ordinal);
    let Some(claim) = observed.claims.get(&ordinal) else {
        return Some("its claim does not exist".to_owned());
    };
    if let Some(report) = pod.and_then(Pod::held) {
        return match report.state {
            State::Empty => Some("its volume is empty".to_owned()),
            State::Damaged => Some("the data on its volume cannot be read".to_owned()),
            State::OtherObject
            | State::Unidentified
            | State::Mismatch
            | State::Fenced
            | State::RolledBack => None,
        };
    }
    if pod.is_some_and(|pod| pod.process != Process::Unknown) {
        return None;
    }
    if let Some(why) = &claim.lost {
        return Some(format!("its volume is gone: {why}"));
    }
    let binding = observed
        .node_bindings
        .get(&ordinal)
        .filter(|binding| binding.took_volume())?;
    match binding.state {
        NodeState::Deleted => Some(format!("its node {} does not exist any more", binding.node)),
        NodeState::OutOfService => Some(format!("its node {} is out of service", binding.node)),
        NodeState::Ready | NodeState::NotReady(_) => None,
    }
}

/// What its node says, where that is asked for and says anything.
fn silent_node(observed: &Observed, ordinal: u32) -> String {
    match observed.node_bindings.get(&ordinal) {
        Some(binding) => match binding.state {
            NodeState::NotReady(since) if since < observed.now => {
                let since = since.strftime("%F %H:%M UTC");
                format!(", its node {} has not reported since {since}", binding.node)
            }
            NodeState::NotReady(_) => format!(", its node {} does not report", binding.node),
            NodeState::Ready | NodeState::OutOfService | NodeState::Deleted => String::new(),
        },
        None => String::new(),
    }
}

/// How far it is known to have come while a quorum served, where it does not say so itself.
fn known_index(observed: &Observed, ordinal: u32) -> String {
    let name = observed.member_name(ordinal);
    let mut voters = observed.cluster.latched.voters.iter();
    let known = voters
        .find(|voter| voter.member == name)
        .and_then(|voter| voter.index);
    known.map_or_else(String::new, |index| {
        format!("; it had index {index} or more")
    })
}

/// What a pod that has data of this cluster says of it.
fn holds(observed: &Observed, pod: &Pod) -> Option<String> {
    match &pod.process {
        Process::Serving(serving) => {
            let hangs = pod.stall.as_ref().map_or_else(String::new, |stall| {
                format!("; it names a leader, but {}", stall.describe(observed.now))
            });
            Some(format!(
                "serves without a quorum, at revision {}, index {}{hangs}",
                serving.space.revision, serving.raft_index
            ))
        }
        Process::Starting => Some("is running and waits for a quorum".to_owned()),
        Process::Held(report) => {
            let data = report.data.as_ref()?;
            let ours = parse_id(&data.cluster_id) == observed.cluster.latched.cluster_id;
            let (term, index) = (data.term, data.index);
            let age = data.written.map(|written| {
                let age = observed.now.as_second().saturating_sub(written);
                format!(", last written {} ago", spell(age))
            });
            let short = match report.state {
                State::RolledBack => ", less than it had before",
                State::Mismatch => ", on a volume that is not its own",
                _other => "",
            };
            let age = age.unwrap_or_default();
            ours.then(|| format!("has term {term}, index {index}{short}{age}"))
        }
        Process::Unknown | Process::Refusing(_) => None,
    }
}

/// Volumes that hold data of an incarnation that was given up.
pub(super) fn earlier_lives(observed: &Observed) -> Vec<String> {
    let held = observed.pods.iter().filter_map(|(ordinal, pod)| {
        let report = pod.held().filter(|report| report.state == State::Fenced)?;
        let data = report.data.as_ref()?;
        let name = observed.member_name(*ordinal);
        let (cluster, index) = (&data.cluster_id, data.index);
        Some(format!("{name} has cluster {cluster}, index {index}"))
    });
    held.collect()
}

/// Rounded, so that a sentence does not change with every look.
fn spell(seconds: i64) -> String {
    match seconds {
        ..60 => "less than a minute".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}
