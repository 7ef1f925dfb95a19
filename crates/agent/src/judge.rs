//! May etcd start on what lies on the volume? A pure function from what was seen to start or wait.
//! No IO, no clock; what a grant may change is judged in [`crate::permit`].

use gate::{Identity, State};

use crate::wal::{Head, Position};

#[cfg(test)]
mod tests;

/// What was seen on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Where the rest was seen.
    pub(crate) place: Place,
    /// The newest WAL file.
    pub(crate) wal: Wal,
    /// Whether a database or a snapshot lies in `member/snap`.
    pub(crate) database: bool,
    /// The identity file beside the data.
    pub(crate) identity: IdentityFile,
    /// How far the log goes; read only when the head alone did not suffice to start.
    pub(crate) log: Option<Log>,
}

/// Where on the volume etcd's files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In `data/`, where this agent starts etcd.
    Data,
    /// In the volume's root, where an earlier operator started it. Nothing lies in `data/`.
    Root,
}

/// The newest WAL file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wal {
    /// There is no WAL file at all.
    Absent,
    /// There are WAL files, but the newest has no valid head.
    Unreadable(String),
    /// Its head.
    Head(Head),
}

/// The identity file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdentityFile {
    /// There is none.
    Absent,
    /// There is one, but it does not say who it is.
    Unreadable(String),
    /// It says this.
    Says(Identity),
}

/// The end of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// The last entry.
    pub(crate) last: Position,
    /// The last commit index that was recorded.
    pub(crate) commit: u64,
    /// Where and why it cannot be read further.
    pub(crate) damage: Option<String>,
    /// It is longer than what is read at most: the numbers are a lower bound.
    pub(crate) goes_on: bool,
    /// When it was last written to, in seconds since 1970.
    pub(crate) written: Option<i64>,
}

/// A fence that says nothing legible lets no incarnation pass.
pub(crate) const UNREADABLE_FENCE: u64 = u64::MAX;

/// Start or wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The data is ours: etcd starts without a permission.
    Start,
    /// A permission is needed; why, and one sentence for people.
    Wait(State, String),
}

/// Judges what was seen for the `EtcdCluster` with `cluster_uid`, behind a fence if there is one.
///
/// Invariant: behind a fence nothing of an earlier incarnation starts, nor anything that does not tell its
/// incarnation (`nothing_of_an_earlier_incarnation_passes_the_fence`).
///
/// Invariant: `Start` needs a readable WAL; an empty directory always waits
/// (`nothing_starts_without_a_wal_that_names_us`). A damaged tail of our own log is etcd's to judge:
/// it repairs what it can and exits otherwise, and looking that deep on every start would cost. Data in
/// the volume's root waits whatever the identity file says: that file was written for other data
/// (`data_in_the_root_waits_whatever_the_identity_file_says`).
pub(crate) fn judge(seen: &Seen, cluster_uid: &str, fence: Option<u64>) -> Verdict {
    let head = match &seen.wal {
        Wal::Absent if seen.database => {
            let (place, identity) = (name(seen.place), describe(&seen.identity));
            let detail = format!("a database without any WAL{place}{identity}");
            return Verdict::Wait(State::Damaged, detail);
        }
        Wal::Absent => {
            let detail = format!("the data directory is empty{}", describe(&seen.identity));
            return Verdict::Wait(State::Empty, detail);
        }
        Wal::Unreadable(why) => {
            let (place, identity) = (name(seen.place), describe(&seen.identity));
            let detail = format!("the WAL{place} cannot be read: {why}{identity}");
            return Verdict::Wait(State::Damaged, detail);
        }
        Wal::Head(head) => head,
    };
    let doubt = match seen.place {
        Place::Data => doubt(head, &seen.identity, cluster_uid, fence),
        Place::Root => Some((
            State::Unidentified,
            format!(
                "data{}, as an earlier operator left it{}",
                name(seen.place),
                describe(&seen.identity)
            ),
        )),
    };
    let Some((state, detail)) = doubt else {
        return Verdict::Start;
    };
    match &seen.log {
        Some(Log {
            damage: Some(why), ..
        }) => {
            let detail = format!("the WAL is damaged: {why}; {detail}");
            Verdict::Wait(State::Damaged, detail)
        }
        Some(Log { goes_on: true, .. }) => {
            let detail = format!("{detail}; its log goes on beyond what was read");
            Verdict::Wait(state, detail)
        }
        Some(_) | None => Verdict::Wait(state, detail),
    }
}

