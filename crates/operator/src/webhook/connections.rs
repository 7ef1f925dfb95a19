//! How many connections are open. Any pod may dial the webhook, so one address has its share, and what goes beyond closes the
//! oldest of the address that has the most.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use tokio::task::AbortHandle;

/// At once, of one address. An API server dials once for each review under way.
const OF_ONE: usize = 64;
/// At once, of all.
const MOST: usize = 256;

/// Connections, oldest first.
#[derive(Default)]
pub(super) struct Connections(VecDeque<(IpAddr, AbortHandle)>);

impl Connections {
    /// One more; perhaps an older one is closed for it.
    pub(super) fn add(&mut self, address: IpAddr, connection: AbortHandle) {
        self.0.retain(|(_, open)| !open.is_finished());
        self.0.push_back((address, connection));
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (address, _) in &self.0 {
            let count = counts.entry(*address).or_default();
            *count = count.saturating_add(1);
        }
        let Some((greedy, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
            return;
        };
        if count <= OF_ONE && self.0.len() <= MOST {
            return;
        }
        let oldest = self.0.iter().position(|(address, _)| *address == greedy);
        if let Some((_, open)) = oldest.and_then(|index| self.0.remove(index)) {
            open.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn open() -> AbortHandle {
        tokio::spawn(std::future::pending::<()>()).abort_handle()
    }

    #[tokio::test]
    async fn a_flood_from_one_address_closes_only_its_own() {
        let mut connections = Connections::default();
        let (first, greedy) = (open(), open());
        connections.add(address(1), first.clone());
        connections.add(address(2), greedy.clone());
        for _ in 0..OF_ONE {
            connections.add(address(2), open());
        }
        tokio::task::yield_now().await;
        assert!(!first.is_finished() && greedy.is_finished());
        assert_eq!(connections.0.len(), OF_ONE + 1);
        for other in 3..=u8::MAX {
            connections.add(address(other), open());
        }
        assert_eq!(connections.0.len(), MOST);
        assert!(!first.is_finished());
    }
}
