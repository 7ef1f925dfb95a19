//! Which releases meet: this program, the operators, the CRDs and Kubernetes.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use serde::Serialize;

use super::VERSION;

/// Of CRDs that do not say: an older release, or the predecessor's.
const UNSAID: &str = "without a version";

/// What is installed, as far as it was seen; why not, otherwise.
#[derive(Debug)]
pub struct Installed<'a> {
    /// Version of Kubernetes.
    pub kubernetes: Result<String, String>,
    /// The operators' Deployments.
    pub operators: Result<&'a [Deployment], String>,
    /// The CRD of EtcdCluster.
    pub crd: Result<&'a CustomResourceDefinition, String>,
}

/// Which releases meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionReport {
    /// Version of this format.
    pub api_version: &'static str,
    /// What this is.
    pub kind: &'static str,
    /// This program.
    pub plugin: String,
    /// The CRD of EtcdCluster; absent where it was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crd: Option<String>,
    /// Every operator that was seen.
    pub operators: Vec<OperatorReport>,
    /// Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// What does not fit together.
    pub mismatches: Vec<String>,
    /// What could not be seen, and why.
    pub unseen: Vec<String>,
}

/// One operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorReport {
    /// Namespace and name of its Deployment.
    pub deployment: String,
    /// Its release, as its chart says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Replicas that are available.
    pub available: i32,
}

/// Says which releases meet, and what does not fit.
pub fn versions(installed: &Installed<'_>, plugin: &str) -> VersionReport {
    let mut unseen = Vec::new();
    let mut mismatches = Vec::new();
    let kubernetes = seen(&mut unseen, "Kubernetes", installed.kubernetes.clone());
    let operators = seen(&mut unseen, "operators", installed.operators.clone());
    let operators: Vec<OperatorReport> =
        operators.unwrap_or_default().iter().map(operator).collect();
    let crd = seen(&mut unseen, "CRDs", installed.crd.clone());
    let crd = crd.map(|crd| crd_version(crd).unwrap_or_else(|| UNSAID.to_owned()));
    if let Some(crd) = crd.as_ref().filter(|crd| *crd != plugin) {
        mismatches.push(format!("the CRDs are {crd}, and kubectl etcd is {plugin}"));
    }
    for operator in &operators {
        if let Some(version) = operator
            .version
            .as_ref()
            .filter(|version| *version != plugin)
        {
            let name = &operator.deployment;
            mismatches.push(format!(
                "the operator {name} is {version}, and kubectl etcd is {plugin}"
            ));
        }
    }
    VersionReport {
        api_version: VERSION,
        kind: "VersionReport",
        plugin: plugin.to_owned(),
        crd,
        operators,
        kubernetes,
        mismatches,
        unseen,
    }
}

/// As the operator's release wrote it on the CRD.
pub fn crd_version(crd: &CustomResourceDefinition) -> Option<String> {
    crd.labels().get(api::labels::VERSION).cloned()
}

fn seen<T>(unseen: &mut Vec<String>, what: &str, result: Result<T, String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(why) => {
            unseen.push(format!("{what} ({why})"));
            None
        }
    }
}

fn operator(deployment: &Deployment) -> OperatorReport {
    let spec = deployment.spec.as_ref();
    let containers = spec.and_then(|spec| spec.template.spec.as_ref());
    let image = containers.and_then(|spec| spec.containers.first()?.image.clone());
    let status = deployment.status.as_ref();
    OperatorReport {
        deployment: format!(
            "{}/{}",
            deployment.namespace().unwrap_or_default(),
            deployment.name_any()
        ),
        version: deployment.labels().get(api::labels::VERSION).cloned(),
        image,
        available: status
            .and_then(|status| status.available_replicas)
            .unwrap_or(0),
    }
}
