//! Objects that cannot be written as they should be: the API server refuses them, something changes them back, or they
//! belong to another owner. What was answered is kept in memory between two looks, so that such a write is tried again
//! with a back-off and holds up nothing but what needs it. Pure; losing it costs one more try.

use std::collections::BTreeMap;
use std::fmt;

use api::names;
use jiff::{SignedDuration, Timestamp};
use manifests::Kind;

use crate::decision::Decision;
use crate::observed::{Failures, Missing, Observed, Recorded, Restarts};
use crate::status::Outcome;

/// Longest pause between two tries.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);
/// Longest pause before it is looked whether an object still belongs to another owner; that costs little.
const FOREIGN: SignedDuration = SignedDuration::from_secs(30);
/// Longest pause after a write that was only put off: the API server may be back at any moment, and nothing reports it.
const PUT_OFF: SignedDuration = SignedDuration::from_secs(15);
/// A write that is put off for less is nothing to speak of: the caches are behind, or the API server was busy.
const WORTH_TELLING: SignedDuration = SignedDuration::from_secs(4);
/// How long an answer is remembered after its object may be tried again, should nothing want it any more.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(10);
/// Writes of other fields of an object that are let through although one was just written.
const OTHER_FIELDS: u32 = 3;
/// Characters of an answer that are repeated in a condition.
const WORDS: usize = 300;

/// An object that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The field that differs; `None` where the object is missing or should not exist.
    pub field: Option<String>,
    /// Fingerprint of what should be written. Another one is tried at once.
    pub body: u64,
    /// Of a StatefulSet: hash of the template that it should have and has not.
    pub template: Option<String>,
}

impl Wish {
    /// Only how far members have come is to be noted, for pods that are created later. It disturbs no member.
    fn is_note(&self) -> bool {
        let field = self.field.as_deref();
        self.kind == Kind::StatefulSet
            && field.is_some_and(|field| field.ends_with(gate::FLOORS_ANNOTATION))
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.name)?;
        match &self.field {
            Some(field) => write!(f, " ({field})"),
            None => Ok(()),
        }
    }
}

/// How a write was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was accepted. Where the object still differs afterwards, something changed it back.
    Written,
    /// It was put off: the object changed in between, or the API server was busy.
    Later(String),
    /// It was refused, in these words.
    Refused(String),
    /// An object of this name belongs to another owner, and was left alone.
    Foreign,
}

/// One write that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What was to be written.
    pub wish: Wish,
    /// How it was answered.
    pub answer: Answer,
    /// The field manager that owns the field which differs, unless that is us.
    pub manager: Option<String>,
}

/// An object that was tried and is still not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What should be written.
    pub wish: Wish,
    /// The last answer.
    pub answer: Answer,
    /// The field manager that owns the field which differs, unless that is us.
    pub manager: Option<String>,
    /// First of the tries that were answered so in a row.
    pub since: Timestamp,
    /// How many they are.
    pub tries: u32,
    /// When it may be tried again.
    pub retry_at: Timestamp,
}

impl Refused {
    /// It lasts: a person should hear of it.
    pub fn is_told(&self) -> bool {
        pause(&self.answer, self.tries) >= WORTH_TELLING
    }

    /// What is wrong, since when, what is being done, and what the reader can do.
    pub fn describe(&self) -> String {
        let (kind, name, since) = (self.wish.kind, &self.wish.name, self.since);
        let again =
            "it is retried at least every five minutes, and whatever does not need it continues";
        match &self.answer {
            Answer::Foreign => format!(
                "{kind:?} {name} has another owner and is left alone; whatever does not need it continues: delete or rename it, or give the EtcdCluster another name"
            ),
            Answer::Refused(words) => format!(
                "the API server has rejected {kind:?} {name} since {since}: {}; {again}: allow it, or change the spec",
                shortened(words)
            ),
            Answer::Later(words) => format!(
                "{kind:?} {name} could not be written since {since}: {}; {again}",
                shortened(words)
            ),
            Answer::Written => {
                let field = self.wish.field.as_deref().unwrap_or("the whole object");
                let by = self.manager.as_ref().map_or_else(
                    || {
                        "most likely by an admission webhook, because no other field manager owns it"
                            .to_owned()
                    },
                    |manager| format!("by the field manager {manager}"),
                );
                format!(
                    "{kind:?} {name} has been reverted after every write since {since}: {field}, {by}; {again}: exempt the objects of this cluster from that"
                )
            }
        }
    }
}

pub(super) fn shortened(words: &str) -> String {
    let mut short: String = words.chars().take(WORDS).collect();
    if short.len() < words.len() {
        short.push('…');
    }
    short
}

