//! Security contexts: as little as etcd needs, and what a user says laid over it field by field.

use api::ClusterIntent;
use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

use crate::PodUser;

pub(crate) fn pod(intent: &ClusterIntent, says: PodUser) -> PodSecurityContext {
    let user = says.of(intent.image.flavour.layout().user);
    let mut context = PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: user,
        run_as_group: user,
        fs_group: user,
        // Walking a large volume at every start would cost minutes.
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    };
    if let Some(theirs) = &intent.pod.settings.security_context {
        context.merge_from(theirs.clone());
    }
    context
}

pub(super) fn container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        ..SecurityContext::default()
    }
}

pub(crate) fn etcd_container(intent: &ClusterIntent) -> SecurityContext {
    let mut context = container();
    if let Some(theirs) = &intent.pod.settings.container_security_context {
        context.merge_from(theirs.clone());
    }
    context
}

/// The user that etcd runs as, where we know it.
pub(crate) fn user(intent: &ClusterIntent, says: PodUser) -> Option<i64> {
    etcd_container(intent)
        .run_as_user
        .or(pod(intent, says).run_as_user)
}
