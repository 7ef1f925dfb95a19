//! The alerts. Each compares numbers that the operator or a member reports, takes the largest where a hand-over shows them
//! twice, and names what to do next: a command, and a section of the runbook.

pub mod cluster;
pub mod member;
pub mod operator;

/// An alert.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    /// Its name.
    pub name: &'static str,
    /// When it is raised. [`crate::CLUSTER`] stands for the label with the name of the cluster.
    pub expr: &'static str,
    /// For how long that must hold.
    pub lasts: &'static str,
    /// How urgent it is.
    pub level: Level,
    /// What is so, in a sentence; `{{ $labels.… }}` and `{{ $value … }}` are filled in.
    pub summary: &'static str,
    /// What to type next.
    pub command: &'static str,
    /// What it means and what to do, for the runbook.
    pub runbook: &'static str,
}

/// How urgent an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Wake a person.
    Critical,
    /// Look at it today.
    Warning,
    /// Know it.
    Info,
}

impl Level {
    /// The value of the label `severity`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// Alerts that need the same pages to be scraped.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name in the rules.
    pub name: &'static str,
    /// What it needs, for the runbook.
    pub needs: &'static str,
    /// Its alerts.
    pub alerts: &'static [Alert],
}

/// Needs only the page of the operator.
pub const CLUSTERS: Group = Group {
    name: "etcd-clusters",
    needs: "The page of the operator is all that they need.",
    alerts: cluster::ALERTS,
};
/// Needs only the page of the operator.
pub const OPERATOR: Group = Group {
    name: "etcd-operator",
    needs: "The page of the operator is all that they need.",
    alerts: operator::ALERTS,
};
/// Needs the pages of the members as well.
pub const MEMBERS: Group = Group {
    name: "etcd-members",
    needs: "The pages of the members are needed as well (`podMonitor.enabled`): without them `EtcdQuorumMissing` and `etcdMembersDown` would be raised for every cluster, so the chart leaves this group out then. Names that begin with a small letter are those of etcd's own mixin; the expressions work where pods come and go.",
    alerts: member::ALERTS,
};

/// All groups.
pub const GROUPS: [Group; 3] = [CLUSTERS, OPERATOR, MEMBERS];
