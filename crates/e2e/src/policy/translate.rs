//! From NetworkPolicy objects to the rules of one pod, as the API of Kubernetes words them: what no policy selects is open; what one
//! selects lets in what any of them names, and nothing else. Only what comes in: our policies say nothing of what goes out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

/// Ours alone, in every pod that is selected.
pub(super) const TABLE: &str = "e2e_policy";

/// Everything that selectors may find.
#[derive(Default)]
pub(super) struct World {
    pub(super) policies: Vec<NetworkPolicy>,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) pods: Vec<Pod>,
}

/// The rules of a pod, for nft; `None` where no policy selects it. Its node always comes in, as with every implementation.
pub(super) fn rules(world: &World, pod: &Pod, node: &str) -> Option<String> {
    let selecting = world.policies.iter().filter(|policy| {
        let spec = policy.spec.as_ref();
        let selector = spec.and_then(|spec| spec.pod_selector.as_ref());
        policy.namespace() == pod.namespace()
            && is_for_ingress(policy)
            && selector.is_none_or(|selector| matches(selector, pod.labels()))
    });
    let selecting: Vec<&NetworkPolicy> = selecting.collect();
    if selecting.is_empty() {
        return None;
    }
    let mut accepted = String::new();
    for policy in selecting {
        let spec = policy.spec.iter();
        let ingress = spec.flat_map(|spec| spec.ingress.iter().flatten());
        let namespace = policy.namespace().unwrap_or_default();
        for rule in ingress {
            accept(&mut accepted, world, (&namespace, rule));
        }
    }
    Some(format!(
        "table ip {TABLE} {{
  chain input {{
    type filter hook input priority 0; policy drop;
    ct state established,related accept
    iifname lo accept
    ip saddr {node} accept
{accepted}  }}
}}
"
    ))
}

fn is_for_ingress(policy: &NetworkPolicy) -> bool {
    let types = policy.spec.as_ref();
    let types = types.and_then(|spec| spec.policy_types.as_ref());
    types.is_none_or(|types| types.iter().any(|it| it == "Ingress"))
}

/// One line for each peer. No peers are all peers, and no ports are all ports.
fn accept(text: &mut String, world: &World, (namespace, rule): (&str, &NetworkPolicyIngressRule)) {
    let ports = rule.ports.as_deref().unwrap_or_default();
    let ports = if ports.is_empty() {
        String::new()
    } else {
        let ports: Vec<String> = ports.iter().filter_map(port).collect();
        if ports.is_empty() {
            return;
        }
        format!("tcp dport {{ {} }} ", ports.join(", "))
    };
    let from = rule.from.as_deref().unwrap_or_default();
    let peers: Vec<String> = if from.is_empty() {
        vec![String::new()]
    } else {
        let sources = from.iter();
        sources
            .filter_map(|peer| sources_of(world, namespace, peer))
            .collect()
    };
    for peer in peers {
        writeln!(text, "    {peer}{ports}accept").unwrap_or_default();
    }
}

/// Ports by name are not translated: ours are numbers.
fn port(port: &NetworkPolicyPort) -> Option<String> {
    let tcp = port.protocol.as_deref().is_none_or(|it| it == "TCP");
    match (&port.port, port.end_port) {
        (Some(IntOrString::Int(first)), Some(last)) if tcp => Some(format!("{first}-{last}")),
        (Some(IntOrString::Int(only)), None) if tcp => Some(only.to_string()),
        _other => None,
    }
}

/// The addresses that a peer stands for, as a condition; `None` where it stands for none.
fn sources_of(world: &World, namespace: &str, peer: &NetworkPolicyPeer) -> Option<String> {
    if let Some(block) = &peer.ip_block {
        let except = block.except.as_deref().unwrap_or_default();
        let but = if except.is_empty() {
            String::new()
        } else {
            format!("ip saddr != {{ {} }} ", except.join(", "))
        };
        return Some(format!("ip saddr {} {but}", block.cidr));
    }
    let inside = |pod: &&Pod| match &peer.namespace_selector {
        None => pod.namespace().as_deref() == Some(namespace),
        Some(selector) => world
            .namespaces
            .iter()
            .any(|it| Some(it.name_any()) == pod.namespace() && matches(selector, it.labels())),
    };
    let meant = |pod: &&Pod| {
        let selector = peer.pod_selector.as_ref();
        selector.is_none_or(|selector| matches(selector, pod.labels()))
    };
    let pods = world.pods.iter().filter(inside).filter(meant);
    let addresses = pods.filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let addresses: BTreeSet<String> = addresses.collect();
    let addresses: Vec<String> = addresses.into_iter().collect();
    (!addresses.is_empty()).then(|| format!("ip saddr {{ {} }} ", addresses.join(", ")))
}

