//! The nodes and volumes of members that do not respond: whether they can come back. Asked for only then, and
//! straight from the API server: what is decided on it cannot be taken back, so no cache will do.

use std::time::{Duration, Instant};

use api::EtcdCluster;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSelector, PersistentVolume};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use plan::Observed;
use plan::observed::{NodeBinding, NodeState, Process};

use super::affinity;
use super::kubernetes::{Volume, node_of, volume_of};
use crate::context::Context;

/// For all questions about a member.
const DEADLINE: Duration = Duration::from_secs(4);
/// For each of them, so that what one has told is kept when the next is not answered.
const QUESTION: Duration = Duration::from_secs(2);
/// Nodes per page: a list of thousands is read only until one of them fits.
const PAGE: u32 = 500;
/// A node with this taint is shut down for good, says its administrator.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The label by which a volume names the node it is tied to.
const HOSTNAME: &str = "kubernetes.io/hostname";

pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    // Before there is a cluster, no member can be missing.
    if observed.cluster.latched.cluster_id.is_none() {
        return;
    }
    let quiet = |ordinal: &u32| {
        let pod = observed.pods.get(ordinal);
        pod.is_none_or(|pod| pod.process == Process::Unknown)
    };
    let quiet: Vec<u32> = observed.claims.keys().copied().filter(quiet).collect();
    let answers = quiet
        .into_iter()
        .map(|ordinal| async move { (ordinal, ask(cluster, ordinal, ctx).await) });
    for (ordinal, (lost, binding)) in join_all(answers).await {
        if let Some(claim) = observed.claims.get_mut(&ordinal) {
            claim.lost = lost;
        }
        if let Some(binding) = binding {
            observed.node_bindings.insert(ordinal, binding);
        }
    }
}

/// Why its volume is gone, and the node that its member depends on.
async fn ask(
    cluster: &EtcdCluster,
    ordinal: u32,
    ctx: &Context,
) -> (Option<String>, Option<NodeBinding>) {
    let end = Instant::now() + DEADLINE;
    let volume = match volume_of(cluster, ordinal, ctx) {
        Some(volume) => in_time(end, ask_volume(&volume, ctx)).await,
        None => None,
    };
    let volume = volume.unwrap_or(Asked::NotKnown);
    let (lost, volume) = match volume {
        Asked::Lost(why) => (Some(why), None),
        Asked::There(volume) => (None, Some(volume)),
        Asked::NotKnown => (None, None),
    };
    let tied = volume.as_ref().and_then(|volume| tied_to(volume));
    let binding = match (node_of(cluster, ordinal, ctx), tied) {
        (Some(node), _) => in_time(end, ask_node(node, ctx)).await,
        (None, Some(host)) => in_time(end, ask_host(host, ctx)).await,
        (None, None) => None,
    };
    let mut binding = binding.flatten();
    if let (Some(binding), Some(volume)) = (&mut binding, &volume)
        && matches!(binding.state, NodeState::OutOfService | NodeState::Deleted)
    {
        let elsewhere = in_time(end, ask_elsewhere(volume, &binding.node, ctx)).await;
        binding.elsewhere = elsewhere.flatten();
    }
    (lost, binding)
}

/// An answer, unless it does not come in time: then it is not known.
async fn in_time<T>(end: Instant, question: impl Future<Output = T>) -> Option<T> {
    let end = end.min(Instant::now() + QUESTION);
    tokio::time::timeout_at(end.into(), question).await.ok()
}

/// What became of a volume.
enum Asked {
    /// It is gone, and why.
    Lost(String),
    There(Box<PersistentVolume>),
    NotKnown,
}

async fn ask_volume(volume: &Volume, ctx: &Context) -> Asked {
    if volume.lost {
        return Asked::Lost("the claim has lost it".to_owned());
    }
    let Some(name) = &volume.name else {
        return Asked::NotKnown;
    };
    let volumes: Api<PersistentVolume> = Api::all(ctx.client.clone());
    match volumes.get_opt(name).await {
        Ok(Some(volume)) => Asked::There(Box::new(volume)),
        Ok(None) => Asked::Lost(format!("{name} does not exist any more")),
        Err(error) => {
            tracing::debug!(volume = name, %error, "the volume cannot be asked for");
            Asked::NotKnown
        }
    }
}

/// Whether another node than this one can use a volume; `None` where that is not known.
async fn ask_elsewhere(volume: &PersistentVolume, node: &str, ctx: &Context) -> Option<bool> {
    let Some(required) = affinity::required(volume) else {
        return Some(!affinity::is_local(volume));
    };
    match fits_another(required, node, ctx).await {
        Ok(fits) => {
            // A zone without a node now may have one in a minute. Only what is tied to a host is gone with it.
            let tied = affinity::is_local(volume) || tied_to(volume).is_some();
            (fits || tied).then_some(fits)
        }
        Err(error) => {
            tracing::debug!(%error, "the nodes cannot be asked for");
            None
        }
    }
}

