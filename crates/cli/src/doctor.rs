//! What is wrong or will be, each with what to do about it. Pure: from objects as they were seen to findings. It repeats what the
//! operator says where that is the better judge, and judges itself only what the operator does not look at.

mod backups;
mod pods;

use api::EtcdCluster;
use api::v1alpha1::backup::EtcdBackup;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde::Serialize;

use crate::report::{ClusterReport, Standing, VersionReport, report};

/// What was seen of a cluster; why not, otherwise.
pub struct Seen<'a> {
    /// The object.
    pub cluster: &'a EtcdCluster,
    /// Its pods.
    pub pods: Result<&'a [Pod], String>,
    /// The claims of its namespace.
    pub claims: Result<&'a [PersistentVolumeClaim], String>,
    /// The budgets of its namespace.
    pub budgets: Result<&'a [PodDisruptionBudget], String>,
    /// The Services of its namespace.
    pub services: Result<&'a [Service], String>,
    /// The EtcdBackups of its namespace.
    pub backups: Result<&'a [EtcdBackup], String>,
    /// When.
    pub now: Timestamp,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something does not work, or data is at risk.
    Fail,
    /// It works, and something should be done.
    Warn,
    /// It could not be looked at.
    Unseen,
    /// It is as it should be.
    Ok,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at, in one word.
    pub id: &'static str,
    /// What was found.
    pub sentence: String,
    /// What to type or to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The page that says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<&'static str>,
}

/// What was found of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// `namespace/name` of a cluster; of the installation `installation`.
    pub subject: String,
    /// The worst first.
    pub findings: Vec<Finding>,
}

impl Finding {
    fn new(level: Level, id: &'static str, sentence: impl Into<String>) -> Self {
        Self {
            level,
            id,
            sentence: sentence.into(),
            fix: None,
            page: None,
        }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    fn page(mut self, page: &'static str) -> Self {
        self.page = Some(page);
        self
    }
}

/// What is looked at, as far as it can be.
type Look<T> = Result<Vec<T>, String>;

/// Everything about a cluster.
pub fn diagnose(seen: &Seen<'_>) -> Diagnosis {
    let told = report(seen.cluster, Some(seen.pods.clone()));
    let mut findings = Vec::new();
    let mut add = |id: &'static str, found: Look<Finding>| match found {
        Err(why) => findings.push(Finding::new(Level::Unseen, id, why)),
        Ok(found) if found.is_empty() => findings.push(Finding::new(Level::Ok, id, "")),
        Ok(found) => findings.extend(found),
    };
    add("quorum", Ok(quorum(&told)));
    add("operator", Ok(said(&told)));
    add("pause", Ok(paused(&told)));
    add("versions", Ok(versions(&told)));
    add(
        "placement",
        seen.pods.clone().map(|pods| pods::placement(&told, pods)),
    );
    add(
        "restarts",
        seen.pods.clone().map(|pods| pods::restarts(&told, pods)),
    );
    add(
        "volumes",
        seen.claims.clone().map(|claims| volumes(&told, claims)),
    );
    add(
        "budget",
        seen.budgets.clone().map(|budgets| budget(&told, budgets)),
    );
    add(
        "services",
        seen.services
            .clone()
            .map(|services| services_of(&told, services)),
    );
    add("certificates", Ok(certificates(seen)));
    add(
        "backups",
        seen.backups
            .clone()
            .map(|backups| backups::backups(&told, backups, seen.now)),
    );
    findings.sort();
    Diagnosis {
        subject: format!("{}/{}", told.namespace, told.name),
        findings,
    }
}

/// The operator and the CRDs.
pub fn installation(versions: &VersionReport) -> Diagnosis {
    let mut findings = Vec::new();
    let available = versions
        .operators
        .iter()
        .filter(|it| it.available > 0)
        .count();
    let unseen = |what: &str| versions.unseen.iter().find(|text| text.starts_with(what));
    if let Some(why) = unseen("operators") {
        findings.push(Finding::new(Level::Unseen, "operator", why.clone()));
    } else if available == 0 {
        let finding = Finding::new(
            Level::Warn,
            "operator",
            "no Deployment of an operator is available here: unless one runs outside the cluster, nothing is repaired",
        );
        findings.push(
            finding
                .fix("kubectl get deployments -A -l app.kubernetes.io/name=etcd-operator")
                .page("docs/user/guides/install.md"),
        );
    } else {
        findings.push(Finding::new(Level::Ok, "operator", ""));
    }
    if let Some(why) = unseen("CRDs") {
        findings.push(Finding::new(Level::Unseen, "CRDs", why.clone()));
    }
    for mismatch in &versions.mismatches {
        let finding = Finding::new(Level::Warn, "releases", mismatch.clone());
        findings.push(
            finding
                .fix("upgrade the chart with its CRDs, or use the kubectl etcd of that release")
                .page("docs/user/guides/install.md"),
        );
    }
    if versions.mismatches.is_empty() {
        findings.push(Finding::new(Level::Ok, "releases", ""));
    }
    findings.sort();
    Diagnosis {
        subject: "installation".to_owned(),
        findings,
    }
}

