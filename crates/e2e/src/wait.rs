//! Waiting: a question asked again and again until it is answered or the time is over.

use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How long most things may take on a small machine that does several of them at once.
pub const MINUTE: Duration = Duration::from_mins(1);
/// Errors in a row after which nothing stays as it was.
const MOST_ERRORS: u32 = 4;
/// How often to ask.
const PERIOD: Duration = Duration::from_millis(200);

/// A question that takes longer than its period is followed by a pause, too: on a busy machine, questions would be most of
/// what it does.
fn periods() -> Interval {
    let mut periods = interval(PERIOD);
    periods.set_missed_tick_behavior(MissedTickBehavior::Delay);
    periods
}

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
    let mut ticks = periods();
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

/// What must stay so does not, as opposed to: it could not be asked.
#[derive(Debug)]
pub struct Violated(pub String);

impl Display for Violated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violated {}

/// Asks for a while, and fails at the first `Ok(false)` and the first [`Violated`]. Other errors are asked again at once,
/// because a single call may fail for reasons of its own; where they go on, the last one is told.
pub async fn stays<F>(what: impl Display, time: Duration, mut ask: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let begin = Instant::now();
    let mut ticks = periods();
    let mut errors = 0;
    while begin.elapsed() < time {
        ticks.tick().await;
        match ask().await {
            Ok(true) => errors = 0,
            Ok(false) => bail!("no longer so after {:?}: {what}", begin.elapsed()),
            Err(error) if error.is::<Violated>() => {
                return Err(
                    error.context(format!("no longer so after {:?}: {what}", begin.elapsed()))
                );
            }
            Err(error) if errors == MOST_ERRORS => return Err(error),
            Err(_) => errors += 1,
        }
    }
    ensure!(errors == 0, "it could not be asked at the end: {what}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(mut answers: Vec<Result<bool>>) -> Result<()> {
        answers.reverse();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        runtime.block_on(stays("it is so", PERIOD * 8, || {
            let answer = answers.pop().unwrap_or(Ok(true));
            async move { answer }
        }))
    }

    #[test]
    fn what_is_violated_once_did_not_stay() {
        assert!(asked(vec![]).is_ok());
        assert!(asked(vec![Ok(true), Ok(false)]).is_err());
        assert!(asked(vec![Ok(true), Err(Violated("a restart".to_owned()).into())]).is_err());
    }

    #[test]
    fn what_could_not_be_asked_is_asked_again_a_few_times() {
        let silent = |times: usize| (0..times).map(|_| Err(anyhow::anyhow!("no answer")));
        assert!(asked(silent(2).collect()).is_ok());
        assert!(asked(silent(6).collect()).is_err());
    }
}
