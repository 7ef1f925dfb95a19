//! Access from outside: every field goes with the kind of Service that has it.

use super::{CelRule, always};

const ACCESS: &[&str] = &["spec", "access"];

pub(super) const RULES: &[CelRule] = &[
    always(
        ACCESS,
        "!has(self.nodePort) || self.type == 'NodePort'",
        "goes with type NodePort only: write type: NodePort, or leave it out",
    )
    .at(".nodePort"),
    always(
        &["spec", "access", "nodePort"],
        "self >= 30000 && self <= 32767",
        "not a port of nodes: write one from 30000 to 32767, or leave it out for one that is free",
    ),
    always(
        ACCESS,
        "!has(self.annotations) || self.annotations.size() == 0 || self.type != 'ClusterIP'",
        "go to the Service that is added, and ClusterIP adds none: write type: NodePort or LoadBalancer, or leave them out",
    )
    .at(".annotations"),
    always(
        &["spec", "access", "annotations"],
        "!self.exists(key, key.startsWith('etcd.etcd.io/'))",
        "annotations of etcd.etcd.io/ are the operator's: write one of your own",
    ),
    always(
        ACCESS,
        "!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",
        "goes with type LoadBalancer only: write type: LoadBalancer, or leave it out",
    )
    .at(".loadBalancerClass"),
    always(
        ACCESS,
        "self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || (has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass))",
        "cannot change while the Service is there: write type: ClusterIP first, which takes it away, and then the new class",
    )
    .at(".loadBalancerClass"),
    always(
        ACCESS,
        "!has(self.loadBalancerSourceRanges) || self.loadBalancerSourceRanges.size() == 0 || self.type == 'LoadBalancer'",
        "go with type LoadBalancer only: write type: LoadBalancer, or leave them out",
    )
    .at(".loadBalancerSourceRanges"),
    always(
        &["spec", "access", "loadBalancerSourceRanges", "*"],
        "isCIDR(self)",
        "not a range of addresses: write one such as 10.0.0.0/8",
    ),
    always(
        ACCESS,
        "!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'",
        "goes with type NodePort and LoadBalancer only: write one of them, or leave it out",
    )
    .at(".externalTrafficPolicy"),
];
