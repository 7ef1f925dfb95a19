//! The fence: which incarnations of the object are held back. Reads the annotation; what it means for the data
//! is judged in [`crate::judge`], what it means for a grant in [`crate::permit`].

use gate::FENCE_ANNOTATION;
use serde_json::json;

use crate::{
    annotations,
    judge::UNREADABLE_FENCE,
    telemetry::{Level, log},
};

/// Incarnations below this one are held back; `None` without a fence.
///
/// Invariant: a fence that cannot be read holds everything back: a member that waits costs less than
/// one that serves data which another cluster has gone on from
/// (`a_fence_that_cannot_be_read_holds_everything_back`).
///
/// A *file* that cannot be read never comes this far: the agent ends instead
/// (`annotations_that_cannot_be_read_hold_everything_back`).
pub(crate) fn find(file: &str) -> Option<u64> {
    let value = annotations::find(file, FENCE_ANNOTATION)?;
    let parsed = value
        .map_err(ToOwned::to_owned)
        .and_then(|text| match text.parse() {
            Ok(incarnation) => Ok(incarnation),
            Err(error) => Err(format!("{text:?}: {error}")),
        });
    Some(parsed.unwrap_or_else(|why| {
        let fields = json!({"annotation": FENCE_ANNOTATION, "error": why});
        log(Level::Warn, "an annotation cannot be read", &fields);
        UNREADABLE_FENCE
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_that_cannot_be_read_holds_everything_back() {
        let find = |line: &str| find(&format!("a=\"b\"\n{FENCE_ANNOTATION}{line}\n"));
        assert_eq!(find("=\"2\""), Some(2));
        assert_eq!(find("d=\"2\""), None);
        for line in ["=2", "=\"\"", "=\"-1\"", "=\"two\"", "=\"2"] {
            assert_eq!(find(line), Some(UNREADABLE_FENCE), "{line}");
        }
    }
}
