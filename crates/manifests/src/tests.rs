//! Golden snapshots of every object, and the predecessor's mistakes that a template can make.

mod platform;
mod rungs;
mod settings;

use api::EtcdClusterSpec;

use super::*;

fn owner() -> Owner {
    Owner {
        name: "db".into(),
        namespace: "prod".into(),
        uid: "uid-1".into(),
    }
}

fn install() -> Installation {
    Installation {
        agent_image: "operator:1".into(),
        namespace: Some("etcd-operator-system".into()),
        pod_user: PodUser::Fixed,
    }
}

fn intent(spec: &str) -> ClusterIntent {
    let spec: EtcdClusterSpec = serde_json::from_str(spec).unwrap();
    ClusterIntent::parse(&spec).unwrap()
}

fn shape(replicas: u32) -> Shape {
    Shape {
        closing: false,
        template: Template::Render,
        fence: None,
        floors: BTreeMap::new(),
        replicas,
        min_available: replicas / 2 + 1,
        client_service: true,
        claims: (0..replicas).collect(),
        lineage: BTreeMap::new(),
    }
}

fn find<'a>(objects: &'a [Object], kind: Kind, name: &str) -> &'a Value {
    &objects
        .iter()
        .find(|o| o.kind == kind && o.name == name)
        .unwrap()
        .body
}

fn template(objects: &[Object]) -> &Value {
    &find(objects, Kind::StatefulSet, "db")["spec"]["template"]
}

#[test]
fn objects_of_a_default_cluster() {
    for object in build_objects(&owner(), &intent("{}"), &shape(1), &install()).unwrap() {
        insta::assert_yaml_snapshot!(format!("{:?}-{}", object.kind, object.name), object.body);
    }
}

#[test]
fn a_pod_names_the_object_it_was_made_for() {
    let spec =
        r#"{"pod":{"containers":[{"name":"other","image":"b","command":["--cluster-uid","x"]}]}}"#;
    let objects = build_objects(&owner(), &intent(spec), &shape(1), &install()).unwrap();
    let mut pod = serde_json::from_value(template(&objects)["spec"].clone()).unwrap();
    assert_eq!(named_object(&pod), Some("uid-1"));
    pod.containers.reverse();
    assert_eq!(named_object(&pod), Some("uid-1"), "whatever stands first");
    // etcd without a gate, whatever its own flags are.
    for command in [&["etcd"][..], &["etcd", "--", "--cluster-uid", "x"]] {
        for container in &mut pod.containers {
            container.command = Some(command.iter().map(|word| (*word).into()).collect());
        }
        assert_eq!(named_object(&pod), None, "{command:?}");
    }
}

#[test]
fn claim_and_pod_of_a_cluster_that_says_everything() {
    let intent = intent(
        r#"{"version":"3.6.16","resources":{"requests":{"cpu":"1"},"limits":{"memory":"1Gi"}},
            "storage":{"claimPolicy":{"whenDeleted":"Delete"},"volumeClaimTemplate":{
                "metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}},
                "spec":{"accessModes":["ReadWriteOncePod"],"storageClassName":"fast",
                        "resources":{"requests":{"storage":"20Gi"}},
                        "selector":{"matchLabels":{"disk":"nvme"}}}}}}"#,
    );
    let objects = build_objects(&owner(), &intent, &shape(3), &install()).unwrap();
    insta::assert_yaml_snapshot!(
        "full-claim",
        find(&objects, Kind::PersistentVolumeClaim, "data-db-2")
    );
    insta::assert_yaml_snapshot!("full-etcd", template(&objects)["spec"]["containers"][0]);
}

#[test]
fn the_pod_template_is_the_same_for_every_size() {
    let sizes = [1, 3, 5, 7, 9].map(|size| {
        template(&build_objects(&owner(), &intent("{}"), &shape(size), &install()).unwrap()).clone()
    });
    assert!(sizes.iter().all(|other| *other == sizes[0]));
}

