//! Shows how an `EtcdCluster` changes: one line per change; in a terminal the seconds run on below it.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::cluster::Target;
use crate::live::{Watch, text};

/// The clusters of one namespace, watched.
pub(super) struct Show {
    watch: Watch,
    namespace: String,
    started: Instant,
    last: String,
    terminal: bool,
}

impl Show {
    pub(super) fn start(target: &Target, namespace: &str) -> Result<Self> {
        Ok(Self {
            watch: Watch::start(target, namespace, "etcdclusters")?,
            namespace: namespace.to_owned(),
            started: Instant::now(),
            last: String::new(),
            terminal: std::io::stdout().is_terminal(),
        })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn restart_clock(&mut self) {
        self.started = Instant::now();
    }

    /// Prints every change until the cluster is ready.
    pub(super) fn until_ready(&mut self, name: &str, limit: Duration) -> Result<()> {
        self.until(name, limit, is_ready)
    }

    /// The same, after it has been seen not ready; a status that was not yet written must not end the show.
    pub(super) fn until_ready_again(&mut self, name: &str, limit: Duration) -> Result<()> {
        self.until(name, Duration::from_secs(20), |object| !is_ready(object))?;
        self.until(name, limit, is_ready)
    }

    fn until(&mut self, name: &str, limit: Duration, done: fn(&Value) -> bool) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(object) = self.watch.objects.get(name) {
                let (line, done) = (describe(object), done(object));
                self.print(&line);
                if done {
                    return Ok(());
                }
            }
            if Instant::now() > deadline {
                bail!(
                    "not within {} s; the last was: {}",
                    limit.as_secs(),
                    self.last
                );
            }
            if !self.watch.wait(Duration::from_millis(100)) {
                self.tick();
            }
        }
    }

    fn print(&mut self, line: &str) {
        if line != self.last {
            let clear = if self.terminal { "\r\x1b[K" } else { "" };
            println!(
                "{clear}  {:5.1} s  {line}",
                self.started.elapsed().as_secs_f32()
            );
            line.clone_into(&mut self.last);
        }
    }

    fn tick(&self) {
        if self.terminal {
            print!("\r  {:5.1} s …", self.started.elapsed().as_secs_f32());
            // A clock that does not move does no harm.
            drop(std::io::stdout().flush());
        }
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| text(condition, "/type") == Some(kind))
}

/// Ready, and said of the spec as it is now.
fn is_ready(object: &Value) -> bool {
    let seen = object.pointer("/status/observedGeneration");
    seen.is_some()
        && seen == object.pointer("/metadata/generation")
        && condition(object, "Ready").and_then(|ready| text(ready, "/status")) == Some("True")
}

/// `Creating  demo-0 leader, demo-1 learner, demo-2 –  | adding demo-2`.
fn describe(object: &Value) -> String {
    let phase = text(object, "/status/phase").unwrap_or("(no status yet)");
    let members = object.pointer("/status/members").and_then(Value::as_array);
    let members: Vec<String> = members.into_iter().flatten().map(member).collect();
    let doing = condition(object, "Progressing")
        .filter(|progressing| text(progressing, "/status") == Some("True"))
        .and_then(|progressing| text(progressing, "/message"));
    let mut line = format!("{phase:<9} {}", members.join("  "));
    if is_ready(object) {
        line.push_str("  Ready");
    } else if let Some(doing) = doing {
        line.push_str("  | ");
        line.push_str(doing);
    }
    line.trim_end().to_owned()
}

fn member(member: &Value) -> String {
    let name = text(member, "/name").unwrap_or("?");
    let role = text(member, "/role").unwrap_or("–");
    let ready = member.pointer("/ready") == Some(&Value::Bool(true));
    format!("{name} {role}{}", if ready { " ✓" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_tells_phase_members_and_what_is_under_way() {
        let mut object = json!({
            "metadata": {"generation": 1},
            "status": {
                "phase": "Creating", "observedGeneration": 1,
                "members": [{"name": "a-0", "role": "leader", "ready": true}, {"name": "a-1"}],
                "conditions": [
                    {"type": "Ready", "status": "False"},
                    {"type": "Progressing", "status": "True", "message": "adding a-1"},
                ],
            },
        });
        assert_eq!(
            describe(&object),
            "Creating  a-0 leader ✓  a-1 –  | adding a-1"
        );
        assert!(!is_ready(&object));
        object["status"]["conditions"][0]["status"] = json!("True");
        assert!(is_ready(&object));
        object["metadata"]["generation"] = json!(2);
        assert!(!is_ready(&object), "that was said of an older spec");
        assert_eq!(describe(&json!({})), "(no status yet)");
    }
}
