//! Reports as text for people. Pure: what is printed depends on the report and the screen alone.

mod doctor;
mod events;
mod fleet;
mod members;
mod status;
mod version;
mod why;

pub use doctor::doctor;
pub use events::events;
pub use fleet::{fleet, health};
pub use members::members;
pub use status::{status, voters};
pub use version::version;
pub use why::{runbook, why};

use crate::report::Standing;
use crate::screen::{Screen, Tone};

/// How a standing is to be taken.
fn tone(standing: Standing) -> Tone {
    match standing {
        Standing::Ok => Tone::Good,
        Standing::Working | Standing::Forming => Tone::Notice,
        Standing::Stopped => Tone::Quiet,
        Standing::Degraded | Standing::Down | Standing::Unknown => Tone::Bad,
    }
}

/// Columns of a label.
const LABEL: usize = 11;

/// A label, and the text beside it in lines that fit.
fn labelled(screen: &Screen, label: &str, text: &str) -> String {
    format!("{label:<LABEL$}{}\n", screen.wrap(text, LABEL))
}

/// What could not be seen is said, so that nothing is taken for whole that is not.
fn unseen(screen: &Screen, unseen: &[String]) -> String {
    if unseen.is_empty() {
        return String::new();
    }
    labelled(screen, "not seen", &unseen.join("; "))
}