#[test]
fn the_version_enters_neither_a_selector_nor_a_claim_template() {
    let build = |version: &str| {
        let intent = intent(&format!(r#"{{"version":"{version}"}}"#));
        let objects = build_objects(&owner(), &intent, &shape(3), &install()).unwrap();
        let spec = find(&objects, Kind::StatefulSet, "db")["spec"].clone();
        (
            spec["selector"].clone(),
            spec["volumeClaimTemplates"].clone(),
        )
    };
    assert_eq!(build("3.5.35"), build("3.7.3"));
}

#[test]
fn liveness_never_needs_a_quorum_and_old_releases_get_paths_they_know() {
    for (version, live, ready) in [
        ("3.5.9", "/health?serializable=true&exclude=NOSPACE", None),
        ("3.5.12", "/livez", None),
        ("3.5.19", "/livez", Some("/readyz")),
        ("3.7.3", "/livez", Some("/readyz")),
    ] {
        let intent = intent(&format!(r#"{{"version":"{version}"}}"#));
        let objects = build_objects(&owner(), &intent, &shape(3), &install()).unwrap();
        let etcd = &template(&objects)["spec"]["containers"][0];
        assert_eq!(etcd["livenessProbe"]["httpGet"]["path"], live, "{version}");
        assert_eq!(
            etcd["readinessProbe"]["httpGet"]["path"].as_str(),
            ready,
            "{version}"
        );
        assert_eq!(
            etcd["readinessProbe"]["exec"].is_null(),
            ready.is_some(),
            "{version}"
        );
    }
}

#[test]
fn flags_follow_the_minor_version() {
    let flags = |version: &str| {
        let intent = intent(&format!(r#"{{"version":"{version}"}}"#));
        flags::build(&owner(), &intent).join(" ")
    };
    assert!(
        flags("3.5.35").contains("--experimental-") && !flags("3.5.35").contains("max-learners")
    );
    assert!(
        !flags("3.7.3").contains("experimental") && flags("3.7.3").contains("--max-learners=8")
    );
    for version in ["3.5.35", "3.6.16", "3.7.3"] {
        assert!(
            !flags(version).contains("--initial-cluster"),
            "the agent alone may say that"
        );
    }
}

#[test]
fn a_claim_made_by_the_statefulset_goes_with_the_object_as_well() {
    let claims = |policy: &str| {
        let intent = intent(&format!(
            r#"{{"storage":{{"claimPolicy":{{"whenDeleted":"{policy}"}}}}}}"#
        ));
        let objects = build_objects(&owner(), &intent, &shape(1), &install()).unwrap();
        let template = &find(&objects, Kind::StatefulSet, "db")["spec"]["volumeClaimTemplates"][0];
        let claim = find(&objects, Kind::PersistentVolumeClaim, "data-db-0");
        let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].clone();
        (owner(template), owner(claim))
    };
    assert_eq!(claims("Delete"), ("uid-1".into(), "uid-1".into()));
    assert_eq!(claims("Retain"), (Value::Null, Value::Null));
}

#[test]
fn what_cannot_be_changed_is_taken_as_it_is() {
    let build = |spec| build_objects(&owner(), &intent(spec), &shape(1), &install()).unwrap();
    let old = build(r#"{"storage":{"claimPolicy":{"whenDeleted":"Delete"}}}"#);
    let mut new = build("{}")
        .into_iter()
        .find(|o| o.kind == Kind::StatefulSet)
        .unwrap();
    let live = find(&old, Kind::StatefulSet, "db");
    assert!(drift::find(live, &new.body).is_some());
    new.keep_immutable(live);
    assert_eq!(drift::find(&new.body, live), None);
}

#[test]
fn a_claim_that_exists_is_not_told_what_it_should_be() {
    let build = |spec| build_objects(&owner(), &intent(spec), &shape(1), &install()).unwrap();
    let mut live = find(&build("{}"), Kind::PersistentVolumeClaim, "data-db-0").clone();
    live["spec"]["volumeName"] = "pv-1".into();
    let grown = build(r#"{"storage":{"size":"20Gi","storageClassName":"fast"}}"#);
    let mut claim = grown
        .into_iter()
        .find(|o| o.kind == Kind::PersistentVolumeClaim)
        .unwrap();
    assert!(drift::find(&claim.body, &live).is_some());
    claim.keep_immutable(&live);
    assert_eq!(drift::find(&claim.body, &live), None);
    assert_eq!(claim.body["spec"], live["spec"]);
}

#[test]
fn a_template_that_is_not_due_stays_as_it_is() {
    let build = |spec| {
        build_objects(&owner(), &intent(spec), &shape(3), &install())
            .unwrap()
            .into_iter()
            .find(|o| o.kind == Kind::StatefulSet)
            .unwrap()
    };
    let live = build("{}").body;
    let mut next = build(r#"{"resources":{"requests":{"cpu":"1"}}}"#);
    assert!(drift::find(&next.body, &live).is_some());
    next.keep_template(&live);
    assert_eq!(
        drift::find(&next.body, &live),
        None,
        "the template is no part of what was applied"
    );
}

#[test]
fn a_pod_says_which_template_it_was_made_from_and_when_it_was_to_restart() {
    let mut intent = intent("{}");
    intent.restarted_at = Some("now".into());
    let objects = build_objects(&owner(), &intent, &shape(1), &install()).unwrap();
    let annotations = &template(&objects)["metadata"]["annotations"];
    assert_eq!(annotations["etcd.etcd.io/template"], template_hash(&intent));
    assert_eq!(annotations["etcd.etcd.io/restartedAt"], "now");
}

#[test]
fn what_is_no_longer_said_is_drift() {
    let said = object(
        Kind::Service,
        "a",
        &json!({"metadata": {}, "spec": {"ports": [1, 2]}}),
    );
    let less = object(
        Kind::Service,
        "a",
        &json!({"metadata": {}, "spec": {"ports": [1]}}),
    );
    let (said, less) = (said.unwrap().body, less.unwrap().body);
    assert_eq!(
        drift::find(&less, &said).as_deref(),
        Some(".metadata.annotations.etcd.etcd.io/applied")
    );
    let claim = object(Kind::PersistentVolumeClaim, "a", &json!({"metadata": {}}));
    assert_eq!(claim.unwrap().body, json!({"metadata": {}}));
}

#[test]
fn the_list_of_objects_names_exactly_what_is_built() {
    for access in ["ClusterIP", "NodePort", "LoadBalancer"] {
        let intent = intent(&format!(r#"{{"access":{{"type":"{access}"}}}}"#));
        for client_service in [false, true] {
            let shape = Shape {
                client_service,
                ..shape(3)
            };
            let built = build_objects(&owner(), &intent, &shape, &install()).unwrap();
            let built: Vec<(Kind, String)> = built.into_iter().map(|o| (o.kind, o.name)).collect();
            assert_eq!(list_objects("db", &intent, &shape), built);
            let unwanted = unwanted_objects("db", &intent, &shape);
            assert!(unwanted.iter().all(|unwanted| !built.contains(unwanted)));
        }
    }
}
