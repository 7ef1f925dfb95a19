//! What the operator notes on the Secrets of certificates that it writes. A look at a cluster rests on these few words: no
//! certificate is read again, and no key is kept in memory, while nothing changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// What is in a Secret of certificates. The value of the annotation `etcd.etcd.io/certificates`, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Fingerprints of the authorities that issued them, or, of the authorities, their own.
    pub authorities: String,
    /// Identity of what was asked of them: names and lifetimes.
    pub asked: String,
    /// When they were issued.
    pub issued_at: Time,
    /// When they are to be issued again.
    pub renew_at: Time,
    /// When the first of them expires.
    pub not_after: Time,
    /// SHA-256 of the data, so that a Secret that was edited is noticed.
    pub data: String,
    /// What was copied from another source; absent where the operator issued all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<Copied>,
}

/// Which certificates of another source were copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Identity of the certificates.
    pub leaves: String,
    /// Identity of the authorities that members trust for them, beside the operator's own.
    pub trust: String,
}

impl Record {
    /// As it is written on a Secret.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As it is read from a Secret; `None` for what no version of this operator wrote.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