/// Whether another node fits, of all that there are now.
async fn fits_another(required: &NodeSelector, node: &str, ctx: &Context) -> kube::Result<bool> {
    let nodes: Api<Node> = Api::all(ctx.client.clone());
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let found = nodes.list_metadata(&page).await?;
        let mut others = found.items.iter().filter(|other| other.name_any() != node);
        if others.any(|other| affinity::matches(required, &other.name_any(), other.labels())) {
            return Ok(true);
        }
        match found.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => page = page.continue_token(&more),
            None => return Ok(false),
        }
    }
}

/// The one host on which a volume can be used, as the label of its node has it. That need not be the node's name.
fn tied_to(volume: &PersistentVolume) -> Option<String> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required.as_ref()?.node_selector_terms;
    let mut names = terms.iter().flat_map(|term| {
        let by_label = term.match_expressions.iter().flatten();
        let by_label = by_label.filter(|rule| rule.key == HOSTNAME && rule.operator == "In");
        by_label.flat_map(|rule| rule.values.iter().flatten())
    });
    let first = names.next()?;
    names.next().is_none().then(|| first.clone())
}

async fn ask_node(node: String, ctx: &Context) -> Option<NodeBinding> {
    let nodes: Api<Node> = Api::all(ctx.client.clone());
    match nodes.get_opt(&node).await {
        Ok(found) => {
            let state = found.as_ref().map_or(NodeState::Deleted, state_of);
            let elsewhere = None;
            Some(NodeBinding {
                node,
                state,
                elsewhere,
                gone_since: None,
            })
        }
        Err(error) => {
            tracing::debug!(node, %error, "the node cannot be asked for");
            None
        }
    }
}

async fn ask_host(host: String, ctx: &Context) -> Option<NodeBinding> {
    let nodes: Api<Node> = Api::all(ctx.client.clone());
    let labelled = ListParams::default().labels(&format!("{HOSTNAME}={host}"));
    match nodes.list(&labelled).await {
        Ok(found) => binding_of(host, &found.items),
        Err(error) => {
            tracing::debug!(host, %error, "the nodes of this host name cannot be asked for");
            None
        }
    }
}

/// Where no node bears the name of the host any more, nothing can use the volume. Several say nothing.
fn binding_of(host: String, nodes: &[Node]) -> Option<NodeBinding> {
    match nodes {
        [] => Some(NodeBinding {
            node: host,
            state: NodeState::Deleted,
            elsewhere: None,
            gone_since: None,
        }),
        [node] => Some(NodeBinding {
            node: node.metadata.name.clone()?,
            state: state_of(node),
            elsewhere: None,
            gone_since: None,
        }),
        _several => None,
    }
}

fn state_of(node: &Node) -> NodeState {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    if taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE) {
        return NodeState::OutOfService;
    }
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.flatten().find(|c| c.type_ == "Ready");
    match ready {
        Some(ready) if ready.status == "True" => NodeState::Ready,
        Some(ready) => {
            let since = ready.last_transition_time.as_ref().map(|time| time.0);
            // Without a time it has only just begun.
            NodeState::NotReady(since.unwrap_or(Timestamp::MAX))
        }
        None => NodeState::NotReady(Timestamp::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(taints: &serde_json::Value, ready: &str) -> NodeState {
        let condition =
            json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let node = json!({"spec": {"taints": taints}, "status": {"conditions": [condition]}});
        state_of(&serde_json::from_value(node).unwrap())
    }

    #[test]
    fn a_node_is_what_its_taints_and_its_kubelet_say() {
        let shut = json!([{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]);
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(node(&json!([]), "True"), NodeState::Ready);
        assert_eq!(node(&json!([]), "Unknown"), NodeState::NotReady(since));
        assert_eq!(node(&json!([]), "False"), NodeState::NotReady(since));
        assert_eq!(node(&shut, "True"), NodeState::OutOfService);
        assert_eq!(
            state_of(&Node::default()),
            NodeState::NotReady(Timestamp::MAX)
        );
    }

    #[test]
    fn a_host_is_the_node_that_bears_its_name_whatever_that_is_called() {
        let node = |name: &str| -> Node {
            let ready = json!({"type": "Ready", "status": "True"});
            let node = json!({"metadata": {"name": name}, "status": {"conditions": [ready]}});
            serde_json::from_value(node).unwrap()
        };
        let binding = |nodes: &[Node]| binding_of("ip-10-0-0-1".to_owned(), nodes);
        let found = binding(&[node("i-0123")]).unwrap();
        assert_eq!(
            (found.node.as_str(), found.state),
            ("i-0123", NodeState::Ready)
        );
        assert_eq!(binding(&[]).unwrap().state, NodeState::Deleted);
        assert!(binding(&[node("a"), node("b")]).is_none());
    }

    #[test]
    fn a_volume_is_tied_to_a_node_only_if_it_names_one() {
        let volume = |values: &serde_json::Value| {
            let rule = json!({"key": HOSTNAME, "operator": "In", "values": values});
            let terms = json!([{"matchExpressions": [rule]}]);
            let volume =
                json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
            tied_to(&serde_json::from_value(volume).unwrap())
        };
        assert_eq!(volume(&json!(["n1"])).as_deref(), Some("n1"));
        assert_eq!(volume(&json!(["n1", "n2"])), None);
        assert_eq!(tied_to(&PersistentVolume::default()), None);
    }
}