/// How long to leave an object alone after so many tries were answered so.
fn pause(answer: &Answer, tries: u32) -> SignedDuration {
    let first = match answer {
        // The caches are behind for a moment after every write.
        Answer::Written => 1000,
        Answer::Later(_) => 250,
        Answer::Refused(_) | Answer::Foreign => 5000,
    };
    let doubled = 1_i64
        .checked_shl(tries.saturating_sub(1))
        .filter(|_| tries < 32)
        .map_or(i64::MAX, |times| times.saturating_mul(first));
    let longest = match answer {
        Answer::Foreign => FOREIGN,
        Answer::Later(_) => PUT_OFF,
        Answer::Written | Answer::Refused(_) => LONGEST,
    };
    SignedDuration::from_millis(doubled).min(longest)
}

/// What was answered, by object, and which steps failed: the operator's memory of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    objects: BTreeMap<(Kind, String), Refused>,
    steps: Failures,
    restarts: Restarts,
    recorded: Recorded,
    missing: Missing,
}

impl Refusals {
    /// What a picture shows of it.
    pub(crate) fn of(refused: &[Refused]) -> Self {
        let known = refused.iter().map(|refused| {
            let key = (refused.wish.kind, refused.wish.name.clone());
            (key, refused.clone())
        });
        Self {
            objects: known.collect(),
            steps: Failures::default(),
            restarts: Restarts::default(),
            recorded: Recorded::default(),
            missing: Missing::default(),
        }
    }

    /// All of it.
    pub(crate) fn list(self) -> Vec<Refused> {
        self.objects.into_values().collect()
    }

    /// What is known right after these answers. Whether a write that was accepted is changed back shows at the next
    /// look only.
    pub(crate) fn follow(&mut self, now: Timestamp, attempts: &[Attempt]) {
        for attempt in attempts {
            let key = (attempt.wish.kind, attempt.wish.name.clone());
            if attempt.answer != Answer::Written {
                self.note(now, std::slice::from_ref(attempt));
            } else if self
                .objects
                .get(&key)
                .is_some_and(|known| known.answer != Answer::Written)
            {
                self.objects.remove(&key);
            }
        }
    }

    /// Takes note of how a step went, and of what was answered to each object that it wrote.
    pub fn note_step(&mut self, observed: &Observed, decision: &Decision, outcome: &Outcome) {
        match outcome {
            Outcome::Applied(attempts) => self.note(observed.now, attempts),
            Outcome::Done | Outcome::NotNow(_) | Outcome::Failed(_) => {
                self.steps.note(observed, decision, outcome);
                self.restarts.note(observed, decision, outcome);
            }
        }
    }

    /// Takes note of answers.
    pub fn note(&mut self, now: Timestamp, attempts: &[Attempt]) {
        for attempt in attempts {
            let key = (attempt.wish.kind, attempt.wish.name.clone());
            let before = self.objects.get(&key).filter(|known| {
                let alike = std::mem::discriminant(&known.answer)
                    == std::mem::discriminant(&attempt.answer);
                alike && known.wish.body == attempt.wish.body
            });
            let tries = before.map_or(1, |known| known.tries.saturating_add(1));
            let since = before.map_or(now, |known| known.since);
            let retry_at = now
                .checked_add(pause(&attempt.answer, tries))
                .unwrap_or(now);
            let known = Refused {
                wish: attempt.wish.clone(),
                answer: attempt.answer.clone(),
                manager: attempt.manager.clone(),
                since,
                tries,
                retry_at,
            };
            self.objects.insert(key, known);
        }
    }

    /// The wall clock was set by so much: what is left of every pause stays as it was.
    pub fn shift(&mut self, by: SignedDuration) {
        self.steps.shift(by);
        self.restarts.shift(by);
        self.recorded.shift(by);
        self.missing.shift(by);
        for known in self.objects.values_mut() {
            if let Ok(moved) = known.retry_at.checked_add(by) {
                known.retry_at = moved;
            }
        }
    }

    /// Puts what differs into the picture: what may be tried now, and what was tried in vain. What is as it should be
    /// is forgotten, but for a template that is still asked for: it is out of force only because it was refused.
    pub fn sort(&mut self, observed: &mut Observed, wishes: Vec<Wish>) {
        self.steps.sort(observed);
        self.restarts.sort(observed);
        self.recorded.sort(observed);
        self.missing.sort(observed);
        let now = observed.now;
        let asked = asked_for(observed);
        self.objects.retain(|(kind, name), known| {
            let mut same = wishes
                .iter()
                .filter(|wish| (wish.kind, &wish.name) == (*kind, &*name));
            let wanted = same.any(|wish| wish.body == known.wish.body);
            let fresh = now.duration_since(known.retry_at) < REMEMBERED;
            wanted || (known.wish.template.is_some() && known.wish.template == asked && fresh)
        });
        let objects = &mut observed.objects;
        objects.drifted.clear();
        objects.held.clear();
        for wish in wishes {
            let known = self.objects.get(&(wish.kind, wish.name.clone()));
            let known = known.filter(|known| known.wish.body == wish.body);
            let held = known.is_some_and(|known| {
                let other = known.wish.field != wish.field && known.tries < OTHER_FIELDS;
                let other = other && known.answer == Answer::Written;
                known.retry_at > now && !other
            });
            if held {
                objects.held.push((wish.kind, wish.name));
            } else {
                objects.drifted.push(wish);
            }
        }
        objects.refused.extend(self.objects.values().cloned());
    }
}

