//! What a user says ends where it should, over what we would do.

use super::*;

/// Every field of the pod, of etcd and of the image.
const EVERYTHING: &str = r#"{
    "version": "3.6.16", "repository": "docker.io/bitnami/etcd",
    "image": {"digest": "sha256:ab", "pullPolicy": "Always"},
    "etcd": {
        "quotaBackendBytes": "2Gi", "autoCompaction": {"mode": "Revision", "retention": "1000"},
        "heartbeatIntervalMilliseconds": 200, "electionTimeoutMilliseconds": 2000,
        "snapshotCount": 5000, "logLevel": "warn", "maxRequestBytes": "2Mi",
        "flags": {"max-txn-ops": "256", "feature-gates": "LeaseCheckpoint=true"}
    },
    "pod": {
        "labels": {"team": "a"}, "annotations": {"note": "b"},
        "nodeSelector": {"disk": "nvme"}, "tolerations": [{"key": "etcd", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"team": "a"}}}]}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        "priorityClassName": "high", "imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "own",
        "env": [{"name": "GOMEMLIMIT", "value": "1GiB"}, {"name": "MY_STS_NAME", "value": "mine"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "containers": [{"name": "proxy", "image": "proxy:1"}],
        "securityContext": {"fsGroup": 7, "seccompProfile": {"type": "Localhost", "localhostProfile": "p"}},
        "containerSecurityContext": {"readOnlyRootFilesystem": false, "capabilities": {"add": ["IPC_LOCK"]}},
        "terminationGracePeriodSeconds": 60,
        "probes": {"startup": {"failureThreshold": 10}, "liveness": {"periodSeconds": 20, "timeoutSeconds": 9},
                   "readiness": {"initialDelaySeconds": 3}}
    }
}"#;

