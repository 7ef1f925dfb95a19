//! What members are disturbed for on purpose: at most one thing at a time, recorded before it begins.

use api::v1alpha1::status::TrialIntent;

use super::Latched;

/// What is under way because it was wished for. A repair does not wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A member is restarted on another template, or is the first to try it.
    Trial(TrialIntent),
    /// A member is defragmented.
    Defragment {
        /// Its name.
        member: String,
    },
    /// Members are made to take a snapshot, so that nothing older is left in their logs.
    RenewLogs,
}

impl Latched {
    /// The member that tries another template.
    pub fn trial(&self) -> Option<&TrialIntent> {
        match &self.disturbance {
            Some(Disturbance::Trial(trial)) => Some(trial),
            Some(Disturbance::Defragment { .. } | Disturbance::RenewLogs) | None => None,
        }
    }

    /// The member that is defragmented.
    pub fn defragmenting(&self) -> Option<&String> {
        match &self.disturbance {
            Some(Disturbance::Defragment { member }) => Some(member),
            Some(Disturbance::Trial(_) | Disturbance::RenewLogs) | None => None,
        }
    }

    /// Members are made to take a snapshot.
    pub fn is_renewing(&self) -> bool {
        self.disturbance == Some(Disturbance::RenewLogs)
    }

    /// The same with another disturbance, which takes the place of the one before.
    #[must_use]
    pub fn with_disturbance(self, disturbance: Disturbance) -> Self {
        let disturbance = Some(disturbance);
        Self {
            disturbance,
            ..self
        }
    }

    /// The same with a trial in the place of any disturbance; with none, the trial has ended and anything else goes on.
    #[must_use]
    pub fn with_trial(self, trial: Option<TrialIntent>) -> Self {
        match trial {
            Some(trial) => self.with_disturbance(Disturbance::Trial(trial)),
            None if self.trial().is_some() => self.undisturbed(),
            None => self,
        }
    }

    /// The same without any disturbance.
    #[must_use]
    pub fn undisturbed(self) -> Self {
        let disturbance = None;
        Self {
            disturbance,
            ..self
        }
    }

    /// The same for a repair that begins: what waits until every member is well is dropped, and begins again after it. A
    /// trial is another matter: a pod may be on its way to another template, and the rules for trials see to its end.
    #[must_use]
    pub fn for_repair(self) -> Self {
        if self.trial().is_some() {
            self
        } else {
            self.undisturbed()
        }
    }
}
