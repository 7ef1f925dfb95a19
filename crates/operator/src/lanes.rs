//! How many clusters are looked at at once. A look that takes long only waits on the network, for a member that is silent
//! perhaps; so it gives its place to another one and goes on without.

use std::time::Duration;

use tokio::sync::Semaphore;

/// A look at a cluster that is well ends within milliseconds.
const QUICK: Duration = Duration::from_millis(300);

/// Places for looks.
pub struct Lanes {
    places: Semaphore,
    quick: Duration,
}

impl Lanes {
    /// So many places.
    pub fn new(places: u16) -> Self {
        Self {
            places: Semaphore::new(usize::from(places.max(1))),
            quick: QUICK,
        }
    }

    /// Does something as soon as there is a place for it, and holds that place for a moment at most.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        // The places are never closed; without one the work is done all the same.
        let place = self.places.acquire().await.ok();
        tokio::pin!(work);
        if let Ok(done) = tokio::time::timeout(self.quick, &mut work).await {
            return done;
        }
        drop(place);
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Far longer than anything here takes.
    const PATIENCE: Duration = Duration::from_mins(1);

    fn lanes(quick: Duration) -> Arc<Lanes> {
        Arc::new(Lanes {
            quick,
            ..Lanes::new(4)
        })
    }

    /// What that means for the pace of the others is measured by `cargo xtask bench idle`.
    #[tokio::test]
    async fn looks_that_never_end_keep_no_place() {
        let lanes = lanes(Duration::from_millis(10));
        for _silent in 0..10 {
            let lanes = Arc::clone(&lanes);
            tokio::spawn(async move { lanes.run(std::future::pending::<()>()).await });
        }
        tokio::task::yield_now().await;
        for _quick in 0..10 {
            let look = lanes.run(std::future::ready(()));
            tokio::time::timeout(PATIENCE, look).await.unwrap();
        }
    }

    /// How many look at the same moment.
    async fn count(lanes: Arc<Lanes>, at_once: Arc<AtomicUsize>) -> usize {
        let look = async {
            let now = at_once.fetch_add(1, Ordering::Relaxed) + 1;
            tokio::task::yield_now().await;
            at_once.fetch_sub(1, Ordering::Relaxed);
            now
        };
        lanes.run(look).await
    }

    #[tokio::test]
    async fn no_more_than_the_places_are_taken_at_once() {
        let (lanes, at_once) = (lanes(PATIENCE), Arc::new(AtomicUsize::new(0)));
        let looks = (0..20).map(|_| tokio::spawn(count(Arc::clone(&lanes), Arc::clone(&at_once))));
        let mut most = 0;
        for look in looks.collect::<Vec<_>>() {
            most = most.max(look.await.unwrap());
        }
        assert_eq!(most, 4);
    }
}
