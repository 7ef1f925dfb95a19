//! When each alert is raised, and what looks alike and must not raise it. Times are in steps of the case's interval, a minute
//! where nothing else is said.

/// Of a cluster, told by one replica.
macro_rules! c {
    ($name:literal) => {
        concat!($name, "{namespace=\"ns\",cluster=\"db\",pod=\"op-1\"}")
    };
    ($name:literal, $more:literal) => {
        concat!(
            $name,
            "{namespace=\"ns\",cluster=\"db\",pod=\"op-1\",",
            $more,
            "}"
        )
    };
}

/// Of a member.
macro_rules! m {
    ($name:literal, $pod:literal) => {
        concat!(
            $name,
            "{job=\"etcd\",namespace=\"ns\",cluster=\"db\",pod=\"",
            $pod,
            "\"}"
        )
    };
    ($name:literal, $pod:literal, $more:literal) => {
        concat!(
            $name,
            "{job=\"etcd\",namespace=\"ns\",cluster=\"db\",pod=\"",
            $pod,
            "\",",
            $more,
            "}"
        )
    };
}

/// Of an EtcdBackup.
macro_rules! b {
    ($name:literal) => {
        concat!(
            $name,
            "{namespace=\"ns\",cluster=\"db\",backup=\"nightly\",pod=\"op-1\"}"
        )
    };
}

mod backups;
mod clusters;
mod latency;
mod members;
mod operator;

/// A series, and its values in promtool's words.
pub(crate) type Series = (&'static str, &'static str);

/// One alert, by its place in the table.
pub(crate) struct Case {
    pub(crate) alert: &'static str,
    pub(crate) severity: &'static str,
    /// Which of those with that name and severity.
    pub(crate) nth: usize,
    /// Minutes of one step.
    pub(crate) step: u32,
    /// Minute from which the expression holds.
    pub(crate) from: u32,
    /// What raises it, each of these alone.
    pub(crate) bad: &'static [&'static [Series]],
    /// The labels that it then has, without the severity.
    pub(crate) labels: &'static str,
    /// What must leave it quiet.
    pub(crate) good: &'static [&'static [Series]],
}

const CLUSTER: &str = r#"{"namespace":"ns","cluster":"db"}"#;
const POD: &str = r#"{"namespace":"ns","cluster":"db","pod":"db-0"}"#;
const BACKUP: &str = r#"{"namespace":"ns","cluster":"db","backup":"nightly"}"#;

const fn case(
    alert: &'static str,
    severity: &'static str,
    labels: &'static str,
    bad: &'static [&'static [Series]],
    good: &'static [&'static [Series]],
) -> Case {
    Case {
        alert,
        severity,
        nth: 0,
        step: 1,
        from: 0,
        bad,
        labels,
        good,
    }
}

impl Case {
    const fn from(self, from: u32) -> Self {
        Self { from, ..self }
    }

    const fn second(self) -> Self {
        Self { nth: 1, ..self }
    }

    const fn step(self, step: u32) -> Self {
        Self { step, ..self }
    }
}

pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    [
        clusters::CASES,
        backups::CASES,
        operator::CASES,
        members::CASES,
        latency::CASES,
    ]
    .into_iter()
    .flatten()
}
