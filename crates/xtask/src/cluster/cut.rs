//! Cutting a node off: packets are dropped in the node's own network. What is cut is an element of a set with a
//! lifetime, so the kernel joins the node again even if no process is left to do it.

use anyhow::Result;

use super::network::{Node, POD_RANGE};
use crate::tools::{run, run_with_input, succeeds};

/// Ours alone, in every node.
const TABLE: &str = "etcd_operator_cut";
/// The node's only way out.
const LINK: &str = "eth0";

/// Cuts a node off for so long.
pub(crate) fn cut(node: Node, milliseconds: u32, pods_only: bool) -> Result<()> {
    join(node)?;
    let rules = rules(milliseconds, pods_only);
    run_with_input(node.command("nft").args(["-f", "-"]), &rules)
}

/// Joins it again, whether it is cut off or not.
pub(crate) fn join(node: Node) -> Result<()> {
    if !succeeds(node.command("nft").args(["list", "table", "ip", TABLE])) {
        return Ok(());
    }
    run(node.command("nft").args(["delete", "table", "ip", TABLE]))
}

fn rules(milliseconds: u32, pods_only: bool) -> String {
    let between = format!("ip saddr {POD_RANGE} ip daddr {POD_RANGE} ");
    let what = if pods_only { between.as_str() } else { "" };
    let hook = |hook: &str, direction: &str| {
        format!(
            "chain {hook} {{ type filter hook {hook} priority -10; {direction} @cut {what}drop; }}"
        )
    };
    let both = format!(
        "chain forward {{ type filter hook forward priority -10; iifname @cut {what}drop; oifname @cut {what}drop; }}"
    );
    format!(
        "table ip {TABLE} {{
  set cut {{ type ifname; flags timeout; elements = {{ \"{LINK}\" timeout {milliseconds}ms }}; }}
  {}
  {}
  {both}
}}
",
        hook("input", "iifname"),
        hook("output", "oifname"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_are_cut_off_if_only_they_should_be() {
        let (all, pods) = (rules(1500, false), rules(1500, true));
        assert!(all.contains("timeout 1500ms") && all.contains("iifname @cut drop"));
        assert!(!pods.contains("@cut drop"));
        assert!(pods.contains("oifname @cut ip saddr 10.245.0.0/16 ip daddr 10.245.0.0/16 drop"));
    }
}
