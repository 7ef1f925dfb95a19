//! Whose a pod is. Its name says nothing: an object that was deleted and created again under the same name finds the pods
//! of the former one, which serve until the garbage collector comes to them.

use api::EtcdCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::kubernetes::Belonging;

/// A pod is the object's that its gate was told. That cannot be changed in a pod, and it outlives the StatefulSet: while
/// a StatefulSet is recreated around its pods (`OrphanPods`) they have another controller or none, and are ours. Pods
/// without a gate are a previous operator's and name no object; they are left to the rules.
///
/// `set` is the live StatefulSet of the cluster's name, whosever it is.
pub(super) fn whose_pod(pod: &Pod, cluster: &EtcdCluster, set: Option<&StatefulSet>) -> Belonging {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let named = pod.spec.as_ref().and_then(manifests::named_object);
    if named.is_none_or(|named| named == uid) {
        return Belonging::Ours;
    }
    let Some(controller) = controller_of(pod) else {
        return whose_stray(pod, cluster);
    };
    let set = set.filter(|set| set.metadata.uid.as_deref() == Some(controller));
    // It goes with its StatefulSet, or that has gone already.
    set.map_or(Belonging::Former, |set| whose_set(set, uid))
}

/// Kubernetes never deletes a pod without a controller, so that is not waited for: a person has to. Where there is a cluster
/// already, it ran under a StatefulSet that was given to this object and is being recreated.
fn whose_stray(pod: &Pod, cluster: &EtcdCluster) -> Belonging {
    let status = cluster.status.as_ref();
    if pod.metadata.deletion_timestamp.is_some() {
        Belonging::Former
    } else if status.is_some_and(|status| status.cluster_id.is_some()) {
        Belonging::Ours
    } else {
        Belonging::Foreign
    }
}

fn controller_of(pod: &Pod) -> Option<&str> {
    let mut owners = pod.owner_references().iter();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(&controller.uid)
}

/// One that a user gave to this object is this object's with all its pods, whichever object they name.
fn whose_set(set: &StatefulSet, uid: &str) -> Belonging {
    let owners = set.owner_references().iter();
    let mut clusters = owners
        .filter(|owner| owner.kind == "EtcdCluster")
        .peekable();
    if clusters.peek().is_none() {
        Belonging::Foreign
    } else if clusters.any(|owner| owner.uid == uid) {
        Belonging::Ours
    } else {
        Belonging::Former
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(status: &Value) -> EtcdCluster {
        let metadata = json!({"name": "c", "namespace": "n", "uid": "new"});
        serde_json::from_value(
            json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": metadata, "spec": {}, "status": status}),
        )
        .unwrap()
    }

    fn pod(named: Option<&str>, controller: Option<&str>) -> Pod {
        let owners: Vec<Value> = controller
            .iter()
            .map(|uid| owner("StatefulSet", uid))
            .collect();
        let command = match named {
            Some(named) => json!(["/agent/etcd-agent", "gate", "--cluster-uid", named, "--"]),
            None => json!(["etcd"]),
        };
        serde_json::from_value(
            json!({"metadata": {"name": "c-0", "ownerReferences": owners},
            "spec": {"containers": [{"name": api::names::ETCD_CONTAINER, "command": command}]}}),
        )
        .unwrap()
    }

    fn owner(kind: &str, uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "name": "c", "uid": uid, "controller": true})
    }

    fn set(uid: &str, cluster: Option<&str>) -> StatefulSet {
        let owners: Vec<Value> = cluster
            .iter()
            .map(|uid| owner("EtcdCluster", uid))
            .collect();
        serde_json::from_value(json!({"metadata": {"uid": uid, "ownerReferences": owners}}))
            .unwrap()
    }

    fn whose(pod: &Pod, set: Option<&StatefulSet>) -> Belonging {
        whose_pod(pod, &cluster(&json!({})), set)
    }

    fn terminating(mut pod: Pod) -> Pod {
        let time = json!("2026-01-01T00:00:00Z");
        pod.metadata.deletion_timestamp = Some(serde_json::from_value(time).unwrap());
        pod
    }

    #[test]
    fn a_pod_that_the_garbage_collector_has_not_come_to_is_the_former_objects() {
        let left = pod(Some("old"), Some("set-old"));
        let (former, ours) = (set("set-old", Some("old")), set("set-new", Some("new")));
        for set in [None, Some(&former), Some(&ours)] {
            assert_eq!(whose(&left, set), Belonging::Former, "{set:?}");
        }
        // Its own StatefulSet may have let go of it before.
        let gone = terminating(pod(Some("old"), None));
        assert_eq!(whose(&gone, None), Belonging::Former);
        // A cluster that has formed does not make it ours.
        let begun = cluster(&json!({"clusterID": "1"}));
        assert_eq!(whose_pod(&left, &begun, Some(&ours)), Belonging::Former);
    }

    /// While the StatefulSet is recreated, and until the garbage collector has noticed.
    #[test]
    fn a_pod_that_names_us_is_ours_whatever_controls_it() {
        let (before, after) = (set("set-1", Some("new")), set("set-2", Some("new")));
        for controller in [Some("set-1"), None] {
            let running = pod(Some("new"), controller);
            for set in [Some(&before), None, Some(&after)] {
                assert_eq!(whose(&running, set), Belonging::Ours, "{controller:?}");
                assert_eq!(whose(&terminating(running.clone()), set), Belonging::Ours);
            }
        }
    }

    #[test]
    fn a_pod_of_an_earlier_operator_names_no_object_and_is_left_to_the_rules() {
        for controller in [Some("set-1"), None] {
            let pod = pod(None, controller);
            assert_eq!(whose(&pod, None), Belonging::Ours);
            assert_eq!(whose(&pod, Some(&set("set-2", None))), Belonging::Ours);
        }
        assert_eq!(whose(&Pod::default(), None), Belonging::Ours);
    }

    /// Nothing would ever come of waiting for it.
    #[test]
    fn a_pod_of_another_object_that_is_not_deleted_is_foreign() {
        let stray = pod(Some("old"), None);
        assert_eq!(whose(&stray, None), Belonging::Foreign);
        let ours = set("set-new", Some("new"));
        assert_eq!(whose(&stray, Some(&ours)), Belonging::Foreign);
        let kept = pod(Some("old"), Some("set-old"));
        let orphan = set("set-old", None);
        assert_eq!(whose(&kept, Some(&orphan)), Belonging::Foreign);
    }

    #[test]
    fn a_statefulset_that_was_given_to_this_object_brings_its_pods() {
        let given = set("set-old", Some("new"));
        let running = pod(Some("old"), Some("set-old"));
        assert_eq!(whose(&running, Some(&given)), Belonging::Ours);
        // It is recreated around them.
        let begun = cluster(&json!({"clusterID": "1"}));
        let stray = pod(Some("old"), None);
        assert_eq!(whose_pod(&stray, &begun, None), Belonging::Ours);
    }
}