fn quorum(told: &ClusterReport) -> Vec<Finding> {
    let (name, namespace) = (&told.name, &told.namespace);
    let healthy = crate::view::voters(told);
    let finding = match (told.can_lose, told.standing) {
        (_, Standing::Stopped | Standing::Forming) => return Vec::new(),
        (None, _) => Finding::new(Level::Fail, "quorum", healthy)
            .fix(format!("kubectl etcd why {name} -n {namespace}"))
            .page("docs/user/runbooks/quorum-is-lost.md"),
        (Some(0), _) if told.voters == 1 => Finding::new(
            Level::Warn,
            "quorum",
            "one member: whatever stops it stops the cluster",
        )
        .fix(format!("kubectl etcd scale {name} -n {namespace} --size 3")),
        (Some(0), _) => Finding::new(Level::Warn, "quorum", healthy)
            .fix(format!("kubectl etcd why {name} -n {namespace}")),
        (Some(_), _) => return Vec::new(),
    };
    vec![finding]
}

/// What the operator complains of; it is the better judge of members and data.
fn said(told: &ClusterReport) -> Vec<Finding> {
    if told.conditions.is_empty() {
        let text =
            "has said nothing of this cluster: none is installed, or none watches this namespace";
        let finding = Finding::new(Level::Fail, "operator", text);
        return vec![
            finding
                .fix("kubectl etcd version")
                .page("docs/user/guides/install.md"),
        ];
    }
    let mut findings = Vec::new();
    if told.behind {
        let text = "has not looked at the newest spec";
        let finding = Finding::new(Level::Warn, "operator", text);
        findings.push(finding.fix("kubectl logs -n etcd-operator-system deploy/etcd-operator"));
    }
    let wrong = told
        .conditions
        .iter()
        .find(|it| it.kind == "Degraded" && it.status == "True");
    findings.extend(wrong.map(|wrong| {
        let level = if told.standing == Standing::Down {
            Level::Fail
        } else {
            Level::Warn
        };
        let text = format!("{}: {}", wrong.reason, wrong.message);
        Finding::new(level, "operator", text)
            .fix(format!(
                "kubectl etcd why {} -n {}",
                told.name, told.namespace
            ))
            .page(crate::view::runbook(&wrong.reason))
    }));
    findings
}

fn paused(told: &ClusterReport) -> Vec<Finding> {
    let (name, namespace) = (&told.name, &told.namespace);
    let text = "the operator looks and does not act: nothing is repaired";
    let finding = Finding::new(Level::Warn, "pause", text);
    let finding = finding.fix(format!("kubectl etcd resume {name} -n {namespace}"));
    told.paused.then_some(finding).into_iter().collect()
}

fn versions(told: &ClusterReport) -> Vec<Finding> {
    if told.standing == Standing::Working {
        return Vec::new();
    }
    let mut runs: Vec<&str> = told
        .members
        .iter()
        .filter_map(|it| it.version.as_deref())
        .collect();
    runs.sort_unstable();
    runs.dedup();
    let differs = (runs.len() > 1).then(|| format!("members run {}", runs.join(" and ")));
    let behind = match (&told.version, &told.wanted_version) {
        (Some(runs), Some(wanted)) if runs != wanted => {
            Some(format!("{wanted} is asked for, and {runs} runs"))
        }
        _same => None,
    };
    let finding = differs.or(behind).map(|text| {
        Finding::new(Level::Warn, "versions", text)
            .fix(format!(
                "kubectl etcd why {} -n {}",
                told.name, told.namespace
            ))
            .page("docs/user/runbooks/rollout-is-halted.md")
    });
    finding.into_iter().collect()
}

