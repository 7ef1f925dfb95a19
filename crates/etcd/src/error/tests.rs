//! Every refusal etcd words is told apart, by code and by the whole text.

use super::*;

fn cause(code: Code, message: &str) -> Cause {
    Cause::from_status(&tonic::Status::new(code, message))
}

/// Name of a variant, for comparing causes that hold things which cannot be compared.
fn name(cause: &Cause) -> String {
    let text = format!("{cause:?}");
    text.split([' ', '{']).next().unwrap().to_owned()
}

#[test]
fn every_known_refusal_has_its_own_meaning_and_a_known_outcome() {
    use Code::{DataLoss, FailedPrecondition, NotFound, Unavailable};
    let table = [
        (
            FailedPrecondition,
            "can only promote a learner member which is in sync with leader",
            "LearnerNotReady",
        ),
        (
            FailedPrecondition,
            "can only promote a learner member",
            "NotLearner",
        ),
        (
            FailedPrecondition,
            "too many learner members in cluster",
            "TooManyLearners",
        ),
        (Unavailable, "unhealthy cluster", "UnhealthyCluster"),
        (
            FailedPrecondition,
            "re-configuration failed due to not enough started members",
            "NotEnoughStarted",
        ),
        (NotFound, "member not found", "MemberNotFound"),
        (
            FailedPrecondition,
            "Peer URLs already exists",
            "PeerUrlExists",
        ),
        (
            FailedPrecondition,
            "member ID already exist",
            "MemberExists",
        ),
        (
            FailedPrecondition,
            "rpc not supported for learner",
            "LearnerUnsupported",
        ),
        (
            Unavailable,
            "rpc not supported for learner",
            "LearnerUnsupported",
        ),
        (FailedPrecondition, "not leader", "NotLeader"),
        (FailedPrecondition, "bad leader transferee", "BadTransferee"),
        (DataLoss, "corrupt cluster", "Corrupt"),
    ];
    for (code, text, expected) in table {
        is_known(code, text, expected);
    }
}

#[test]
fn every_refusal_of_a_revision_has_its_own_meaning_and_a_known_outcome() {
    for (text, expected) in [
        ("mvcc: required revision has been compacted", "Compacted"),
        (
            "mvcc: required revision is a future revision",
            "FutureRevision",
        ),
    ] {
        is_known(Code::OutOfRange, text, expected);
    }
}

#[test]
fn every_refusal_of_a_downgrade_has_its_own_meaning_and_a_known_outcome() {
    use Code::{FailedPrecondition, InvalidArgument};
    for (code, text, expected) in [
        (
            InvalidArgument,
            "invalid downgrade target version",
            "InvalidDowngradeTarget",
        ),
        (
            FailedPrecondition,
            "cluster has a downgrade job in progress",
            "DowngradeInProgress",
        ),
        (
            FailedPrecondition,
            "no inflight downgrade job",
            "NoDowngrade",
        ),
    ] {
        is_known(code, text, expected);
    }
}

/// Code, words of the server, words of the store where they differ, and the meaning.
const ABOUT_USERS: &str = "
    PermissionDenied: permission denied: : PermissionDenied
    Unauthenticated: invalid auth token: : InvalidAuthToken
    InvalidArgument: user name is empty: : NoUser
    InvalidArgument: authentication failed, invalid user ID or password: : AuthFailed
    InvalidArgument: invalid auth management: : InvalidAuthManagement
    InvalidArgument: revision of auth store is old: revision in header is old: OldAuthRevision
    FailedPrecondition: authentication is not enabled: : AuthNotEnabled
    FailedPrecondition: root user does not exist: : RootUserMissing
    FailedPrecondition: root user does not have root role: : RootRoleMissing
    FailedPrecondition: user name not found: user not found: UserNotFound
    FailedPrecondition: user name already exists: user already exists: UserExists
    FailedPrecondition: role name not found: role not found: RoleNotFound
    FailedPrecondition: role name already exists: role already exists: RoleExists
    FailedPrecondition: role is not granted to the user: : RoleNotGranted
    FailedPrecondition: permission is not granted to the role: : PermissionNotGranted";