/// etcd exits when it is given a flag that it does not know.
#[test]
fn releases_before_3_5_5_are_not_given_a_flag_that_they_do_not_know() {
    let flags = |version: &str| pod(&format!(r#"{{"version":"{version}"}}"#)).to_string();
    for version in ["3.5.3", "3.5.4"] {
        assert!(!flags(version).contains("compact-hash-check"), "{version}");
    }
    for version in ["3.5.5", "3.5.35"] {
        assert!(flags(version).contains("compact-hash-check"), "{version}");
    }
}

fn pod(spec: &str) -> Value {
    let objects = build_objects(&owner(), &intent(spec), &shape(3), &install()).unwrap();
    template(&objects).clone()
}

#[test]
fn a_pod_of_which_everything_is_said() {
    insta::assert_yaml_snapshot!("everything-pod", pod(EVERYTHING));
}

#[test]
fn an_empty_list_of_constraints_leaves_spreading_to_the_scheduler() {
    let constraints = |spec| pod(spec)["spec"]["topologySpreadConstraints"].clone();
    assert_eq!(
        constraints(r#"{"pod":{"topologySpreadConstraints":[]}}"#),
        json!([])
    );
    assert_eq!(constraints(r#"{"pod":{}}"#).as_array().unwrap().len(), 2);
}

#[test]
fn labels_and_annotations_of_ours_cannot_be_taken_over() {
    let metadata = &pod(
        r#"{"pod":{"labels":{"app.kubernetes.io/name":"mine","etcd.etcd.io/cluster":"other"},
            "annotations":{"etcd.etcd.io/template":"forged"}}}"#,
    )["metadata"];
    assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "etcd");
    assert_eq!(metadata["labels"]["etcd.etcd.io/cluster"], "db");
    assert_ne!(metadata["annotations"]["etcd.etcd.io/template"], "forged");
}

#[test]
fn flags_of_a_user_come_last_and_gates_are_joined() {
    let flags = |spec: &str| flags::build(&owner(), &intent(spec));
    let last = |spec: &str| flags(spec).last().unwrap().clone();
    assert_eq!(
        last(r#"{"etcd":{"flags":{"max-txn-ops":"256"}}}"#),
        "--max-txn-ops=256"
    );
    for (theirs, gates) in [
        ("A=true", "--feature-gates=CompactHashCheck=true,A=true"),
        (
            "CompactHashCheck=false",
            "--feature-gates=CompactHashCheck=false",
        ),
    ] {
        let spec =
            format!(r#"{{"version":"3.6.16","etcd":{{"flags":{{"feature-gates":"{theirs}"}}}}}}"#);
        let built = flags(&spec);
        let ours: Vec<&String> = built
            .iter()
            .filter(|flag| flag.starts_with("--feature-gates"))
            .collect();
        assert_eq!(ours, [gates]);
    }
}

#[test]
fn access_from_outside_is_a_service_of_its_own() {
    for (spec, name) in [
        (
            r#"{"access":{"type":"NodePort","nodePort":30379,"externalTrafficPolicy":"Local"}}"#,
            "db-nodeport",
        ),
        (
            r#"{"access":{"type":"LoadBalancer","annotations":{"a":"b"},"loadBalancerClass":"c",
                "loadBalancerSourceRanges":["10.0.0.0/8"]}}"#,
            "db-lb",
        ),
    ] {
        let objects = build_objects(&owner(), &intent(spec), &shape(3), &install()).unwrap();
        insta::assert_yaml_snapshot!(
            format!("access-{name}"),
            find(&objects, Kind::Service, name)
        );
        let client = find(&objects, Kind::Service, "db-client");
        assert_eq!(client["spec"]["type"], "ClusterIP");
    }
}

#[test]
fn a_service_for_outside_is_wanted_only_as_long_as_it_is_asked_for_and_the_cluster_has_formed() {
    let unwanted = |spec, client_service| {
        let shape = Shape {
            client_service,
            ..shape(3)
        };
        let unwanted = unwanted_objects("db", &intent(spec), &shape);
        let services = unwanted
            .into_iter()
            .filter(|(kind, _)| *kind == Kind::Service);
        services.map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(unwanted("{}", true), ["db-nodeport", "db-lb"]);
    let node = r#"{"access":{"type":"NodePort"}}"#;
    assert_eq!(unwanted(node, true), ["db-lb"]);
    assert_eq!(unwanted(node, false), ["db-nodeport", "db-lb"]);
    assert_eq!(
        unwanted(r#"{"access":{"type":"LoadBalancer"}}"#, true),
        ["db-nodeport"]
    );
}

#[test]
fn tools_come_as_an_ephemeral_container_that_restricted_pod_security_lets_in() {
    assert_eq!(debug_container(&intent("{}"), PodUser::Fixed), None);
    let container =
        debug_container(&intent(r#"{"debug":{"enabled":true}}"#), PodUser::Fixed).unwrap();
    assert_eq!(
        container,
        json!({
            "name": "debug", "image": "nicolaka/netshoot", "command": ["sleep", "infinity"],
            "imagePullPolicy": "IfNotPresent",
            "targetContainerName": "etcd",
            "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": true, "runAsUser": 65532,
            },
        })
    );
    let own =
        r#"{"repository":"bitnami/etcd","debug":{"enabled":true,"image":"a:1","command":["b"]}}"#;
    let own = debug_container(&intent(own), PodUser::Fixed).unwrap();
    assert_eq!(own["securityContext"]["runAsUser"], 1001);
    assert_eq!(
        (&own["image"], &own["command"]),
        (&json!("a:1"), &json!(["b"]))
    );
    // It is no part of the template.
    assert_eq!(pod(r#"{"debug":{"enabled":true}}"#), pod("{}"));
}

/// Who is let in, by port.
fn doors(spec: &str, install: &Installation) -> Vec<(Vec<i64>, usize)> {
    let objects = build_objects(&owner(), &intent(spec), &shape(3), install).unwrap();
    let policy = find(&objects, Kind::NetworkPolicy, "db");
    let rules = policy["spec"]["ingress"].as_array().unwrap();
    let doors = rules.iter().map(|rule| {
        let ports = rule["ports"].as_array().unwrap().iter();
        let from = rule["from"].as_array().unwrap().len();
        (
            ports.map(|port| port["port"].as_i64().unwrap()).collect(),
            from,
        )
    });
    doors.collect()
}

#[test]
fn a_network_policy_lets_in_members_the_operator_and_who_is_named_and_no_rule_is_open_to_all() {
    let named = r#"{"security":{"networkPolicy":{"clients":[{"podSelector":{"matchLabels":{"app":"api"}}}],
        "metrics":[{"namespaceSelector":{"matchLabels":{"team":"watch"}}}]}}}"#;
    let objects = build_objects(&owner(), &intent(named), &shape(3), &install()).unwrap();
    insta::assert_yaml_snapshot!("network-policy", find(&objects, Kind::NetworkPolicy, "db"));
    let alone = r#"{"security":{"networkPolicy":{}}}"#;
    assert_eq!(
        doors(alone, &install()),
        [
            (vec![2380, 2379], 1),
            (vec![2379, 2381, 2382], 1),
            (vec![2379], 1)
        ]
    );
    // An operator outside of Kubernetes has no pods; a rule without peers would let in every pod.
    let outside = Installation {
        namespace: None,
        ..install()
    };
    assert_eq!(
        doors(alone, &outside),
        [(vec![2380, 2379], 1), (vec![2379], 1)]
    );
}

#[test]
fn a_network_policy_is_there_only_while_it_is_asked_for() {
    for (spec, wanted) in [
        ("{}", false),
        (r#"{"security":{"networkPolicy":{}}}"#, true),
        (r#"{"security":{"networkPolicy":{"enabled":false}}}"#, false),
    ] {
        let intent = intent(spec);
        let policy = (Kind::NetworkPolicy, "db".to_owned());
        let listed = list_objects("db", &intent, &shape(3)).contains(&policy);
        let unwanted = unwanted_objects("db", &intent, &shape(3)).contains(&policy);
        assert_eq!((listed, unwanted), (wanted, !wanted), "{spec}");
    }
}
