//! Logs: set up once.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// Starts logging to stderr.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    // The library's own spans would repeat ours.
    let filter = EnvFilter::try_new(format!("kube_runtime=warn,kube_client=warn,{level}"))
        .with_context(|| format!("--log-level {level:?} cannot be read"))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use signals::logs::FIELDS;

    /// All sources of the operator.
    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    /// The fields in front of the message of a log line, or all those of a span.
    fn fields(macro_body: &str) -> Vec<String> {
        let (mut depth, mut quoted, mut parts) = (0, false, vec![String::new()]);
        for letter in macro_body.chars() {
            match letter {
                '"' => quoted = !quoted,
                '(' | '[' if !quoted => depth += 1,
                ')' | ']' if !quoted && depth == 0 => break,
                ')' | ']' if !quoted => depth -= 1,
                ',' if !quoted && depth == 0 => {
                    parts.push(String::new());
                    continue;
                }
                _other => {}
            }
            parts.last_mut().unwrap().push(letter);
        }
        let parts = parts.iter().map(|part| part.trim());
        // Arguments of the message follow it.
        let parts = parts.take_while(|part| !part.starts_with('"'));
        let parts = parts.filter(|part| !part.is_empty());
        let name = |part: &str| {
            let name = part.split_once('=').map_or(part, |(name, _)| name);
            name.trim().trim_start_matches(['%', '?']).to_owned()
        };
        parts.map(name).collect()
    }

    /// What stands in the source behind the beginning of each of these macros.
    fn lines<'a>(text: &'a str, mark: &str) -> impl Iterator<Item = &'a str> {
        text.split(&format!("tracing::{mark}"))
            .skip(1)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// A user who reads logs by a field finds it in the reference, and the reference names none that is not there.
    #[test]
    fn every_field_of_the_log_is_in_the_reference() {
        let mut files = Vec::new();
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            &mut files,
        );
        let mut used = BTreeSet::new();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for mark in ["info!(", "warn!(", "error!("] {
                used.extend(lines(&text, mark).flat_map(fields));
            }
            // The name of a span comes first.
            let spans = lines(&text, "info_span!(").filter_map(|body| body.split_once(','));
            used.extend(spans.flat_map(|(_, body)| fields(body)));
        }
        let told: BTreeSet<String> = FIELDS
            .iter()
            .map(|(name, _, _)| (*name).to_owned())
            .collect();
        assert_eq!(used, told);
    }
}
