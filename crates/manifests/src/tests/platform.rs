//! Where the platform writes a user into each pod, ours name none, and say everything else that restricted pods say.

use serde_json::json;

use super::*;

fn pod(spec: &str, pod_user: PodUser) -> Value {
    let install = Installation {
        pod_user,
        ..install()
    };
    let objects = build_objects(&owner(), &intent(spec), &shape(1), &install).unwrap();
    template(&objects)["spec"].clone()
}

#[test]
fn a_platform_that_assigns_users_gets_pods_that_name_none() {
    for spec in ["{}", r#"{"repository":"bitnami/etcd"}"#] {
        let pod = pod(spec, PodUser::Assigned);
        let context = pod["securityContext"].as_object().unwrap();
        let said: Vec<&str> = context.keys().map(String::as_str).collect();
        // The group of volumes is the platform's as well.
        assert_eq!(
            said,
            ["fsGroupChangePolicy", "runAsNonRoot", "seccompProfile"]
        );
        assert!(!pod.to_string().contains("runAsUser"), "{pod}");
    }
}

#[test]
fn a_user_that_a_spec_names_is_kept() {
    let spec = r#"{"pod":{"securityContext":{"runAsUser":1000650000,"fsGroup":1000650000}}}"#;
    let context = pod(spec, PodUser::Assigned)["securityContext"].clone();
    assert_eq!(context["runAsUser"], 1_000_650_000);
    assert_eq!(context["fsGroup"], 1_000_650_000);
    assert!(context.get("runAsGroup").is_none(), "{context}");
}

/// Another platform is no other template: no member is restarted for it.
#[test]
fn only_users_differ_between_platforms() {
    let mut fixed = pod("{}", PodUser::Fixed);
    let context = fixed["securityContext"].as_object_mut().unwrap();
    for user in ["runAsUser", "runAsGroup", "fsGroup"] {
        assert_eq!(context.remove(user), Some(json!(65532)));
    }
    assert_eq!(fixed, pod("{}", PodUser::Assigned));
}

#[test]
fn tools_run_as_the_user_of_their_pod() {
    let wanted = intent(r#"{"debug":{"enabled":true}}"#);
    let container = debug_container(&wanted, PodUser::Assigned).unwrap();
    assert_eq!(container["securityContext"]["runAsUser"], Value::Null);
    assert_eq!(container["securityContext"]["runAsNonRoot"], true);
}
