//! Certificates, and the transport that they are for.

use std::fmt;

use api::{Reason, Transport};

use crate::decision::{Issue, Rotate};
use crate::observed::Doing;

/// Why, of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The pod of this member was created for another transport than this one.
    OtherTransport(String, Transport),
    /// These are issued.
    Issuing(Issue),
    /// cert-manager is asked for them by this Certificate.
    Requesting(String),
    /// This Certificate is deleted: another source is named.
    Withdrawing(String),
    /// This is done on the way to another authority.
    Rotating(Rotate),
    /// The kubelet of this pod is told to bring them.
    Refreshing(String),
    /// All that this member trusts has expired: it is restarted.
    Stranded(String),
    /// The same, and its pod is on its way back.
    StrandedReturns(String, Doing),
    /// The same, and what one of them was to try is called off for that.
    StrandedOnTrial,
    /// The spec names no source of them.
    Nowhere,
    /// What their source has cannot be used: which Secret, which key, and why.
    Unusable(String),
    /// These Secrets are of another owner.
    Foreign(Vec<String>),
}

impl Certificates {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::OtherTransport(..) => Reason::StartingPods,
            Self::Issuing(_)
            | Self::Requesting(_)
            | Self::Withdrawing(_)
            | Self::Rotating(_)
            | Self::Refreshing(_) => Reason::IssuingCertificates,
            Self::Stranded(_) | Self::StrandedReturns(..) | Self::StrandedOnTrial => {
                Reason::CertificateProblem
            }
            Self::Nowhere => Reason::InvalidSpec,
            Self::Unusable(_) => Reason::CertificateProblem,
            Self::Foreign(_) => Reason::ForeignObject,
        }
    }
}

impl fmt::Display for Certificates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherTransport(member, transport) => write!(
                out,
                "waiting for {member} to be recreated: it was created for another transport than {transport}"
            ),
            Self::Issuing(what) => write!(out, "issuing {}", what.describe()),
            Self::Requesting(name) => {
                write!(out, "asking cert-manager for certificates by the Certificate {name}")
            }
            Self::Withdrawing(name) => write!(
                out,
                "deleting the Certificate {name}: security.tls names another source than cert-manager"
            ),
            Self::Rotating(what) => out.write_str(what.describe()),
            Self::Refreshing(member) => write!(
                out,
                "the kubelet is told to bring the new certificates to {member}"
            ),
            Self::Stranded(member) => write!(
                out,
                "restarting {member}: all certificate authorities that it trusts have expired, so that members, clients and the operator cannot connect to it; the members are restarted one after the other with a new authority, and serve again once a quorum of them has been"
            ),
            Self::StrandedReturns(member, doing) => write!(
                out,
                "waiting for {member}, which was restarted because all certificate authorities that it trusted had expired: {doing}"
            ),
            Self::StrandedOnTrial => out.write_str(
                "all certificate authorities that the members trust have expired, and they are restarted on what they run: the change that one of them was to try begins again afterwards",
            ),
            Self::Nowhere => out.write_str(
                "security.tls names no source of certificates: leave caSecret out, and autoTLS out or true, to have the operator issue them; write certManager.issuerRef for those of cert-manager, or certificateSecret for your own; or write security.tls.enabled: false for a plaintext cluster",
            ),
            Self::Unusable(why) => {
                write!(out, "waiting for certificates that can be used: {why}")
            }
            Self::Foreign(secrets) => write!(
                out,
                "Secret {} has another owner and is left alone: delete or rename it, or give the EtcdCluster another name",
                secrets.join(", ")
            ),
        }
    }
}
