//! What a pod shows of itself.

use gate::Report;

use super::{Pod, Process, Serving};

impl Pod {
    /// The report of an agent that waits.
    pub fn held(&self) -> Option<&Report> {
        match &self.process {
            Process::Held(report) => Some(report),
            Process::Unknown | Process::Refusing(_) | Process::Starting | Process::Serving(_) => {
                None
            }
        }
    }

    /// The member that serves.
    pub fn serving(&self) -> Option<&Serving> {
        match &self.process {
            Process::Serving(serving) => Some(serving),
            Process::Unknown | Process::Refusing(_) | Process::Starting | Process::Held(_) => None,
        }
    }

    /// Kubernetes says that its container cannot start, and no answer comes from it.
    pub fn runs_nothing(&self) -> bool {
        self.problem.is_some() && self.process == Process::Unknown
    }

    /// Nothing of etcd runs in it, and it was never let through. One that merely does not answer may well run: on data
    /// of its own etcd starts without a grant.
    pub fn is_unstarted(&self) -> bool {
        match &self.process {
            Process::Unknown => self.runs_nothing() && self.grant.is_none(),
            Process::Held(_) => self.grant.is_none(),
            Process::Refusing(_) | Process::Starting | Process::Serving(_) => false,
        }
    }
}
