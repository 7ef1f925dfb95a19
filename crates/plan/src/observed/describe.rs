//! What a pod is doing, for sentences that name what is waited for.

use std::fmt;

use super::{Observed, Pod, Process};

/// What a pod is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// There is none.
    NoPod,
    /// At its address something else responds.
    Stranger(String),
    /// It serves, and has no leader.
    Leaderless,
    /// It serves, and does not keep up.
    Late,
    /// It serves.
    Serves,
    /// Its agent waits for permission to start, and says why.
    Waits(String),
    /// It responds, but not to the operator, for this cause.
    Refuses(String),
    /// etcd runs, and does not serve yet.
    Starts,
    /// It cannot start, for this cause.
    Fails(String),
    /// It does not respond, for no known cause.
    Silent,
}

impl Doing {
    /// What this pod is doing, if there is one.
    pub fn of(pod: Option<&Pod>) -> Self {
        let Some(pod) = pod else {
            return Self::NoPod;
        };
        if let Some(stranger) = &pod.stranger {
            return Self::Stranger(stranger.clone());
        }
        match (&pod.problem, &pod.process) {
            (_, Process::Serving(serving)) if serving.leader == 0 => Self::Leaderless,
            (_, Process::Serving(_)) if pod.stall.is_some() => Self::Late,
            (_, Process::Serving(_)) => Self::Serves,
            (_, Process::Held(report)) => Self::Waits(report.detail.clone()),
            (_, Process::Refusing(why)) => Self::Refuses(why.clone()),
            (_, Process::Starting) => Self::Starts,
            (Some(problem), Process::Unknown) => Self::Fails(problem.clone()),
            (None, Process::Unknown) => Self::Silent,
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPod => out.write_str("has no pod"),
            Self::Stranger(stranger) => {
                write!(out, "does not respond: at its address {stranger} responds")
            }
            Self::Leaderless => out.write_str("has no leader"),
            Self::Late => out.write_str("serves but does not keep up"),
            Self::Serves => out.write_str("serves"),
            Self::Waits(detail) => write!(out, "waits for permission to start ({detail})"),
            Self::Refuses(why) => write!(out, "responds, but not to the operator: {why}"),
            Self::Starts => out.write_str("is running but does not serve yet"),
            Self::Fails(problem) => write!(out, "cannot start: {problem}"),
            Self::Silent => out.write_str("does not respond"),
        }
    }
}

/// What a pod is doing, in a few words.
pub(crate) fn describe(pod: &Pod) -> String {
    Doing::of(Some(pod)).to_string()
}

impl Observed {
    /// What the pod of an ordinal is doing.
    pub(crate) fn doing(&self, ordinal: u32) -> Doing {
        Doing::of(self.pods.get(&ordinal))
    }
}
