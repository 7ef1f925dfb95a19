//! What a new object leaves out and the schema cannot fill in: a default below a part that is absent itself. Written into the
//! object when it is created, so that its owner can read what was decided over the data, and a later release of the operator
//! that decides otherwise changes no cluster that runs.
//!
//! Only what is absent is added, and never `security`: absent, it means plaintext.

use serde_json::{Value, json};

use crate::intent::DEFAULT_STORAGE;
use crate::v1alpha1::cluster::ClaimPolicy;

/// One value to be added where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Where, as a JSON pointer.
    pub path: &'static str,
    /// What.
    pub value: Value,
}

/// What to add to a new `EtcdCluster`. Nothing where the object is none: the schema says what is wrong with it.
pub fn of_cluster(object: &Value) -> Vec<Addition> {
    let policy = || {
        let ClaimPolicy {
            when_stopped,
            when_scaled,
            when_deleted,
        } = ClaimPolicy::default();
        json!({"whenStopped": when_stopped, "whenScaled": when_scaled, "whenDeleted": when_deleted})
    };
    let Some(spec) = object.get("spec").and_then(Value::as_object) else {
        return Vec::new();
    };
    let storage = match spec.get("storage") {
        None => {
            let value = json!({"size": DEFAULT_STORAGE, "claimPolicy": policy()});
            let path = "/spec/storage";
            return vec![Addition { path, value }];
        }
        Some(storage) => storage.as_object(),
    };
    let mut all = Vec::new();
    if storage.is_some_and(|storage| !storage.contains_key("claimPolicy")) {
        all.push(Addition {
            path: "/spec/storage/claimPolicy",
            value: policy(),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterIntent, EtcdCluster};

    fn object(spec: &Value) -> Value {
        json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"name": "db"}, "spec": spec})
    }

    fn filled(mut object: Value) -> Value {
        for Addition { path, value } in of_cluster(&object) {
            let (parent, name) = path.rsplit_once('/').unwrap();
            let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            assert!(
                parent.insert(name.to_owned(), value).is_none(),
                "{path} was written"
            );
        }
        object
    }

    fn samples() -> Vec<Value> {
        vec![
            json!({}),
            json!({"size": 1}),
            json!({"storage": {}}),
            json!({"storage": {"size": "1Gi"}}),
            json!({"storage": {"size": "1Gi", "claimPolicy": {"whenStopped": "Delete"}}}),
            json!({"storage": {"volumeClaimTemplate": {"spec": {}}}}),
            json!({"security": {"tls": {}}}),
        ]
    }

    #[test]
    fn what_was_written_stays_and_what_was_added_means_the_same() {
        for spec in samples() {
            let (before, after) = (object(&spec), filled(object(&spec)));
            let intent = |object: &Value| {
                let cluster: EtcdCluster = serde_json::from_value(object.clone()).unwrap();
                ClusterIntent::parse(&cluster.spec).unwrap()
            };
            assert_eq!(intent(&before), intent(&after), "{spec}");
            assert_eq!(
                before.pointer("/spec/security"),
                after.pointer("/spec/security")
            );
            assert!(
                of_cluster(&after).is_empty(),
                "{spec}: nothing is added twice"
            );
        }
    }

    #[test]
    fn the_policy_over_the_data_can_be_read_in_every_new_object() {
        let spec = filled(object(&json!({})))["spec"].clone();
        let policy =
            json!({"whenStopped": "Retain", "whenScaled": "Delete", "whenDeleted": "Retain"});
        assert_eq!(
            spec,
            json!({"storage": {"size": "10Gi", "claimPolicy": policy}})
        );
    }

    #[test]
    fn what_is_no_cluster_gets_nothing() {
        for strange in [
            json!(null),
            json!([]),
            json!({"spec": 3}),
            object(&json!({"storage": ["none"]})),
            object(&json!({"storage": null})),
        ] {
            assert_eq!(of_cluster(&strange), [], "{strange}");
        }
    }
}
