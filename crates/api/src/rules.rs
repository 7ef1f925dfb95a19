//! The CEL rules of the CRD, in tables: where, what, and the sentence a user gets. They are put into the generated
//! schema by [`crate::crd`] and tried against a real API server.

mod access;
pub(crate) mod accounts;
pub(crate) mod backup;
mod etcd;
mod image;
mod maintenance;
mod network;
mod pod;
mod recovery;
pub(crate) mod restore;
mod security;
mod spec;
pub(crate) mod storage;
mod upgrade;

/// One rule.
pub struct CelRule {
    /// Path of property names below the root of the schema; `*` is the value of a map or an item of a list.
    pub path: &'static [&'static str],
    /// The expression that must hold.
    pub rule: &'static str,
    /// What the user reads. The API server puts the path and the value in front of it.
    pub message: &'static str,
    /// Where the mistake is, below the path, when the rule must look further around.
    pub at: Option<&'static str>,
    /// An expression for the message, where it should name values that the API server does not.
    pub telling: Option<&'static str>,
    /// The rule also runs on create, with `oldSelf` as an optional.
    pub optional_old_self: bool,
}

/// A rule without anything special. One that names `oldSelf` runs on updates only.
const fn always(
    path: &'static [&'static str],
    rule: &'static str,
    message: &'static str,
) -> CelRule {
    CelRule {
        path,
        rule,
        message,
        at: None,
        telling: None,
        optional_old_self: false,
    }
}

impl CelRule {
    const fn at(self, place: &'static str) -> Self {
        Self {
            at: Some(place),
            ..self
        }
    }

    const fn telling(self, expression: &'static str) -> Self {
        Self {
            telling: Some(expression),
            ..self
        }
    }
}

const QUANTITY: &str = "type(self) == int ? self >= 0 : isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0";
const QUANTITY_MESSAGE: &str =
    "not a quantity: write a number with a unit, such as 10Gi, 512Mi or 100m";

const TABLES: &[&[CelRule]] = &[
    spec::RULES,
    image::RULES,
    upgrade::RULES,
    storage::RULES,
    etcd::RULES,
    pod::RULES,
    access::RULES,
    maintenance::RULES,
    recovery::RULES,
    restore::BOOTSTRAP,
    security::CLIENTS,
    security::PEERS,
    security::AUTH,
    security::RULES,
    network::CLIENTS,
    network::METRICS,
];

/// All rules of `EtcdCluster`.
pub fn all() -> impl Iterator<Item = &'static CelRule> {
    TABLES.iter().flat_map(|table| table.iter())
}