/// An empty selector means everything.
fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector.match_labels.iter().flatten();
    let mut exact = exact.map(|(key, value)| labels.get(key) == Some(value));
    let more = selector.match_expressions.iter().flatten();
    exact.all(|it| it) && more.into_iter().all(|it| holds(it, labels))
}

fn holds(expression: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let has = labels.get(&expression.key);
    let values = expression.values.as_deref().unwrap_or_default();
    let listed = has.is_some_and(|has| values.contains(has));
    match expression.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => has.is_some(),
        "DoesNotExist" => has.is_none(),
        _unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(namespace: &str, name: &str, address: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
            "status": {"podIP": address},
        }))
        .unwrap()
    }

    /// Rules for the pod `a/db`.
    fn of(ingress: &Value) -> Option<String> {
        let policy = json!({"metadata": {"namespace": "a", "name": "p"}, "spec": {
            "podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"],
            "ingress": ingress}});
        let namespace = |name: &str| {
            let labels = json!({"kubernetes.io/metadata.name": name});
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
        };
        let world = World {
            policies: vec![serde_json::from_value(policy).unwrap()],
            namespaces: vec![namespace("a"), namespace("b")],
            pods: vec![
                pod("a", "db", "10.0.0.1"),
                pod("a", "shop", "10.0.0.2"),
                pod("b", "shop", "10.0.0.3"),
                pod("b", "other", "10.0.0.4"),
            ],
        };
        let db = pod("a", "db", "10.0.0.1");
        assert_eq!(
            rules(&world, &pod("a", "shop", "10.0.0.2"), "10.0.0.9"),
            None
        );
        assert_eq!(rules(&world, &pod("b", "db", "10.0.0.5"), "10.0.0.9"), None);
        rules(&world, &db, "10.0.0.9")
    }

    /// What is accepted beside what always is.
    fn accepted(ingress: &Value) -> Vec<String> {
        let text = of(ingress).unwrap();
        let lines = text.lines().map(|line| line.trim().to_owned());
        let lines = lines.filter(|line| line.ends_with("accept"));
        let usual = [
            "ct state established,related accept",
            "iifname lo accept",
            "ip saddr 10.0.0.9 accept",
        ];
        lines
            .filter(|line| !usual.contains(&line.as_str()))
            .collect()
    }

    #[test]
    fn what_is_not_named_is_dropped() {
        assert!(accepted(&json!([])).is_empty());
        assert!(of(&json!([])).unwrap().contains("policy drop"));
        let shop = json!([{"from": [{"podSelector": {"matchLabels": {"app": "shop"}}}], "ports": [{"port": 2379}]}]);
        assert_eq!(
            accepted(&shop),
            ["ip saddr { 10.0.0.2 } tcp dport { 2379 } accept"]
        );
        let none = json!([{"from": [{"podSelector": {"matchLabels": {"app": "gone"}}}]}]);
        assert!(accepted(&none).is_empty());
    }

    #[test]
    fn no_peers_are_all_peers_and_no_ports_all_ports() {
        assert_eq!(accepted(&json!([{}])), ["accept"]);
        let ports = json!([{"ports": [{"port": 1}, {"port": 5, "endPort": 7}, {"port": 9, "protocol": "UDP"}]}]);
        assert_eq!(accepted(&ports), ["tcp dport { 1, 5-7 } accept"]);
        assert!(accepted(&json!([{"ports": [{"port": 9, "protocol": "UDP"}]}])).is_empty());
    }

    #[test]
    fn a_selector_of_namespaces_and_one_of_pods_must_both_hold() {
        let named = json!({"matchLabels": {"kubernetes.io/metadata.name": "b"}});
        let both = json!([{"from": [{"namespaceSelector": named, "podSelector": {"matchLabels": {"app": "shop"}}}]}]);
        assert_eq!(accepted(&both), ["ip saddr { 10.0.0.3 } accept"]);
        let all = json!([{"from": [{"namespaceSelector": {}}]}]);
        assert_eq!(
            accepted(&all),
            ["ip saddr { 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 } accept"]
        );
        let not = json!([{"from": [{"namespaceSelector": {},
            "podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["shop", "db"]}]}}]}]);
        assert_eq!(accepted(&not), ["ip saddr { 10.0.0.4 } accept"]);
    }

    #[test]
    fn a_block_of_addresses_may_have_holes() {
        let block = json!([{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 2381}]}]);
        assert_eq!(
            accepted(&block),
            ["ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16 } tcp dport { 2381 } accept"]
        );
    }
}
