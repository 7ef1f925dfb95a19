//! The network: one bridge, and for every node a network namespace on it. Nothing is forwarded off the bridge, so no test
//! traffic leaves the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::tools::{output, run, run_with_input, succeeds};

pub(crate) const BRIDGE: &str = "eobr0";
/// The host's address on the bridge; the API server listens there and nowhere else.
pub(crate) const HOST: &str = "172.31.0.1";
pub(crate) const POD_RANGE: &str = "10.245.0.0/16";
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
pub(crate) const API_SERVICE: &str = "10.96.0.1";
pub(crate) const DNS_SERVICE: &str = "10.96.0.10";
pub(crate) const MAX_NODES: u8 = 9;

/// A node by its number, from 1; every name and address of it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u8);

impl Node {
    pub(crate) fn new(number: u8) -> Result<Self> {
        ensure!(
            (1..=MAX_NODES).contains(&number),
            "nodes are numbered 1 to {MAX_NODES}"
        );
        Ok(Self(number))
    }

    /// The first `count` nodes.
    pub(crate) fn first(count: u8) -> impl Iterator<Item = Self> {
        (1..=count).map(Self)
    }

    pub(crate) fn name(self) -> String {
        format!("n{}", self.0)
    }

    pub(crate) fn address(self) -> String {
        format!("172.31.0.{}", 10 + self.0)
    }

    pub(crate) fn pod_range(self) -> String {
        format!("10.245.{}.0/24", self.0)
    }

    /// Three zones, however many nodes.
    pub(crate) fn zone(self) -> String {
        format!("z{}", (self.0 - 1) % 3 + 1)
    }

    /// Names the network namespace and the root of the node's control groups.
    pub(crate) fn namespace(self) -> String {
        format!("eo{}", self.0)
    }

    fn link(self) -> String {
        format!("eov{}", self.0)
    }

    fn namespace_path(self) -> PathBuf {
        Path::new("/run/netns").join(self.namespace())
    }

    /// A command inside the node's network. Not by `ip netns exec`: that mounts a new `/sys` and hides the control groups.
    pub(crate) fn command(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace_path().display()));
        command.arg(program.as_ref());
        command
    }
}

/// Makes whatever is missing of the network.
pub(crate) fn ensure(nodes: u8) -> Result<()> {
    if !has_link(BRIDGE) {
        run(&mut ip(&["link", "add", BRIDGE, "type", "bridge"]))?;
    }
    run(&mut ip(&[
        "address",
        "replace",
        &format!("{HOST}/24"),
        "dev",
        BRIDGE,
    ]))?;
    run(&mut ip(&["link", "set", BRIDGE, "up"]))?;
    for node in Node::first(nodes) {
        ensure_node(node, nodes)?;
    }
    if !succeeds(&mut forward_rule("-C")) {
        run(&mut forward_rule("-I"))?;
    }
    Ok(())
}

/// Removes the network, each part only if it is there. The names are ours alone.
pub(crate) fn remove() -> Result<()> {
    for node in Node::first(MAX_NODES) {
        let (namespace, link) = (node.namespace(), node.link());
        remove_part(&["netns", "delete", &namespace], || {
            node.namespace_path().exists()
        })?;
        // The kernel takes it away with the namespace that its other end is in, at some time of its own.
        remove_part(&["link", "delete", &link], || has_link(&link))?;
    }
    // The host's routes to the pods go with the bridge they lead over.
    remove_part(&["link", "delete", BRIDGE], || has_link(BRIDGE))?;
    while succeeds(&mut forward_rule("-C")) {
        run(&mut forward_rule("-D"))?;
    }
    Ok(())
}

/// Removes a part that may be gone already, and may go while it is being removed.
fn remove_part(removal: &[&str], is_there: impl Fn() -> bool) -> Result<()> {
    if !is_there() {
        return Ok(());
    }
    let removed = run(&mut ip(removal));
    if is_there() { removed } else { Ok(()) }
}

/// Refuses a machine on which these addresses already mean something else.
pub(crate) fn refuse_conflict() -> Result<()> {
    let routes = output(&mut ip(&["-4", "route", "show"]))?;
    let foreign = routes.lines().find(|route| is_conflicting(route));
    ensure!(
        foreign.is_none(),
        "this machine already routes addresses that the cluster needs (172.31.0.0/24, {POD_RANGE}): {}",
        foreign.unwrap_or_default()
    );
    Ok(())
}

fn is_conflicting(route: &str) -> bool {
    let target = route.split_whitespace().next().unwrap_or_default();
    let ours = route.split_whitespace().any(|word| word == BRIDGE);
    !ours && (target.starts_with("172.31.0.") || target.starts_with("10.245."))
}

fn ensure_node(node: Node, nodes: u8) -> Result<()> {
    let (namespace, link) = (node.namespace(), node.link());
    if !node.namespace_path().exists() {
        run(&mut ip(&["netns", "add", &namespace]))?;
    }
    if !has_link(&link) {
        run(&mut ip(&[
            "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &namespace,
        ]))?;
    }
    run(&mut ip(&["link", "set", &link, "master", BRIDGE, "up"]))?;
    let mut inside = vec![
        "link set lo up".to_owned(),
        format!("address replace {}/24 dev eth0", node.address()),
        "link set eth0 up".to_owned(),
        format!("route replace default via {HOST}"),
    ];
    let others = Node::first(nodes).filter(|other| *other != node);
    inside.extend(others.map(|other| {
        format!(
            "route replace {} via {}",
            other.pod_range(),
            other.address()
        )
    }));
    run_with_input(
        &mut ip(&["-n", &namespace, "-batch", "-"]),
        &inside.join("\n"),
    )?;
    run(node
        .command("sysctl")
        .args(["-qw", "net.ipv4.ip_forward=1"]))?;
    run(&mut ip(&[
        "route",
        "replace",
        &node.pod_range(),
        "via",
        &node.address(),
    ]))
}

fn has_link(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

fn ip(arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(arguments);
    command
}

fn forward_rule(action: &str) -> Command {
    let mut command = Command::new("iptables");
    command.args([
        "-w", action, "FORWARD", "-i", BRIDGE, "!", "-o", BRIDGE, "-j", "DROP",
    ]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_follow_from_the_number() {
        let node = Node::new(2).unwrap();
        assert_eq!(node.name(), "n2");
        assert_eq!(node.address(), "172.31.0.12");
        assert_eq!(node.pod_range(), "10.245.2.0/24");
        assert_eq!(node.namespace(), "eo2");
        let zones: Vec<String> = Node::first(4).map(Node::zone).collect();
        assert_eq!(zones, ["z1", "z2", "z3", "z1"]);
        assert!(Node::new(0).is_err() && Node::new(MAX_NODES + 1).is_err());
    }

    #[test]
    fn what_goes_while_it_is_being_removed_is_removed() {
        let asked = std::cell::Cell::new(0);
        let goes = || asked.replace(asked.get() + 1) == 0;
        assert!(remove_part(&["link", "delete", "eo-no-such-link"], goes).is_ok());
        assert!(remove_part(&["link", "delete", "eo-no-such-link"], || true).is_err());
    }

    #[test]
    fn a_route_of_another_is_a_conflict_and_our_own_is_not() {
        assert!(is_conflicting("10.245.0.0/16 via 192.0.2.7 dev eth0"));
        assert!(!is_conflicting("10.245.1.0/24 via 172.31.0.11 dev eobr0"));
        assert!(!is_conflicting("10.244.1.0/24 via 172.30.0.11 dev lcbr0"));
    }
}
