//! A thread whose kernel has no IPv6, as one that was started with `ipv6.disable=1`: no socket of that family can be made.

#![expect(
    clippy::expect_used,
    reason = "where a filter cannot be made, the test ends"
)]

use std::thread;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// `socket`, by processor.
const SOCKET: i64 = if cfg!(target_arch = "aarch64") {
    198
} else {
    41
};
const AF_INET6: u64 = 10;
const EAFNOSUPPORT: u32 = 97;

/// Runs `work` in such a thread. Processes that it starts have no IPv6 either.
///
/// # Panics
/// Where the kernel takes no filter, and where `work` panics.
pub fn without_ipv6<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        seccompiler::apply_filter(&filter()).expect("a filter for system calls");
        work()
    });
    match thread.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn filter() -> BpfProgram {
    let family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, AF_INET6);
    let rule = SeccompRule::new(vec![family.expect("a condition")]).expect("a rule");
    let filter = SeccompFilter::new(
        [(SOCKET, vec![rule])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(EAFNOSUPPORT),
        std::env::consts::ARCH
            .try_into()
            .expect("a processor that is known"),
    );
    filter.expect("a filter").try_into().expect("a program")
}
