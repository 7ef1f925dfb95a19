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
    /// What members are told to trust; absent where that is what issued their first certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Of the authorities: how they came to be the newest; absent for the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
}

/// Authorities that members are told to trust. A process reads them once, when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trust {
    /// Identities of the authorities.
    pub authorities: Vec<String>,
    /// A pod that bears this number, or a higher one, was started with all of them. It never decreases.
    pub generation: u64,
    /// Since when no certificate is shown but those of the authorities that are to stay; absent while others are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_at: Option<Time>,
    /// Members that trust nothing that is shown: all that they trust had expired. Absent where there never were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranded: Option<Stranded>,
}

/// Members that trust nothing that is shown any more, by their pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranded {
    /// They bear a lower generation,
    pub below: u64,
    /// and were created no later than this.
    pub until: Time,
}

/// How authorities followed others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rotation {
    /// Members that run may not trust them yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// Identity of the authorities before, while their keys are still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// When those expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<Time>,
    /// The value of the annotation that was carried out last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Identity of authorities whose certificates are to count no longer, as soon as that is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<String>,
}

/// Whether a value of the annotation asks for that as well.
pub fn asks_to_revoke(asked: &str) -> bool {
    asked.starts_with("revoke")
}

/// Identity of the operator's own authority where only clients are verified by it.
pub fn for_clients(authorities: &str) -> String {
    format!("{authorities}/clients")
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
    /// Identities of the authorities that members trust which were told by this.
    pub fn trusted(&self) -> Vec<String> {
        match (&self.trust, &self.copied) {
            (Some(trust), _) => trust.authorities.clone(),
            (None, None) => vec![self.authorities.clone()],
            (None, Some(copied)) => vec![for_clients(&self.authorities), copied.trust.clone()],
        }
    }

    /// The number that a pod bears which was started with all of them.
    pub fn generation(&self) -> u64 {
        self.trust.as_ref().map_or(0, |trust| trust.generation)
    }

    /// Members that trust nothing that is shown.
    pub fn stranded(&self) -> Option<&Stranded> {
        self.trust.as_ref()?.stranded.as_ref()
    }

    /// As it is written on a Secret.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As it is read from a Secret; `None` for what no version of this operator wrote.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
