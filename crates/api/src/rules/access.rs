//! Access from outside: every field goes with the kind of Service that has it.

use super::{CelRule, always};

const ACCESS: &[&str] = &["spec", "access"];

pub(super) const RULES: &[CelRule] = &[
    always(
        ACCESS,
        "!has(self.nodePort) || self.type == 'NodePort'",
        "needs type NodePort: write type: NodePort, or leave it out",
    )
    .at(".nodePort"),
    always(
        &["spec", "access", "nodePort"],
        "self >= 30000 && self <= 32767",
        "not a node port: write one from 30000 to 32767, or leave it out to have one allocated",
    ),
    always(
        ACCESS,
        "!has(self.annotations) || self.annotations.size() == 0 || self.type != 'ClusterIP'",
        "belong to the added Service, and ClusterIP adds none: write type: NodePort or LoadBalancer, or leave them out",
    )
    .at(".annotations"),
    always(
        &["spec", "access", "annotations"],
        "!self.exists(key, key.startsWith('etcd.etcd.io/'))",
        "annotations below etcd.etcd.io/ are reserved for the operator: write one of your own",
    ),
    always(
        ACCESS,
        "!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",
        "needs type LoadBalancer: write type: LoadBalancer, or leave it out",
    )
    .at(".loadBalancerClass"),
    always(
        ACCESS,
        "self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || (has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass))",
        "cannot change while the Service exists: write type: ClusterIP first, which deletes it, and then the new class",
    )
    .at(".loadBalancerClass"),
    always(
        ACCESS,
        "!has(self.loadBalancerSourceRanges) || self.loadBalancerSourceRanges.size() == 0 || self.type == 'LoadBalancer'",
        "need type LoadBalancer: write type: LoadBalancer, or leave them out",
    )
    .at(".loadBalancerSourceRanges"),
    always(
        &["spec", "access", "loadBalancerSourceRanges", "*"],
        "isCIDR(self)",
        "not a CIDR: write a range of addresses such as 10.0.0.0/8",
    ),
    always(
        ACCESS,
        "!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'",
        "needs type NodePort or LoadBalancer: write one of them, or leave it out",
    )
    .at(".externalTrafficPolicy"),
];
