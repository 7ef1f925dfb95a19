//! Certificates, and the transport that they are for.

use std::fmt;

use api::{Reason, Transport};

use crate::decision::{Issue, Rotate};

/// Why, of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The pod of this member was created for another transport than this one.
    OtherTransport(String, Transport),
    /// These are issued.
    Issuing(Issue),
    /// This is done on the way to another authority.
    Rotating(Rotate),
    /// The kubelet of this pod is told to bring them.
    Refreshing(String),
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
            Self::Issuing(_) | Self::Rotating(_) | Self::Refreshing(_) => {
                Reason::IssuingCertificates
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
            Self::Rotating(what) => out.write_str(what.describe()),
            Self::Refreshing(member) => write!(
                out,
                "the kubelet is told to bring the new certificates to {member}"
            ),
            Self::Nowhere => out.write_str(
                "security.tls names no source of certificates: leave caSecret out, and autoTLS out or true, to have the operator issue them; write certificateSecret for your own; or write security.tls.enabled: false for a plaintext cluster",
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
