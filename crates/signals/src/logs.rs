//! The fields of the operator's log. With `--log-format json` (the default of the chart) each line is one object: fields of
//! the line itself at its top, those of the look that it belongs to below `span`.

/// A field: its name, where it stands, and what it says.
pub type Field = (&'static str, Place, &'static str);

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Below `span`, on each line of a look.
    Span,
    /// At the top.
    Line,
}

/// Every field there is.
pub const FIELDS: &[Field] = &[
    ("namespace", Place::Span, "Namespace of the object."),
    (
        "cluster",
        Place::Span,
        "Name of the EtcdCluster that is looked at.",
    ),
    (
        "name",
        Place::Span,
        "Name of the EtcdBackup, EtcdRestore or other object.",
    ),
    ("generation", Place::Span, "Generation of the spec."),
    (
        "change",
        Place::Span,
        "The edit that is being carried out: the first eight characters of the UID of the EtcdCluster, and the generation. It is the same before and after a restart of the operator.",
    ),
    (
        "step",
        Place::Line,
        "What is done, as in `etcd_operator_steps_total`.",
    ),
    (
        "reason",
        Place::Line,
        "Why, in the [words](reasons.md) of conditions and events; the sentence is the message.",
    ),
    (
        "outcome",
        Place::Line,
        "How a step went: `done`, `not now`, `failed`, `refused`.",
    ),
    ("ms", Place::Line, "How long a step took, in milliseconds."),
    ("what", Place::Line, "What went wrong, on which object."),
    ("error", Place::Line, "The error."),
    ("source", Place::Line, "What caused it."),
    (
        "object",
        Place::Line,
        "The object that could not be written.",
    ),
    ("answer", Place::Line, "What came of writing it."),
    (
        "violation",
        Place::Line,
        "What a step would have broken that was not taken: a bug.",
    ),
    ("why", Place::Line, "Why upkeep failed."),
    (
        "note",
        Place::Line,
        "The text of an event that could not be written.",
    ),
    ("job", Place::Line, "A Job of a backup or a verification."),
    ("id", Place::Line, "ID of a backup."),
    (
        "member",
        Place::Line,
        "The member that a backup is read from.",
    ),
    ("pod", Place::Line, "A pod."),
    (
        "stranger",
        Place::Line,
        "What responds at the address of that pod.",
    ),
    (
        "secret",
        Place::Line,
        "Name of a Secret; never what is in it.",
    ),
    ("kind", Place::Line, "A kind of object that is watched."),
    (
        "missing",
        Place::Line,
        "Webhook configurations that are not there.",
    ),
    ("kubernetes", Place::Line, "Release of the API server."),
    ("agent_image", Place::Line, "Image that is put into pods."),
    ("pod_user", Place::Line, "Who says as which user pods run."),
    ("port", Place::Line, "A port that is listened on."),
    (
        "ready",
        Place::Line,
        "Condition Ready of the cluster that `helm test` makes.",
    ),
];

/// `docs/reference/logs.md`.
pub fn reference() -> String {
    let mut page = "# Logs

Made by `cargo xtask generate` from `crates/signals`. With `--log-format json`, the default of the chart, each line is an object with `timestamp`, `level`, `target`, `message`, the fields of the line, and below `span` those of the look at an object that it belongs to. `info`: the world was changed. `warn`: it is tried again. `error`: a bug, or something for you. All steps of one edit have the same `change`:

```
kubectl logs deployment/etcd-operator --namespace etcd-operator-system | jq -c 'select(.span.change == \"0a1b2c3d-7\") | [.timestamp, .step, .outcome, .ms, .message]'
```

| field | where | meaning |
|---|---|---|
"
    .to_owned();
    for (name, place, meaning) in FIELDS {
        let place = match place {
            Place::Span => "`span`",
            Place::Line => "line",
        };
        for part in ["| `", name, "` | ", place, " | ", meaning, " |\n"] {
            page.push_str(part);
        }
    }
    page
}
