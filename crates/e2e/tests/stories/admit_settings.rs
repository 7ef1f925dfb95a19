//! What the API server takes and refuses of the settings of etcd, of pods, of images and of access from outside. No operator
//! is needed.

use anyhow::Context;
use e2e::{Case, Played, document, story};
use serde_json::{Value, json};

fn flags(names: &[&str]) -> Value {
    let flags = names.iter().map(|name| ((*name).to_owned(), json!("1")));
    json!({"etcd": {"flags": Value::Object(flags.collect())}})
}

#[test]
fn settings_that_make_sense_are_accepted() -> Played {
    story(|stage| async move {
        let specs = [
            json!({"repository": "bitnami/etcd", "image": {"pullPolicy": "Always"}}),
            json!({"repository": "registry.k8s.io/etcd", "version": "v3.6.5", "image": {"tag": "3.6.5-0"}}),
            json!({"image": {"flavour": "Official", "digest": format!("sha256:{}", "a".repeat(64))}}),
            json!({"etcd": {"quotaBackendBytes": "2Gi", "maxRequestBytes": 2_097_152, "logLevel": "warn",
                "autoCompaction": {"mode": "Revision", "retention": "1000"}, "snapshotCount": 10000,
                "heartbeatIntervalMilliseconds": 100, "electionTimeoutMilliseconds": 500}}),
            flags(&[
                "max-txn-ops",
                "enable-pprof",
                "auth-token",
                "pre-vote",
                "cors",
            ]),
            json!({"version": "v3.7.3", "etcd": {"flags": {"feature-gates": "LeaseCheckpoint=true"}}}),
            json!({"pod": {"labels": {"app.kubernetes.io/part-of": "shop"}, "annotations": {"note": "any {thing}"},
                "nodeSelector": {"kubernetes.io/os": "linux"}, "topologySpreadConstraints": [],
                "tolerations": [{"key": "etcd", "operator": "Exists"}], "priorityClassName": "high",
                "imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "own"}}),
            json!({"pod": {"env": [{"name": "GOMEMLIMIT", "value": "1GiB"}],
                "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                "containers": [{"name": "proxy", "image": "proxy:1", "resources": {"limits": {"cpu": 1}}}],
                "securityContext": {"fsGroup": 1000}, "containerSecurityContext": {"readOnlyRootFilesystem": false},
                "terminationGracePeriodSeconds": 60, "probes": {"liveness": {"periodSeconds": 20}}}}),
            json!({"access": {"type": "NodePort", "nodePort": 30379, "externalTrafficPolicy": "Local"}}),
            json!({"access": {"type": "LoadBalancer", "loadBalancerClass": "example.com/a", "annotations": {"a": "b"},
                "loadBalancerSourceRanges": ["10.0.0.0/8", "fd00::/8"]}}),
            json!({"maintenance": {"defragment": "Never", "window": {"start": "23:30", "hours": 2}}}),
            json!({"debug": {"enabled": true, "image": "busybox:1.36", "command": ["sleep", "1d"]}}),
        ];
        for spec in specs {
            let answer = stage.commands.try_apply(&document("c", &spec)).await?;
            answer.accepted().with_context(|| spec.to_string())?;
        }
        Ok(())
    })
}

#[test]
fn a_patience_that_is_none_is_refused() -> Played {
    let patience = |seconds: i32| json!({"recovery": {"nodePatienceSeconds": seconds}});
    let joins = |seconds: i32| json!({"recovery": {"joinPatienceSeconds": seconds}});
    let joins_within: &[&str] = &["recovery.joinPatienceSeconds", "60 to 604800"];
    let cases: Vec<Case> = vec![
        (
            patience(0),
            &["recovery.nodePatienceSeconds", "10 to 604800"],
        ),
        (
            patience(-1),
            &["recovery.nodePatienceSeconds", "10 to 604800"],
        ),
        (
            json!({"recovery": {"onQuorumLoss": "Always"}}),
            &["onQuorumLoss", "FromSurvivor"],
        ),
        (joins(59), joins_within),
        (joins(-1), joins_within),
        (joins(604_801), joins_within),
    ];
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn a_maintenance_window_that_is_none_is_refused() -> Played {
    let window = |start: &str, hours: i32| json!({"maintenance": {"window": {"start": start, "hours": hours}}});
    let cases: Vec<Case> = vec![
        (window("24:00", 1), &["maintenance.window.start", "02:00"]),
        (window("2am", 1), &["maintenance.window.start", "02:00"]),
        (
            window("02:00", 0),
            &["maintenance.window.hours", "24 hours"],
        ),
        (
            window("02:00", 25),
            &["maintenance.window.hours", "24 hours"],
        ),
        (
            json!({"maintenance": {"defragment": "Sometimes"}}),
            &["maintenance.defragment", "Never"],
        ),
        (
            json!({"maintenance": {"compact": "Sometimes"}}),
            &["maintenance.compact", "Never"],
        ),
        (
            json!({"maintenance": {"keepRevisions": 0}}),
            &["maintenance.keepRevisions", "1 to 1000000000"],
        ),
        (
            json!({"maintenance": {"keepRevisions": 1_000_000_001}}),
            &["maintenance.keepRevisions", "compact: Never"],
        ),
    ];
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn an_image_that_cannot_be_named_is_refused() -> Played {
    let cases: Vec<Case> = vec![
        (
            json!({"repository": "registry.k8s.io/etcd"}),
            &["spec.repository", "spec.image.tag", "spec.image.digest"],
        ),
        (
            json!({"version": "v3.6.16", "image": {"tag": "3.6.5-0"}}),
            &["spec.image.tag", "another release", "spec.version"],
        ),
        (
            json!({"image": {"digest": "sha256:abc"}}),
            &["spec.image.digest", "64 hexadecimal digits"],
        ),
        (
            json!({"image": {"tag": "a b"}}),
            &["spec.image.tag", "not a tag", "v3.6.16"],
        ),
        (
            json!({"image": {"flavour": "Alpine"}}),
            &["spec.image.flavour", "Official", "Bitnami"],
        ),
    ];
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn settings_that_etcd_would_not_take_are_refused() -> Played {
    let etcd = |etcd: Value| json!({ "etcd": etcd });
    let cases: Vec<Case> = vec![
        (
            etcd(json!({"quotaBackendBytes": "11Gi"})),
            &[
                "spec.etcd.quotaBackendBytes",
                "larger than the volume",
                "spec.storage.size",
            ],
        ),
        (
            etcd(json!({"quotaBackendBytes": "0"})),
            &["spec.etcd.quotaBackendBytes", "at least 16Mi"],
        ),
        (
            etcd(json!({"maxRequestBytes": "2Gi"})),
            &["spec.etcd.maxRequestBytes", "between 1Ki and 1Gi"],
        ),
        (
            etcd(json!({"autoCompaction": {"retention": "often"}})),
            &["spec.etcd.autoCompaction", "such as 1h"],
        ),
        (
            etcd(json!({"autoCompaction": {"mode": "Revision"}})),
            &["spec.etcd.autoCompaction", "such as 1000"],
        ),
        (
            etcd(json!({"heartbeatIntervalMilliseconds": 100})),
            &["electionTimeoutMilliseconds", "write both, or neither"],
        ),
        (
            etcd(json!({"heartbeatIntervalMilliseconds": 100, "electionTimeoutMilliseconds": 400})),
            &["at least five times", "100 and 1000"],
        ),
        (
            etcd(json!({"logLevel": "loud"})),
            &["spec.etcd.logLevel", "warn"],
        ),
    ];
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn flags_that_etcd_lacks_that_have_a_field_or_that_are_the_operators_are_refused() -> Played {
    let mut cases: Vec<Case> = vec![
        (
            json!({"version": "v3.7.3", "etcd": {"flags": {"experimental-warning-apply-duration": "1s"}}}),
            &[
                "spec.etcd.flags",
                "3.7 has no flags that begin with experimental-",
            ],
        ),
        (
            json!({"version": "v3.5.35", "etcd": {"flags": {"feature-gates": "A=true"}}}),
            &["spec.etcd.flags", "3.5 has no feature-gates"],
        ),
        (
            flags(&["--max-txn-ops"]),
            &["spec.etcd.flags", "without dashes"],
        ),
        (
            flags(&["quota-backend-bytes"]),
            &["spec.etcd.flags", "write spec.etcd.quotaBackendBytes"],
        ),
        (flags(&["log-level"]), &["write spec.etcd.logLevel"]),
    ];
    for flag in [
        "data-dir",
        "listen-client-urls",
        "initial-cluster",
        "peer-cert-file",
        "auto-tls",
        "max-learners",
    ] {
        cases.push((
            flags(&[flag]),
            &["spec.etcd.flags", "reserved for the operator"],
        ));
    }
    for flag in [
        "force-new-cluster",
        "unsafe-no-fsync",
        "strict-reconfig-check",
    ] {
        cases.push((flags(&[flag]), &["spec.etcd.flags", "lose data"]));
    }
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn pods_that_could_not_be_made_are_refused() -> Played {
    let pod = |pod: Value| json!({ "pod": pod });
    let cases: Vec<Case> = vec![
        (
            pod(json!({"labels": {"a b": "c"}})),
            &["spec.pod.labels", "not a key"],
        ),
        (
            pod(json!({"labels": {"a": "b c"}})),
            &["spec.pod.labels", "not a value"],
        ),
        (
            pod(json!({"annotations": {"etcd.etcd.io/grant": "{}"}})),
            &["spec.pod.annotations", "reserved for the operator"],
        ),
        (
            pod(json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]})),
            &["spec.pod.env", "Duplicate"],
        ),
        (
            pod(json!({"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]})),
            &["spec.pod.volumeMounts", "spec.pod.volumes"],
        ),
        (
            pod(json!({"volumes": [{"emptyDir": {}}]})),
            &["spec.pod.volumes[0].name"],
        ),
        (
            pod(json!({"containers": [{"name": "proxy"}]})),
            &["spec.pod.containers[0].image"],
        ),
        (
            pod(json!({"terminationGracePeriodSeconds": 5})),
            &["spec.pod.terminationGracePeriodSeconds", "at least 10"],
        ),
        (
            pod(json!({"probes": {"liveness": {"periodSeconds": 0}}})),
            &["spec.pod.probes.liveness.periodSeconds"],
        ),
    ];
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn names_that_the_operator_uses_in_a_pod_are_refused() -> Played {
    let pod = |pod: Value| json!({ "pod": pod });
    let scratch = json!([{"name": "scratch", "emptyDir": {}}]);
    let mut cases: Vec<Case> = Vec::new();
    for label in [
        "etcd.etcd.io/cluster",
        "app.kubernetes.io/name",
        "controller-revision-hash",
    ] {
        let labels = json!({"labels": {label: "a"}});
        cases.push((pod(labels), &["spec.pod.labels", "one of your own"]));
    }
    for name in ["ETCD_NAME", "POD_NAME", "POD_UID"] {
        let env = json!({"env": [{"name": name, "value": "a"}]});
        cases.push((pod(env), &["spec.pod.env[0].name", "spec.etcd"]));
    }
    for name in ["data", "agent", "podinfo"] {
        let volumes = json!({"volumes": [{"name": name, "emptyDir": {}}]});
        cases.push((
            pod(volumes),
            &["spec.pod.volumes[0].name", "write another one"],
        ));
    }
    for name in ["etcd", "agent", "debug"] {
        let containers = json!({"containers": [{"name": name, "image": "a"}]});
        cases.push((
            pod(containers),
            &["spec.pod.containers[0].name", "write another one"],
        ));
    }
    for path in ["/", "/var/lib/etcd/data", "/agent", "/podinfo"] {
        let mounts = json!([{"name": "scratch", "mountPath": path}]);
        let mounts = json!({"volumes": scratch, "volumeMounts": mounts});
        cases.push((
            pod(mounts),
            &["spec.pod.volumeMounts[0].mountPath", "another path"],
        ));
    }
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn a_field_of_access_that_its_type_does_not_have_is_refused() -> Played {
    let access = |access: Value| json!({ "access": access });
    let cases: Vec<Case> = vec![
        (
            access(json!({"nodePort": 30379})),
            &["spec.access.nodePort", "type: NodePort"],
        ),
        (
            access(json!({"type": "NodePort", "nodePort": 2379})),
            &["spec.access.nodePort", "from 30000 to 32767"],
        ),
        (
            access(json!({"annotations": {"a": "b"}})),
            &["spec.access.annotations", "type: NodePort or LoadBalancer"],
        ),
        (
            access(json!({"type": "NodePort", "loadBalancerClass": "a"})),
            &["spec.access.loadBalancerClass", "type: LoadBalancer"],
        ),
        (
            access(json!({"type": "NodePort", "loadBalancerSourceRanges": ["10.0.0.0/8"]})),
            &["spec.access.loadBalancerSourceRanges", "type: LoadBalancer"],
        ),
        (
            access(json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["ten"]})),
            &["spec.access.loadBalancerSourceRanges[0]", "10.0.0.0/8"],
        ),
        (
            access(json!({"externalTrafficPolicy": "Local"})),
            &[
                "spec.access.externalTrafficPolicy",
                "NodePort or LoadBalancer",
            ],
        ),
        (
            access(json!({"type": "Ingress"})),
            &["spec.access.type", "NodePort"],
        ),
    ];
    story(|stage| async move { stage.all_refused(cases).await })
}

#[test]
fn a_peer_that_no_network_policy_could_have_is_refused() -> Played {
    let policy = |clients: Value| json!({"security": {"networkPolicy": {"clients": clients}}});
    let mut cases: Vec<Case> = vec![
        (
            policy(json!([{}])),
            &["spec.security.networkPolicy.clients[0]", "podSelector: {}"],
        ),
        (
            policy(json!([{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}])),
            &["clients[0].ipBlock", "an item of its own"],
        ),
        (
            policy(json!([{"ipBlock": {"cidr": "ten"}}])),
            &["clients[0].ipBlock.cidr", "10.0.0.0/8"],
        ),
    ];
    cases.push((
        json!({"security": {"networkPolicy": {"metrics": [{}]}}}),
        &["spec.security.networkPolicy.metrics[0]", "podSelector: {}"],
    ));
    story(|stage| async move { stage.all_refused(cases).await })
}
