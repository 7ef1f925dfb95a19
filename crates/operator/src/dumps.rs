//! No memory of this process is written anywhere when it crashes: it holds the keys of authorities.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Forbids dumps. The limit alone would not do: a kernel that hands dumps to a program ignores it.
pub fn forbid() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let both = [
        set_dumpable_behavior(DumpableBehavior::NotDumpable),
        setrlimit(Resource::Core, none),
    ];
    for error in both.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, "the operator could not forbid core dumps of itself");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{dumpable_behavior, getrlimit};

    use super::*;

    #[test]
    fn a_process_that_forbade_dumps_has_none_and_still_counts_its_descriptors() {
        forbid();
        assert_eq!(
            dumpable_behavior().ok(),
            Some(DumpableBehavior::NotDumpable)
        );
        let limit = getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
        assert!(crate::descriptors::count().is_some());
    }
}
