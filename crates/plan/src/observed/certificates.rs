//! Which planes speak TLS, and what is known of the certificates. Only what the Secrets say of themselves: no certificate is
//! read here, and no key is ever seen.

use std::fmt;
use std::str::FromStr;

use api::Transport;
use api::certificates::{Copied, Record};
use jiff::Timestamp;

use super::Observed;

/// What the Secrets of certificates say of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// `c-ca`: the authorities.
    pub authority: Issued,
    /// `c-tls`: the certificates of the members.
    pub members: Issued,
    /// `c-client-tls`: what a client needs.
    pub clients: Issued,
    /// Identity of what is asked of the certificates of the members now.
    pub asked_of_members: String,
    /// The same of the certificate for clients.
    pub asked_of_clients: String,
    /// What another source has for the members.
    pub offered: Offered,
    /// What cert-manager was asked for, where that is the source.
    pub request: Request,
}

/// The Certificate by which cert-manager is asked for what members show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// It is missing, asks for something else, or is there though another source is named.
    pub due: bool,
    /// Why nothing comes of it, in cert-manager's own words, while what came of it before can be used.
    pub trouble: Option<String>,
}

/// What another source than the operator has for the members, as it was last read and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Offered {
    /// The operator issues them itself.
    #[default]
    Own,
    /// It has nothing that can be used: which Secret, which key, and why.
    Unusable(String),
    /// It was checked, and can be used.
    Usable(Copied),
}

impl Certificates {
    /// The certificates of members can be had.
    pub(crate) fn can_be_had(&self) -> bool {
        !matches!(self.offered, Offered::Unusable(_))
    }

    /// Members were given certificates of another source, or for other authorities, than there are now.
    pub(crate) fn are_of_another_source(&self) -> bool {
        let records = [&self.members, &self.clients].map(Issued::record);
        let Some(known) = records.into_iter().flatten().next() else {
            return false;
        };
        let trust = known.copied.as_ref().map(|it| &it.trust);
        match &self.offered {
            Offered::Own => trust.is_some(),
            Offered::Unusable(_) => false,
            Offered::Usable(offered) => trust != Some(&offered.trust),
        }
    }

    /// All of them are there, and of one authority.
    fn are_complete(&self) -> bool {
        let of = |issued: &Issued| issued.record().map(|it| it.authorities.clone());
        let authority = of(&self.authority);
        authority.is_some() && authority == of(&self.members) && authority == of(&self.clients)
    }
}

/// What is in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are three of a cluster, and they live for one look"
)]
pub enum Issued {
    /// It was not looked at.
    #[default]
    Unknown,
    /// There is no such Secret.
    Missing,
    /// A Secret of this name has another owner.
    Foreign,
    /// It is ours, and not as we wrote it.
    Altered,
    /// It is as we wrote it.
    Recorded(Record),
}

impl Issued {
    /// What was recorded.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Recorded(record) => Some(record),
            Self::Unknown | Self::Missing | Self::Foreign | Self::Altered => None,
        }
    }
}

/// The certificates that the kubelet was told to bring into a pod: any change of an annotation has it look at the volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refreshed {
    /// Identity of the certificates.
    pub data: String,
    /// When the pod was told, in seconds since 1970.
    pub at: i64,
}

impl fmt::Display for Refreshed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.data, self.at)
    }
}

impl FromStr for Refreshed {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (data, at) = text.rsplit_once('@').unwrap_or((text, ""));
        Ok(Self {
            data: data.to_owned(),
            at: at.parse()?,
        })
    }
}

/// A kubelet hears of another Secret within moments; by then, in seconds, it surely has.
const HEARD: i64 = 5;

impl Observed {
    /// Which planes are to speak TLS next: those of the members, or the next rung on the way to what is asked for.
    pub fn transport(&self) -> Transport {
        match &self.cluster.target {
            Some(target) => target.intent.tls.transport,
            None => self.cluster.latched.transport.unwrap_or_default(),
        }
    }

    /// Which planes of the members are known to speak TLS; before there are any, what is asked for.
    pub fn runs(&self) -> Transport {
        match &self.cluster.target {
            Some(target) => target.runs,
            None => self.cluster.latched.transport.unwrap_or_default(),
        }
    }

    /// A member has certificates, or is about to get some.
    pub fn has_tls(&self) -> bool {
        let mut pods = self.pods.values();
        !self.transport().is_plain()
            || !self.runs().is_plain()
            || pods.any(|pod| !pod.transport.is_plain())
    }

    /// TLS is to be switched on, and no member has it.
    fn is_first_switch(&self) -> bool {
        self.runs().is_plain() && !self.transport().is_plain()
    }

    /// What the pod of an ordinal is to be told, so that its kubelet brings the certificates that were issued since it was
    /// made: once at once, and once more when the kubelet has surely heard of them.
    pub(crate) fn refresh_due(&self, ordinal: u32) -> Option<Refreshed> {
        let record = self.certificates.members.record()?;
        let pod = self.pods.get(&ordinal).filter(|pod| !pod.terminating)?;
        let issued = record.issued_at.0;
        if pod.transport.is_plain() || pod.created > issued {
            return None;
        }
        let due = Refreshed {
            data: record.data.chars().take(16).collect(),
            at: self.now.as_second(),
        };
        let told = pod.refreshed.as_ref().filter(|told| told.data == due.data);
        let heard = |at: i64| at.saturating_sub(issued.as_second()) >= HEARD;
        told.is_none_or(|told| !heard(told.at) && heard(due.at))
            .then_some(due)
    }

    /// No member has read what it trusts: the cluster is stopped, none was ever granted its start, or all of them are
    /// plaintext. Whatever authority comes next, none is contradicted.
    pub(crate) fn trusts_nothing(&self) -> bool {
        let latched = &self.cluster.latched;
        let begun = latched.cluster_id.is_some() || latched.bootstrap.is_some();
        // A pod that is just being recreated may have mounted what was there before.
        let stopped = self.objects.replicas.is_none_or(|replicas| replicas == 0);
        !begun || (stopped && self.pods.is_empty()) || self.is_plaintext()
    }

    /// No pod has certificates, and none is on its way to some.
    fn is_plaintext(&self) -> bool {
        let latched = &self.cluster.latched;
        let settled = latched.trial().is_none() && latched.transport_before.is_none();
        let all = usize::try_from(self.objects.replicas.unwrap_or(0)).ok() == Some(self.pods.len());
        let plain = self.pods.values().all(|pod| pod.transport.is_plain());
        settled && all && plain && self.runs().is_plain()
    }

    /// A pod that is recreated now could not start: what it mounts is not there.
    pub(crate) fn lacks_certificates(&self) -> bool {
        let issued = &self.certificates;
        let missing = self.has_tls() && issued.members == Issued::Missing;
        let good = issued.are_complete() && issued.can_be_had() && !issued.are_of_another_source();
        missing || (self.is_first_switch() && !good)
    }
}

/// When a certificate is to be issued again.
pub(crate) fn is_due(record: &Record, now: Timestamp) -> bool {
    record.renew_at.0 <= now
}
