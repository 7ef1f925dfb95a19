//! What went wrong, in a closed set of meanings. etcd tells its refusals apart by text, not by gRPC
//! code, so both are compared, and compared whole: `can only promote a learner member` is also
//! the beginning of a quite different refusal.

use std::io;
use std::time::Duration;

use tonic::Code;

use crate::connect::Target;
use crate::tls;

mod auth;

/// A call that did not succeed: which one, to which member, and why.
///
/// The text names the call and the pod; the cause is its source.
#[derive(Debug, thiserror::Error)]
#[error("{call} of {namespace}/{pod} failed")]
pub struct Error {
    /// The call, such as `member promote`.
    pub call: &'static str,
    /// Namespace of the pod that was asked.
    pub namespace: String,
    /// The pod that was asked.
    pub pod: String,
    /// Why it failed.
    #[source]
    pub cause: Cause,
}

impl Error {
    pub(crate) fn new(call: &'static str, target: &Target, cause: Cause) -> Self {
        let (namespace, pod) = (target.namespace.clone(), target.pod.clone());
        Self {
            call,
            namespace,
            pod,
            cause,
        }
    }

    /// Whether the call may have taken effect although it failed. After `true`, read again before
    /// doing anything; after `false`, it certainly changed nothing.
    pub fn outcome_is_unknown(&self) -> bool {
        self.cause.outcome_is_unknown()
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Promotion asked too early.
    #[error("the learner is not in sync with the leader yet")]
    LearnerNotReady,
    /// The cluster has as many learners as it may have.
    #[error("the cluster has too many learners already")]
    TooManyLearners,
    /// A voter is down, or has been connected for less than five seconds.
    #[error("not every voter has been connected for long enough")]
    UnhealthyCluster,
    /// The change would leave too few started members.
    #[error("too few members have started")]
    NotEnoughStarted,
    /// No member has that ID, or a removed one had it.
    #[error("no member has this ID")]
    MemberNotFound,
    /// A member has that peer URL already, and was added in an earlier second.
    #[error("a member has this peer URL already")]
    PeerUrlExists,
    /// A member has that ID already: the same peer URL was added in this very second.
    #[error("a member has this ID already")]
    MemberExists,
    /// Peer URLs that etcd would not look at, and that would end every member once they are in its log. Nothing was sent.
    #[error("these are no peer URLs: {urls:?}")]
    BadPeerUrls {
        /// What was asked for.
        urls: Vec<String>,
    },
    /// Promotion of a member that has a vote already.
    #[error("the member is not a learner")]
    NotLearner,
    /// The member asked is a learner, and learners do not answer this.
    #[error("the member is a learner and does not answer this call")]
    LearnerUnsupported,
    /// The call must go to the leader.
    #[error("the member is not the leader")]
    NotLeader,
    /// Leadership cannot go to that member.
    #[error("leadership cannot be moved to this member")]
    BadTransferee,
    /// The database is at its quota. The write that etcd found so while it applied it was carried out all the same.
    #[error("the database has used up its space")]
    NoSpace,
    /// The members' data differ.
    #[error("the cluster is corrupt")]
    Corrupt,
    /// The revision was compacted already, by the operator or another client.
    #[error("the revision was compacted already")]
    Compacted,
    /// The revision lies ahead of what the member has.
    #[error("the revision is not there yet")]
    FutureRevision,
    /// The cluster cannot be downgraded to that version: only to the minor before its own.
    #[error("the cluster cannot be downgraded to this version")]
    InvalidDowngradeTarget,
    /// A downgrade is enabled already, for this target or another.
    #[error("a downgrade is in progress already")]
    DowngradeInProgress,
    /// There is no downgrade to cancel. Only etcd 3.5 says so; later ones call it a success.
    #[error("no downgrade is in progress")]
    NoDowngrade,
    /// The caller is known, and may not do this.
    #[error("permission denied")]
    PermissionDenied,
    /// Authentication is on, and the call did not tell who makes it.
    #[error("etcd does not know who asks")]
    NoUser,
    /// The password is not that of the user, or the user has none.
    #[error("the password is not that of the user")]
    AuthFailed,
    /// Authentication is off.
    #[error("authentication is not enabled")]
    AuthNotEnabled,
    /// The token is not one that the member knows.
    #[error("the auth token is invalid")]
    InvalidAuthToken,
    /// Users or roles changed while the call was under way.
    #[error("the revision of users and roles is old")]
    OldAuthRevision,
    /// What would leave no one with the role `root` while authentication is on.
    #[error("user and role root are needed while authentication is enabled")]
    InvalidAuthManagement,
    /// Authentication cannot be enabled without it.
    #[error("there is no user root")]
    RootUserMissing,
    /// Authentication cannot be enabled without it.
    #[error("user root does not have role root")]
    RootRoleMissing,
    /// No user has that name; or, where the role `root` is needed, the caller itself is no user.
    #[error("there is no such user")]
    UserNotFound,
    /// A user has that name already.
    #[error("the user exists already")]
    UserExists,
    /// No role has that name.
    #[error("there is no such role")]
    RoleNotFound,
    /// A role has that name already.
    #[error("the role exists already")]
    RoleExists,
    /// The user does not have that role.
    #[error("the user does not have this role")]
    RoleNotGranted,
    /// The role does not have a permission for exactly these keys.
    #[error("the role does not have this permission")]
    PermissionNotGranted,
    /// No connection could be opened in time, so nothing was sent.
    #[error("no connection could be opened")]
    Connect {
        /// What the connector said; `TimedOut` if the deadline came first.
        #[source]
        source: io::Error,
    },
    /// TLS was not agreed on, most often because the member's certificate is not one that we accept. Nothing was sent.
    #[error("the TLS handshake failed")]
    Handshake {
        /// What was wrong.
        #[source]
        source: io::Error,
    },
    /// The member does not accept our certificate, and read no request.
    #[error("it does not accept our certificate ({alert})")]
    Refused {
        /// The alert of TLS that it sent.
        alert: String,
    },
    /// The request was sent and no answer came in time.
    #[error("no answer within {} ms", after.as_millis())]
    Deadline {
        /// The deadline that passed.
        after: Duration,
    },
    /// The member gave up, or the connection broke before it answered.
    #[error("unavailable: {message}")]
    Unavailable {
        /// What etcd or the transport said.
        message: String,
    },
    /// An answer came, but not one that can be understood.
    #[error("unexpected answer: {detail}")]
    BadAnswer {
        /// What was wrong with it.
        detail: String,
    },
    /// A refusal this crate has no word for.
    #[error("{code:?}: {message}")]
    Other {
        /// The gRPC code.
        code: Code,
        /// What etcd said.
        message: String,
    },
}

impl Cause {
    /// See [`Error::outcome_is_unknown`].
    pub fn outcome_is_unknown(&self) -> bool {
        match self {
            Self::Deadline { .. }
            | Self::Unavailable { .. }
            | Self::BadAnswer { .. }
            | Self::NoSpace => true,
            Self::Other { code, .. } => !is_refusal(*code),
            Self::LearnerNotReady
            | Self::TooManyLearners
            | Self::UnhealthyCluster
            | Self::NotEnoughStarted
            | Self::MemberNotFound
            | Self::PeerUrlExists
            | Self::MemberExists
            | Self::BadPeerUrls { .. }
            | Self::NotLearner
            | Self::LearnerUnsupported
            | Self::NotLeader
            | Self::BadTransferee
            | Self::Corrupt
            | Self::Compacted
            | Self::FutureRevision
            | Self::InvalidDowngradeTarget
            | Self::DowngradeInProgress
            | Self::NoDowngrade
            | Self::PermissionDenied
            | Self::NoUser
            | Self::AuthFailed
            | Self::AuthNotEnabled
            | Self::InvalidAuthToken
            | Self::OldAuthRevision
            | Self::InvalidAuthManagement
            | Self::RootUserMissing
            | Self::RootRoleMissing
            | Self::UserNotFound
            | Self::UserExists
            | Self::RoleNotFound
            | Self::RoleExists
            | Self::RoleNotGranted
            | Self::PermissionNotGranted
            | Self::Connect { .. }
            | Self::Handshake { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// What it means that no connection was opened.
    pub(crate) fn from_connect(source: io::Error) -> Self {
        match tls::alert(&source) {
            Some(alert) => Self::Refused { alert },
            None if tls::is_of_tls(&source) => Self::Handshake { source },
            None => Self::Connect { source },
        }
    }

    /// What a gRPC status means.
    pub(crate) fn from_status(status: &tonic::Status) -> Self {
        if let Some(source) = std::error::Error::source(status) {
            return from_transport(source);
        }
        let (code, message) = (status.code(), status.message());
        let known = message
            .strip_prefix("etcdserver: ")
            .and_then(|text| from_etcd(code, text));
        let known = known.or_else(|| auth::from_status(code, message));
        known.unwrap_or_else(|| from_code(code, message.to_owned()))
    }
}

/// A status that has a source was not sent by etcd: tonic made it when the connection failed.
fn from_transport(source: &dyn std::error::Error) -> Cause {
    let chain = std::iter::successors(Some(source), |error| error.source());
    let texts: Vec<_> = chain.map(ToString::to_string).collect();
    Cause::Unavailable {
        message: texts.join(": "),
    }
}

fn from_etcd(code: Code, text: &str) -> Option<Cause> {
    match (code, text) {
        (Code::FailedPrecondition, text) => from_failed_precondition(text),
        // etcd 3.5 says this with the code of things that pass by themselves.
        (Code::Unavailable, "rpc not supported for learner") => Some(Cause::LearnerUnsupported),
        (Code::Unavailable, "unhealthy cluster") => Some(Cause::UnhealthyCluster),
        (Code::NotFound, "member not found") => Some(Cause::MemberNotFound),
        (Code::ResourceExhausted, "mvcc: database space exceeded") => Some(Cause::NoSpace),
        (Code::InvalidArgument, "invalid downgrade target version") => {
            Some(Cause::InvalidDowngradeTarget)
        }
        (Code::DataLoss, "corrupt cluster") => Some(Cause::Corrupt),
        (Code::OutOfRange, "mvcc: required revision has been compacted") => Some(Cause::Compacted),
        (Code::OutOfRange, "mvcc: required revision is a future revision") => {
            Some(Cause::FutureRevision)
        }
        _ => None,
    }
}

fn from_code(code: Code, message: String) -> Cause {
    match code {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
            Cause::Unavailable { message }
        }
        code => Cause::Other { code, message },
    }
}

fn from_failed_precondition(text: &str) -> Option<Cause> {
    Some(match text {
        "can only promote a learner member which is in sync with leader" => Cause::LearnerNotReady,
        "can only promote a learner member" => Cause::NotLearner,
        "too many learner members in cluster" => Cause::TooManyLearners,
        "re-configuration failed due to not enough started members" => Cause::NotEnoughStarted,
        "Peer URLs already exists" => Cause::PeerUrlExists,
        "member ID already exist" => Cause::MemberExists,
        "rpc not supported for learner" => Cause::LearnerUnsupported,
        "not leader" => Cause::NotLeader,
        "bad leader transferee" => Cause::BadTransferee,
        "cluster has a downgrade job in progress" => Cause::DowngradeInProgress,
        "no inflight downgrade job" => Cause::NoDowngrade,
        _ => return None,
    })
}

/// Codes with which a server says that it looked at the request and did not carry it out.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated
    )
}

#[cfg(test)]
mod tests;