fn volumes(told: &ClusterReport, claims: &[PersistentVolumeClaim]) -> Vec<Finding> {
    let prefix = api::names::claim(&told.name, 0);
    let prefix = prefix.trim_end_matches('0');
    let ours = claims.iter().filter(|claim| {
        let name = claim.name_any();
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.parse::<u32>().is_ok())
    });
    let namespace = &told.namespace;
    ours.filter_map(|claim| {
        let (name, status) = (claim.name_any(), claim.status.as_ref()?);
        let finding = match status.phase.as_deref() {
            Some("Lost") => Finding::new(
                Level::Fail,
                "volumes",
                format!("the volume behind {name} is gone"),
            ),
            Some("Pending") => {
                Finding::new(Level::Warn, "volumes", format!("{name} has no volume yet"))
            }
            _bound => {
                let conditions = status.conditions.iter().flatten();
                let mut resizes =
                    conditions.filter(|it| it.type_.contains("Resiz") && it.status == "True");
                resizes.next()?;
                Finding::new(Level::Warn, "volumes", format!("{name} is being expanded"))
            }
        };
        Some(
            finding
                .fix(format!("kubectl describe pvc {name} -n {namespace}"))
                .page("docs/user/guides/storage.md"),
        )
    })
    .collect()
}

fn budget(told: &ClusterReport, budgets: &[PodDisruptionBudget]) -> Vec<Finding> {
    let formed = !matches!(
        told.standing,
        Standing::Stopped | Standing::Forming | Standing::Unknown
    );
    let ours = budgets.iter().find(|budget| budget.name_any() == told.name);
    let finding = match ours {
        None if formed => Finding::new(
            Level::Warn,
            "budget",
            "it has no PodDisruptionBudget: a drain may take its quorum",
        ),
        Some(budget) if told.standing == Standing::Ok && told.voters > 1 => {
            let allowed = budget
                .status
                .as_ref()
                .map_or(0, |status| status.disruptions_allowed);
            if allowed > 0 {
                return Vec::new();
            }
            Finding::new(
                Level::Warn,
                "budget",
                "every voter is healthy, and its PodDisruptionBudget allows no disruption: drains wait",
            )
        }
        _as_it_should_be => return Vec::new(),
    };
    vec![
        finding
            .fix(format!(
                "kubectl describe pdb {} -n {}",
                told.name, told.namespace
            ))
            .page("docs/user/guides/placement.md"),
    ]
}

fn services_of(told: &ClusterReport, services: &[Service]) -> Vec<Finding> {
    if told.cluster_id.is_none() {
        return Vec::new();
    }
    let wanted = [
        api::names::peer_service(&told.name),
        api::names::client_service(&told.name),
    ];
    let missing = wanted
        .into_iter()
        .filter(|name| services.iter().all(|it| it.name_any() != *name));
    let findings = missing.map(|name| {
        Finding::new(
            Level::Fail,
            "services",
            format!("Service {name} is missing"),
        )
        .fix(format!(
            "kubectl etcd why {} -n {}",
            told.name, told.namespace
        ))
    });
    findings.collect()
}

/// Days before the end at which something should have renewed them.
const SOON: i64 = 7;
/// The same, of an authority.
const SOON_FOR_ALL: i64 = 30;

fn certificates(seen: &Seen<'_>) -> Vec<Finding> {
    let status = seen.cluster.status.as_ref();
    let Some(told) = status.and_then(|status| status.certificates.as_ref()) else {
        return Vec::new();
    };
    let (namespace, name) = (
        seen.cluster.namespace().unwrap_or_default(),
        seen.cluster.name_any(),
    );
    let fix = format!("kubectl etcd why {name} -n {namespace}");
    let authority = told.authority_not_after.as_ref();
    let ends = [
        (Some(&told.not_after), "certificates", SOON),
        (authority, "their authority", SOON_FOR_ALL),
    ];
    let ends = ends.into_iter().filter_map(|(end, what, soon)| {
        let left = end?.0.duration_since(seen.now).as_secs();
        let (level, text) = if left <= 0 {
            (Level::Fail, format!("{what} expired"))
        } else if left < soon * 86_400 {
            let left = crate::screen::duration(left);
            (Level::Warn, format!("{what}: the first expires in {left}"))
        } else {
            return None;
        };
        let finding = Finding::new(level, "certificates", text).fix(fix.clone());
        Some(finding.page("docs/user/runbooks/certificates.md"))
    });
    ends.collect()
}
