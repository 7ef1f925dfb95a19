//! What a Restore must say, and which waits take one. As pure as [`super::permit`].

use gate::{Grant, RESTORE_PREFIX, State};

use super::{Origin, Snapshot, Wait, check_unseen};
use crate::wal::Head;

/// Hexadecimal digits in the name of a directory, at most.
const MOST_DIGITS: usize = 32;
/// Hexadecimal digits of a SHA-256.
const TRAILER: usize = 64;

/// The snapshot that a grant names.
pub(crate) fn parse_origin(
    directory: &str,
    trailer: &str,
    skip_hash_check: bool,
) -> Result<Origin, String> {
    if !is_directory(directory) {
        return Err(format!(
            "its directory {directory:?} is not {RESTORE_PREFIX} and 1 to {MOST_DIGITS} lower-case hexadecimal digits"
        ));
    }
    if trailer.len() != TRAILER || !is_hexadecimal(trailer) {
        return Err(format!(
            "its trailer {trailer:?} is not {TRAILER} lower-case hexadecimal digits"
        ));
    }
    Ok(Origin::Snapshot(Snapshot {
        directory: directory.to_owned(),
        trailer: trailer.to_owned(),
        skip_hash_check,
    }))
}

/// Whether this is the name of a directory that a backup is brought to.
///
/// Invariant: such a name leads to an entry of the volume and nowhere else
/// (`a_restore_names_a_directory_on_the_volume_and_nothing_else`).
pub(crate) fn is_directory(name: &str) -> bool {
    let digits = name.strip_prefix(RESTORE_PREFIX).unwrap_or_default();
    (1..=MOST_DIGITS).contains(&digits.len()) && is_hexadecimal(digits)
}

fn is_hexadecimal(text: &str) -> bool {
    let is_digit = |letter: char| matches!(letter, '0'..='9' | 'a'..='f');
    text.chars().all(is_digit)
}

/// Who wrote the data that makes way, if there is any. Only data that the fence holds does, and only for an incarnation
/// that it has not seen: the operator asks for nothing else, so anything else is a mistake.
pub(super) fn check_state(wait: Wait<'_>, grant: &Grant) -> Result<Option<Head>, String> {
    match (wait.state, wait.head) {
        (State::Empty, _) => Ok(None),
        (State::Fenced, Some(head)) => {
            check_unseen(wait, grant)?;
            Ok(Some(head))
        }
        (
            State::Fenced
            | State::OtherObject
            | State::Unidentified
            | State::Mismatch
            | State::Damaged
            | State::RolledBack,
            _,
        ) => Err(format!(
            "a Restore needs an empty data directory or fenced data, this is {:?}",
            wait.state
        )),
    }
}

#[cfg(test)]
mod tests;
