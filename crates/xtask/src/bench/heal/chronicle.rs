//! Where the seconds go: what the status, the events and the pods say, each time that changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use crate::bench::place::Place;
use crate::live::{Watch, text};

/// Longer messages are cut; the object has the rest.
const WIDTH: usize = 120;

/// Tells changes, with the seconds since a moment.
pub(super) struct Chronicle {
    pub(super) objects: Watch,
    events: Watch,
    began: Option<Instant>,
    said: BTreeMap<String, String>,
}

impl Chronicle {
    pub(super) fn new(place: &Place<'_>) -> Result<Self> {
        Ok(Self {
            objects: place.watch("etcdclusters")?,
            events: place.watch("events")?,
            began: None,
            said: BTreeMap::new(),
        })
    }

    /// From here on changes are told. What is so already is not.
    pub(super) fn begin(&mut self, pods: &Watch, what: &str) -> Instant {
        self.said = self.facts(pods);
        let now = Instant::now();
        self.began = Some(now);
        eprintln!("       0.0 s  {what}");
        now
    }

    /// Notes something that is seen elsewhere.
    pub(super) fn tell(&self, what: &str) {
        if let Some(began) = self.began {
            eprintln!("  {:8.1} s  {what}", began.elapsed().as_secs_f64());
        }
    }

    /// Tells what has changed since the last look.
    pub(super) fn look(&mut self, pods: &Watch) {
        let facts = self.facts(pods);
        for (name, fact) in &facts {
            if self.said.get(name) != Some(fact) {
                let what = name.split('.').next().unwrap_or(name);
                self.tell(&format!("{what}: {fact}"));
            }
        }
        for name in self.said.keys() {
            if !facts.contains_key(name) && name.starts_with("pod ") {
                self.tell(&format!("{name}: gone"));
            }
        }
        self.said = facts;
    }

    fn facts(&mut self, pods: &Watch) -> BTreeMap<String, String> {
        self.objects.wait(Duration::ZERO);
        self.events.wait(Duration::ZERO);
        let statuses = self.objects.objects.values().map(|object| {
            let name = text(object, "/metadata/name").unwrap_or_default();
            (format!("status of {name}"), describe_status(object))
        });
        let pods = pods.objects.iter();
        let pods = pods.map(|(name, pod)| (format!("pod {name}"), describe_pod(pod)));
        let events = self.events.objects.iter();
        let ours = events.filter(|(_, event)| is_ours(event));
        let events = ours.map(|(name, event)| (format!("event {name}"), describe_event(event)));
        statuses.chain(pods).chain(events).collect()
    }
}

/// Its phase, what is under way and what is wrong. Whether it is ready or available follows from those.
fn describe_status(object: &Value) -> String {
    let phase = text(object, "/status/phase").unwrap_or("no phase");
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let told = conditions.filter_map(|condition| {
        let matters = matches!(text(condition, "/type")?, "Progressing" | "Degraded");
        let message = text(condition, "/message").unwrap_or_default();
        let told = format!("{}: {message}", text(condition, "/reason")?);
        (matters && text(condition, "/status")? == "True").then(|| shorten(&told))
    });
    let mut told: Vec<String> = told.collect();
    // Both often say the same.
    told.dedup();
    [&[phase.to_owned()], told.as_slice()].concat().join("; ")
}

fn describe_pod(pod: &Value) -> String {
    let uid = text(pod, "/metadata/uid").unwrap_or_default();
    let uid: String = uid.chars().take(4).collect();
    let phase = text(pod, "/status/phase").unwrap_or_default();
    let going = pod.pointer("/metadata/deletionTimestamp").is_some();
    let containers = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|list| pod.pointer(&format!("/status/{list}"))?.as_array())
        .flatten();
    let containers = containers.filter_map(|container| {
        let name = text(container, "/name")?;
        let state = container.pointer("/state")?.as_object()?;
        let state = state.keys().next().map_or("unknown", String::as_str);
        let ready = container.pointer("/ready") == Some(&Value::Bool(true));
        let restarts = container.pointer("/restartCount")?.as_u64()?;
        let ready = if ready { ", ready" } else { "" };
        Some(format!("{name} {state}{ready}, {restarts} restarts"))
    });
    let containers: Vec<String> = containers.collect();
    let going = if going { ", on its way out" } else { "" };
    format!("{uid} {phase}{going} [{}]", containers.join("; "))
}

/// What the operator says about the cluster.
fn is_ours(event: &Value) -> bool {
    text(event, "/involvedObject/kind") == Some("EtcdCluster")
}

fn describe_event(event: &Value) -> String {
    let reason = text(event, "/reason").unwrap_or_default();
    let message = text(event, "/message").or_else(|| text(event, "/note"));
    format!("{reason}: {}", shorten(message.unwrap_or_default()))
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(WIDTH).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_under_way_and_what_is_wrong_are_told_once() {
        let object = json!({"status": {"phase": "Degraded", "conditions": [
            {"type": "Available", "status": "True", "reason": "Serving", "message": "m"},
            {"type": "Degraded", "status": "True", "reason": "QuorumLost", "message": "two are gone"},
            {"type": "Progressing", "status": "True", "reason": "QuorumLost", "message": "two are gone"}]}});
        assert_eq!(
            describe_status(&object),
            "Degraded; QuorumLost: two are gone"
        );
    }

    #[test]
    fn long_messages_are_cut() {
        assert_eq!(shorten("short"), "short");
        assert_eq!(shorten(&"ä".repeat(300)).chars().count(), WIDTH + 1);
    }
}
