//! Neither the agent nor the etcd that it becomes leaves its memory in a file when it crashes: both read private keys, and
//! etcd has the data of others.

use rustix::process::{Resource, Rlimit, setrlimit};

/// `exec` keeps the limit. One byte, and not none: of a kernel that hands dumps to a program, only this very limit stops
/// it, and a file of one byte is not written either. Lowering a limit of one's own is always permitted, so that a refusal
/// is not worth a start.
pub(crate) fn forbid() {
    let none = Rlimit {
        current: Some(1),
        maximum: Some(1),
    };
    let _refused = setrlimit(Resource::Core, none);
}
