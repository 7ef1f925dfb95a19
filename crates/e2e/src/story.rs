//! One story: a stage is set, the story is played, and what went wrong is told before the stage goes.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::places::Place;
use crate::stage::Stage;

/// A story that takes longer hangs. What it changed outside of its stage stays so then, and later stories fail for it; so
/// this is more than all waits within one story together.
const PATIENCE: Duration = Duration::from_mins(15);

/// How a story ended.
pub type Played = std::result::Result<(), Failed>;

/// A story failed. Why was told at once, and is not told again by the test runner.
pub struct Failed;

impl std::fmt::Debug for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the story failed, as told above")
    }
}

/// Plays a story on a stage of its own, or says that it was skipped. The stage goes at the end, also when
/// the story fails, unless `E2E_KEEP` is set.
pub fn story<F>(play: impl FnOnce(Stage) -> F) -> Played
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let title = std::thread::current()
        .name()
        .unwrap_or("a story")
        .to_owned();
    if std::env::var_os("E2E").is_none() {
        skipped("E2E is not set");
        return Ok(());
    }
    let _place = Place::take(&title);
    perform(&title, play).map_err(|error| {
        tell(&format!("FAILED {title}: {error:#}"));
        Failed
    })
}

fn perform<F>(title: &str, play: impl FnOnce(Stage) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    runtime.block_on(async {
        let begin = Instant::now();
        let stage = Stage::set(title).await.context("the cluster is broken")?;
        // A task of its own, so that a panic ends the story and not the cleaning up.
        let played = tokio::time::timeout(PATIENCE, tokio::spawn(play(stage.clone()))).await;
        let outcome = match played {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(anyhow!("{panic}")),
            Err(elapsed) => Err(anyhow!(elapsed).context("the story hangs")),
        };
        let took = begin.elapsed().as_secs_f32();
        if outcome.is_err() {
            tell(&stage.account().await);
        } else {
            tell(&format!("PASSED {title} in {took:.1} s"));
        }
        stage.strike().await?;
        outcome
    })
}

/// Whether the stories that take long are wanted, too.
pub fn deep() -> bool {
    std::env::var_os("E2E_DEEP").is_some()
}

/// Says something that the test runner does not swallow. In one write, so that lines of stories that run side by side
/// stay whole.
pub fn tell(what: &str) {
    let line = format!("{what}\n");
    // There is no other place to report that stderr is closed.
    std::io::stderr()
        .write_all(line.as_bytes())
        .unwrap_or_default();
}

/// Says that this story returns before it has proved what it is named after. `cargo xtask test` counts these lines.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    tell(&format!(
        "SKIPPED: {}: {why}",
        thread.name().unwrap_or("a story")
    ));
}