#[test]
fn every_refusal_about_users_and_roles_has_its_own_meaning_and_a_known_outcome() {
    use Code::{FailedPrecondition, InvalidArgument, PermissionDenied, Unauthenticated};
    let codes = [
        FailedPrecondition,
        InvalidArgument,
        PermissionDenied,
        Unauthenticated,
    ];
    for line in ABOUT_USERS.lines().skip(1) {
        let words: Vec<&str> = line.split(':').map(str::trim).collect();
        let [code, text, store, expected] = words.try_into().unwrap();
        let code = codes.into_iter().find(|one| format!("{one:?}") == code);
        is_known(code.unwrap(), text, expected);
        let store = if store.is_empty() { text } else { store };
        let cause = cause(Code::Unknown, &format!("auth: {store}"));
        assert_eq!(name(&cause), expected, "{store}");
        assert!(!cause.outcome_is_unknown(), "{store}");
    }
    // In the words of the other, or under another code, it is not known to be the same.
    for (code, message) in [
        (Code::Unknown, "etcdserver: permission denied"),
        (Code::Unknown, "auth: user name not found"),
        (PermissionDenied, "auth: permission denied"),
        (FailedPrecondition, "etcdserver: user not found"),
    ] {
        assert_eq!(name(&cause(code, message)), "Other", "{message}");
    }
}

fn is_known(code: Code, text: &str, expected: &str) {
    let cause = cause(code, &format!("etcdserver: {text}"));
    assert_eq!(name(&cause), expected, "{text}");
    assert!(!cause.outcome_is_unknown(), "{text}");
}

#[test]
fn a_write_that_met_the_quota_may_have_been_carried_out() {
    let text = "etcdserver: mvcc: database space exceeded";
    let cause = cause(Code::ResourceExhausted, text);
    assert_eq!(name(&cause), "NoSpace");
    assert!(cause.outcome_is_unknown());
}

#[test]
fn a_text_that_only_resembles_a_refusal_is_not_taken_for_it() {
    for (code, message) in [
        // The right text under a code etcd does not send it with.
        (Code::Unknown, "etcdserver: member not found"),
        (
            Code::Unavailable,
            "etcdserver: too many learner members in cluster",
        ),
        // Without the prefix, and with something behind it.
        (Code::NotFound, "member not found"),
        (Code::FailedPrecondition, "etcdserver: not leader yet"),
    ] {
        let cause = cause(code, message);
        assert!(
            matches!(name(&cause).as_str(), "Other" | "Unavailable"),
            "{message}: {cause:?}"
        );
    }
}

#[test]
fn a_call_that_may_have_taken_effect_says_so() {
    for (code, message, unknown) in [
        (Code::Unavailable, "etcdserver: request timed out", true),
        (Code::Unavailable, "etcdserver: leader changed", true),
        (Code::Unavailable, "etcdserver: no leader", true),
        (
            Code::DeadlineExceeded,
            "etcdserver: context deadline exceeded",
            true,
        ),
        (Code::Cancelled, "etcdserver: request canceled", true),
        (Code::Unknown, "transport error", true),
        (Code::Internal, "stream closed", true),
        (
            Code::InvalidArgument,
            "etcdserver: given member URLs are invalid",
            false,
        ),
        (
            Code::ResourceExhausted,
            "etcdserver: too many requests",
            false,
        ),
        (
            Code::PermissionDenied,
            "etcdserver: permission denied",
            false,
        ),
        (Code::Unimplemented, "unknown service", false),
    ] {
        assert_eq!(
            cause(code, message).outcome_is_unknown(),
            unknown,
            "{message}"
        );
    }
    assert!(
        Cause::Deadline {
            after: Duration::from_secs(2)
        }
        .outcome_is_unknown()
    );
    let refused = io::ErrorKind::ConnectionRefused.into();
    assert!(!Cause::Connect { source: refused }.outcome_is_unknown());
}

#[test]
fn the_text_names_the_call_and_the_pod_and_leaves_the_rest_to_its_source() {
    let target = Target {
        namespace: "ns".into(),
        pod: "c-1".into(),
        address: "192.0.2.1".into(),
    };
    let error = Error::new("member promote", &target, Cause::LearnerNotReady);
    assert_eq!(error.to_string(), "member promote of ns/c-1 failed");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(
        source.to_string(),
        "the learner is not in sync with the leader yet"
    );
}
