//! Logs: set up once.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, Options};

/// Starts logging to stderr.
pub fn start(options: &Options) -> anyhow::Result<()> {
    // The library's own spans would repeat ours.
    let filter = EnvFilter::try_new(format!(
        "kube_runtime=warn,kube_client=warn,{}",
        options.log_level
    ))
    .with_context(|| format!("--log-level {:?} cannot be read", options.log_level))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match options.log_format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot be started: {error}"))
}