/// The template that is asked for and not in force yet.
fn asked_for(observed: &Observed) -> Option<String> {
    let target = observed.cluster.target.as_ref()?;
    let proven = observed.cluster.latched.proven.as_ref()?;
    (proven.template != target.template).then(|| target.template.clone())
}

impl Observed {
    /// All that differs of the objects are notes.
    pub(crate) fn only_notes(&self) -> bool {
        let drifted = &self.objects.drifted;
        !drifted.is_empty() && drifted.iter().all(Wish::is_note)
    }

    /// A write that may not be tried yet.
    pub fn is_held_back(&self, kind: Kind, name: &str) -> bool {
        let mut held = self.objects.held.iter();
        held.any(|(of, named)| (*of, named.as_str()) == (kind, name))
    }

    /// Nothing can come up for an ordinal, because its claim or the StatefulSet is refused.
    pub fn is_withheld(&self, ordinal: u32) -> bool {
        let claim = names::claim(&self.cluster.name, ordinal);
        let mut refused = self.objects.refused.iter();
        !self.pods.contains_key(&ordinal)
            && refused.any(|refused| match refused.wish.kind {
                Kind::PersistentVolumeClaim => refused.wish.name == claim && refused.is_told(),
                Kind::StatefulSet => refused.is_told(),
                Kind::ServiceAccount
                | Kind::Service
                | Kind::PodDisruptionBudget
                | Kind::NetworkPolicy => false,
            })
    }

    /// What belongs to another owner and stands where the cluster would be formed. Once there is a cluster it stops
    /// nothing, and so does what a cluster can form without.
    pub(crate) fn stands_in_the_way(&self) -> Vec<String> {
        if self.cluster.latched.cluster_id.is_some() {
            return Vec::new();
        }
        let refused = self.objects.refused.iter().filter(|refused| {
            let needed = match refused.wish.kind {
                Kind::StatefulSet | Kind::PersistentVolumeClaim => true,
                Kind::Service => refused.wish.name == names::peer_service(&self.cluster.name),
                Kind::ServiceAccount | Kind::PodDisruptionBudget | Kind::NetworkPolicy => false,
            };
            needed && refused.answer == Answer::Foreign && refused.retry_at > self.now
        });
        let refused = refused.map(|refused| refused.wish.to_string());
        self.objects
            .foreign
            .iter()
            .cloned()
            .chain(refused)
            .collect()
    }

    /// The API server does not take a StatefulSet with this template, or not yet again.
    pub fn is_refused_template(&self, template: &str) -> bool {
        let mut refused = self.objects.refused.iter();
        refused.any(|refused| {
            refused.wish.template.as_deref() == Some(template) && refused.retry_at > self.now
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_tried_again_after_a_pause_that_doubles() {
        let refused = Answer::Refused(String::new());
        let later = Answer::Later(String::new());
        for (answer, tries, millis) in [
            (&refused, 1, 5_000),
            (&refused, 2, 10_000),
            (&refused, 6, 160_000),
            (&refused, 7, 300_000),
            (&refused, 31, 300_000),
            (&refused, 32, 300_000),
            (&refused, u32::MAX, 300_000),
            (&Answer::Foreign, 1, 5_000),
            (&Answer::Foreign, 9, 30_000),
            (&later, 1, 250),
            (&later, 5, 4_000),
            (&later, 9, 15_000),
            (&Answer::Written, 1, 1_000),
            (&Answer::Written, 3, 4_000),
        ] {
            let expected = SignedDuration::from_millis(millis);
            assert_eq!(pause(answer, tries), expected, "{answer:?} {tries}");
        }
    }

    #[test]
    fn a_writer_that_changes_a_field_back_is_named() {
        let mut undone = Refused {
            wish: Wish {
                kind: Kind::StatefulSet,
                name: "c".to_owned(),
                field: Some(".spec.replicas".to_owned()),
                body: 0,
                template: None,
            },
            answer: Answer::Written,
            manager: Some("keda".to_owned()),
            since: Timestamp::UNIX_EPOCH,
            tries: 3,
            retry_at: Timestamp::UNIX_EPOCH,
        };
        assert!(undone.is_told());
        let text = undone.describe();
        assert!(
            text.contains(".spec.replicas, by the field manager keda"),
            "{text}"
        );
        undone.manager = None;
        let text = undone.describe();
        assert!(
            text.contains(".spec.replicas, most likely by an admission webhook"),
            "{text}"
        );
        undone.tries = 2;
        assert!(!undone.is_told(), "the caches may be behind");
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let words = "ä".repeat(WORDS + 1);
        assert_eq!(shortened(&words).chars().count(), WORDS + 1);
        assert_eq!(shortened("short"), "short");
    }
}
