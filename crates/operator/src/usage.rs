//! What the process uses of the machine.

use std::time::Duration;

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

/// What the process uses; `None` where the system does not say.
pub(crate) struct Usage {
    /// Processor time so far.
    pub(crate) processor: Option<Duration>,
    /// Bytes that are resident.
    pub(crate) memory: Option<u64>,
}

/// What it uses now.
pub(crate) fn usage() -> Usage {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).ok();
    let nanoseconds = u32::try_from(used.tv_nsec).ok();
    let processor = seconds.zip(nanoseconds);
    Usage {
        processor: processor.map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds)),
        memory: resident(),
    }
}

/// The second number of `statm` is in pages.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(u64::try_from(page_size()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_something() {
        let usage = usage();
        assert!(usage.processor.unwrap() > Duration::ZERO);
        assert!(usage.memory.unwrap() > 100_000);
    }
}
