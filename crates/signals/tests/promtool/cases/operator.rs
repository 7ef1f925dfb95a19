//! Alerts about the operator.

use super::{CLUSTER, Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "EtcdOperatorDown",
        "critical",
        "{}",
        &[
            &[("etcd_operator_leading{pod=\"op-1\"}", "0x100"), ("etcd_operator_leading{pod=\"op-2\"}", "0x100")],
            &[("up", "0x100")],
        ],
        &[
            &[("etcd_operator_leading{pod=\"op-1\"}", "0x100"), ("etcd_operator_leading{pod=\"op-2\"}", "1x100")],
            // Handed over.
            &[("etcd_operator_leading{pod=\"op-1\"}", "1x20 stale"), ("etcd_operator_leading{pod=\"op-2\"}", "0x22 1x100")],
        ],
    ),
    case(
        "EtcdOperatorNotLooking",
        "warning",
        CLUSTER,
        &[&[(c!("etcd_cluster_looked_timestamp_seconds"), "0x100")]],
        &[
            &[(c!("etcd_cluster_looked_timestamp_seconds"), "0+60x100"), (c!("etcd_cluster_size"), "3x100")],
            // Handed over: the one before looked last.
            &[
                (c!("etcd_cluster_looked_timestamp_seconds"), "0+60x20 1200x100"),
                ("etcd_cluster_looked_timestamp_seconds{namespace=\"ns\",cluster=\"db\",pod=\"op-2\"}", "_x20 1200+60x100"),
            ],
        ],
    )
    .from(3),
    case(
        "EtcdOperatorStepsFailing",
        "warning",
        r#"{"step":"DeleteClaim"}"#,
        &[&[("etcd_operator_steps_total{pod=\"op-1\",step=\"DeleteClaim\",reason=\"RemovingMember\",outcome=\"failed\"}", "0+1x100")]],
        &[
            &[("etcd_operator_steps_total{pod=\"op-1\",step=\"DeleteClaim\",reason=\"RemovingMember\",outcome=\"failed\"}", "0x10 2x100")],
            &[("etcd_operator_steps_total{pod=\"op-1\",step=\"Nothing\",reason=\"AsExpected\",outcome=\"done\"}", "0+6x100")],
        ],
    )
    .from(3),
];
