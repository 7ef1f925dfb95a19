//! What the operator asks of the platform before it begins: its version, and who says which user pods run as.

use kube::Client;
use manifests::PodUser;

use crate::args;

/// Only OpenShift has it. Its admission writes a user of the namespace's own range into each pod that names none, and rejects
/// pods that name one outside of it.
const OPENSHIFT: &str = "security.openshift.io";

/// What the API server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Version of Kubernetes.
    pub version: String,
    /// Who says which user pods run as.
    pub pod_user: PodUser,
}

impl Platform {
    /// Asks. Every service account may: the role `system:discovery` is bound to all of them.
    pub async fn ask(client: &Client, said: args::PodUser) -> kube::Result<Self> {
        let version = client.apiserver_version().await?.git_version;
        let pod_user = match said {
            args::PodUser::Fixed => PodUser::Fixed,
            args::PodUser::Assigned => PodUser::Assigned,
            args::PodUser::Auto => {
                let groups = client.list_api_groups().await?.groups;
                if groups.iter().any(|group| group.name == OPENSHIFT) {
                    PodUser::Assigned
                } else {
                    PodUser::Fixed
                }
            }
        };
        Ok(Self { version, pod_user })
    }
}
