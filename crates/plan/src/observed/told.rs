//! Whether a pod has heard of its grant. The kubelet carries annotations into a pod, and now and then one is left behind: a
//! change that comes while it writes the one before is written a minute later, with the next look at the pod.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use super::Pod;

/// When a pod was last annotated with its grant, and how often after the first time. Written beside the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// When, to the second.
    pub at: Timestamp,
    /// How often again.
    pub again: u32,
}

impl Told {
    /// The first time.
    pub fn first(now: Timestamp) -> Self {
        Self { at: now, again: 0 }
    }

    /// Once more.
    #[must_use]
    pub fn once_more(self, now: Timestamp) -> Self {
        Self {
            at: now,
            again: self.again.saturating_add(1),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.at.as_second(), self.again)
    }
}

impl FromStr for Told {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(' ');
        let told = parts.and_then(|(at, again)| {
            Some(Self {
                at: Timestamp::from_second(at.parse().ok()?).ok()?,
                again: again.parse().ok()?,
            })
        });
        told.ok_or_else(|| format!("{text:?} is not seconds since 1970 and a number"))
    }
}

impl Pod {
    /// It was let through for this very wait, but the wait has not ended as far as we can see.
    pub fn is_granted(&self) -> bool {
        match (&self.grant, self.held()) {
            (Some(grant), Some(report)) => grant.nonce == report.nonce,
            _other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let told = Told::first(Timestamp::UNIX_EPOCH).once_more(Timestamp::UNIX_EPOCH);
        assert_eq!(told.to_string(), "0 1");
        assert_eq!("0 1".parse(), Ok(told));
        for nonsense in ["", "0", "now 1", "0 -1"] {
            nonsense.parse::<Told>().unwrap_err();
        }
    }
}