/// As [`judge`], for data that would start: does its log reach as far as this member is known to have come?
///
/// Invariant: what starts reaches its floor, as far as the log could be read
/// (`data_below_its_floor_waits`).
pub(crate) fn judge_length(log: &Log, floor: u64) -> Verdict {
    let (index, short) = (log.last.index, log.last.index < floor);
    // A log that cannot be read to its end is etcd's to judge, and one that was not read to its end says too little.
    if !short || log.damage.is_some() || log.goes_on {
        return Verdict::Start;
    }
    let detail = format!(
        "the log ends at index {index}, but this member is known to have applied {floor}: the volume was rolled back"
    );
    Verdict::Wait(State::RolledBack, detail)
}

/// As [`judge`], for data that would start: is it the volume of another pod? Under two names at once one member would
/// be reached by no other member, or by members that look for another one.
///
/// Invariant: what starts was last let through in a pod of this name, where both are known
/// (`the_volume_of_another_pod_waits`).
pub(crate) fn judge_pod(identity: &IdentityFile, pod: Option<&str>) -> Verdict {
    let written = match identity {
        IdentityFile::Says(identity) => identity.pod.as_deref(),
        IdentityFile::Absent | IdentityFile::Unreadable(_) => None,
    };
    match (written, pod) {
        (Some(written), Some(pod)) if written != pod => {
            let detail = format!("the volume is that of {written}: volumes were exchanged");
            Verdict::Wait(State::Mismatch, detail)
        }
        _same_or_unknown => Verdict::Start,
    }
}

/// Why data with a readable head may not be ours; `None` when it is.
fn doubt(
    head: &Head,
    identity: &IdentityFile,
    cluster_uid: &str,
    fence: Option<u64>,
) -> Option<(State, String)> {
    let unidentified = |detail: String| match fence {
        Some(fence) => Some((State::Fenced, format!("{detail}{}", describe_fence(fence)))),
        None => Some((State::Unidentified, detail)),
    };
    let identity = match identity {
        IdentityFile::Absent => return unidentified("data without an identity file".into()),
        IdentityFile::Unreadable(why) => {
            return unidentified(format!("data with an unreadable identity file: {why}"));
        }
        IdentityFile::Says(identity) => identity,
    };
    if identity.cluster_uid != cluster_uid {
        let detail = format!("data of the EtcdCluster with UID {}", identity.cluster_uid);
        return Some((State::OtherObject, detail));
    }
    for (what, expected, found) in [
        ("member", &identity.member_id, head.member_id),
        ("cluster", &identity.cluster_id, head.cluster_id),
    ] {
        let Some(expected) = expected else { continue };
        if parse_id(expected) != Some(found) {
            let detail =
                format!("the identity file names {what} {expected}, the WAL names {found:x}");
            return Some((State::Mismatch, detail));
        }
    }
    let incarnation = identity.incarnation;
    let fence = fence.filter(|fence| incarnation < *fence)?;
    let detail = format!("data of incarnation {incarnation}{}", describe_fence(fence));
    Some((State::Fenced, detail))
}

fn describe_fence(fence: u64) -> String {
    match fence {
        UNREADABLE_FENCE => ", held back by a fence that cannot be read".into(),
        fence => format!(", held back by the fence of incarnation {fence}"),
    }
}

/// An ID as etcd prints it; zero is no ID.
pub(crate) fn parse_id(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|id| *id != 0)
}

/// A place that a person would not expect.
fn name(place: Place) -> &'static str {
    match place {
        Place::Data => "",
        Place::Root => " in the volume's root (member/)",
    }
}

/// What the identity file adds when the data itself says nothing.
fn describe(identity: &IdentityFile) -> String {
    match identity {
        IdentityFile::Absent => String::new(),
        IdentityFile::Unreadable(why) => format!("; the identity file is unreadable: {why}"),
        IdentityFile::Says(identity) => {
            let Identity {
                cluster_uid,
                incarnation,
                nonce,
                pod: _,
                member_id,
                cluster_id: _,
                transport: _,
            } = identity;
            let member = member_id
                .as_ref()
                .map_or_else(String::new, |id| format!(", member {id}"));
            format!(
                "; a start was granted here before: EtcdCluster {cluster_uid}, incarnation \
                 {incarnation}{member}, nonce {nonce}"
            )
        }
    }
}
