//! Waiting: a question asked again and again until it is answered or the time is over.

use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

/// How long most things may take on a small machine that does three of them at once.
pub const MINUTE: Duration = Duration::from_mins(1);
/// How often to ask.
const PERIOD: Duration = Duration::from_millis(200);

/// Asks until the answer is `Ok(true)`. An `Ok(false)` or an error is asked again; the last error is told
/// when the time is over.
pub async fn until<F>(
    what: impl Display,
    patience: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<Duration>
where
    F: Future<Output = Result<bool>>,
{
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        let answer = ask().await;
        if matches!(answer, Ok(true)) {
            return Ok(begin.elapsed());
        }
        if begin.elapsed() > patience {
            let last = answer
                .err()
                .map_or_else(String::new, |error| format!(" (last: {error:#})"));
            bail!("not so after {patience:?}: {what}{last}");
        }
    }
}

/// Asks for a while, and fails at the first answer that is not `Ok(true)`.
pub async fn stays<F>(what: impl Display, time: Duration, mut ask: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(PERIOD);
    while begin.elapsed() < time {
        ticks.tick().await;
        ensure!(
            ask().await?,
            "no longer so after {:?}: {what}",
            begin.elapsed()
        );
    }
    Ok(())
}
