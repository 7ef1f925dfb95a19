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
    use std::time::Instant;

    use super::*;

    /// Twenty clusters and four places. A quick look takes 1 ms, a slow one 200 ms, and the next one follows 100 ms later:
    /// ten slow ones would hold more than four places for ever. The pause between two looks at one of the ten quick ones.
    async fn pace(slow: usize) -> Duration {
        let millis = Duration::from_millis;
        let lanes = Arc::new(Lanes {
            quick: millis(10),
            ..Lanes::new(4)
        });
        let clusters = (0..20).map(|cluster| {
            let lanes = Arc::clone(&lanes);
            tokio::spawn(async move {
                let takes = if cluster < slow {
                    millis(200)
                } else {
                    millis(1)
                };
                let mut looks = 0_u32;
                let start = Instant::now();
                while start.elapsed() < millis(2000) {
                    lanes.run(tokio::time::sleep(takes)).await;
                    looks += 1;
                    tokio::time::sleep(millis(100)).await;
                }
                start.elapsed() / looks
            })
        });
        let mut slowest = Duration::ZERO;
        for (cluster, pace) in clusters.collect::<Vec<_>>().into_iter().enumerate() {
            let pace = pace.await.unwrap();
            if cluster >= 10 {
                slowest = slowest.max(pace);
            }
        }
        slowest
    }

    #[tokio::test]
    async fn clusters_that_are_silent_do_not_slow_the_others_down() {
        let calm = pace(0).await;
        let half = pace(10).await;
        assert!(
            half.as_secs_f64() <= calm.as_secs_f64() * 1.2,
            "{half:?}, {calm:?}"
        );
    }
}
