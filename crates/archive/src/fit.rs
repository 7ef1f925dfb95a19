//! An answer as the text of a termination message. The kubelet cuts what is too long, and half a JSON tells nothing: so
//! what is least needed goes first.

use crate::work::{ANSWER_LIMIT, Answer, Done};

impl Answer {
    /// Its JSON, in at most [`ANSWER_LIMIT`] bytes: with fewer of the newest bases, or shorter sentences, where it must be.
    pub fn to_message(&self) -> String {
        let mut answer = self.clone();
        loop {
            let text = serde_json::to_string(&answer).unwrap_or_default();
            if text.len() <= ANSWER_LIMIT || !answer.shorten() {
                return text;
            }
        }
    }

    /// Gives up a little of what can be done without; whether there was anything.
    fn shorten(&mut self) -> bool {
        match self {
            Self::Failed { message, .. } => halve(message),
            Self::Done(Done::Snapshot(made)) => {
                let is_long = |text: &&mut String| text.len() > 500;
                if let Some(unpruned) = made.unpruned.as_mut().filter(is_long) {
                    return halve(unpruned);
                }
                made.newest.pop().is_some() || made.unpruned.take().is_some()
            }
            Self::Done(Done::Verify(_) | Done::Fetch(_)) => false,
        }
    }
}

/// Keeps the first half of a text; whether it had one.
fn halve(text: &mut String) -> bool {
    let kept = text.chars().count() / 2;
    let shorter: String = text.chars().take(kept).collect();
    if shorter.is_empty() {
        return false;
    }
    *text = shorter;
    true
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::work::{Base, Cause, Listed, Made};

    fn made(bases: usize, unpruned: &str) -> Answer {
        let listed = Listed {
            id: "x".repeat(60),
            time: Timestamp::UNIX_EPOCH,
            revision: i64::MAX,
            bytes: u64::MAX,
            verified: Some(Timestamp::UNIX_EPOCH),
            damaged: true,
        };
        Answer::Done(Done::Snapshot(Made {
            base: Base {
                id: "x".repeat(60),
                url: "s3://".to_owned() + &"y".repeat(1000),
                time: Timestamp::UNIX_EPOCH,
                revision: 1,
                compact_revision: 0,
                stored_bytes: 1,
                raw_bytes: 1,
                etcd_version: "3.6.16".to_owned(),
            },
            pruned: 0,
            unpruned: Some(unpruned.to_owned()),
            newest: vec![listed; bases],
        }))
    }

    #[test]
    fn what_fits_is_told_whole() {
        let answer = made(3, "locked");
        let read: Answer = serde_json::from_str(&answer.to_message()).unwrap();
        assert_eq!(read, answer);
    }

    #[test]
    fn a_long_answer_keeps_its_base() {
        let text = made(1000, &"ü\n".repeat(5000)).to_message();
        assert!(text.len() <= ANSWER_LIMIT);
        let Answer::Done(Done::Snapshot(read)) = serde_json::from_str(&text).unwrap() else {
            panic!("{text}");
        };
        assert_eq!(read.base.revision, 1);
        assert!(!read.newest.is_empty());
    }

    #[test]
    fn a_long_sentence_is_cut_between_characters() {
        let failed = Answer::Failed {
            cause: Cause::Store,
            message: "\u{1}ü".repeat(3000),
        };
        let text = failed.to_message();
        assert!(text.len() <= ANSWER_LIMIT);
        assert!(serde_json::from_str::<Answer>(&text).is_ok());
    }
}
