//! Who may connect: what a NetworkPolicy takes.

use super::{CelRule, always};

macro_rules! peers {
    ($list:literal) => {
        [
            always(
                &["spec", "security", "networkPolicy", $list, "*"],
                "has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
                "selects no peer: write a podSelector, a namespaceSelector, both, or an ipBlock; podSelector: {} selects every pod of the namespace",
            ),
            always(
                &["spec", "security", "networkPolicy", $list, "*"],
                "!has(self.ipBlock) || !has(self.podSelector) && !has(self.namespaceSelector)",
                "is a range of addresses, which has no selectors: write it as an item of its own",
            )
            .at(".ipBlock"),
            always(
                &["spec", "security", "networkPolicy", $list, "*", "ipBlock", "cidr"],
                "isCIDR(self)",
                "not a CIDR: write a range of addresses such as 10.0.0.0/8",
            ),
        ]
    };
}

pub(super) const CLIENTS: &[CelRule] = &peers!("clients");
pub(super) const METRICS: &[CelRule] = &peers!("metrics");
