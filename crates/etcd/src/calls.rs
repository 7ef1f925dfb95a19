//! How often members were called, and how that went.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of a call, and whether it went well.
pub type Call = (&'static str, bool);

/// Calls of all members of one pool.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<BTreeMap<Call, u64>>>);

impl Calls {
    pub(crate) fn count(&self, call: &'static str, went_well: bool) {
        let mut counts = self.lock();
        let count = counts.entry((call, went_well)).or_default();
        *count = count.saturating_add(1);
    }

    /// All of them so far.
    pub fn counts(&self) -> BTreeMap<Call, u64> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Call, u64>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
