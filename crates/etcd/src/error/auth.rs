//! What etcd says about users, roles and permissions. Most of it comes as a gRPC status of its own; what a member finds out
//! while it applies an entry comes, by release and by call, also in the words of its store (`auth: …`), under a code that
//! says nothing.

use tonic::Code;

use super::Cause;

/// What a status means, if it is about authentication.
pub(super) fn from_status(code: Code, message: &str) -> Option<Cause> {
    if let Some(text) = message.strip_prefix("etcdserver: ") {
        return from_server(code, text);
    }
    match code {
        Code::Unknown => from_store(message.strip_prefix("auth: ")?),
        _other => None,
    }
}

fn from_server(code: Code, text: &str) -> Option<Cause> {
    match code {
        Code::FailedPrecondition => from_precondition(text),
        Code::InvalidArgument => from_argument(text),
        Code::PermissionDenied if text == "permission denied" => Some(Cause::PermissionDenied),
        Code::Unauthenticated if text == "invalid auth token" => Some(Cause::InvalidAuthToken),
        _other => None,
    }
}

fn from_precondition(text: &str) -> Option<Cause> {
    Some(match text {
        "root user does not exist" => Cause::RootUserMissing,
        "root user does not have root role" => Cause::RootRoleMissing,
        "user name already exists" => Cause::UserExists,
        "user name not found" => Cause::UserNotFound,
        "role name already exists" => Cause::RoleExists,
        "role name not found" => Cause::RoleNotFound,
        "role is not granted to the user" => Cause::RoleNotGranted,
        "permission is not granted to the role" => Cause::PermissionNotGranted,
        "authentication is not enabled" => Cause::AuthNotEnabled,
        _ => return None,
    })
}

fn from_argument(text: &str) -> Option<Cause> {
    Some(match text {
        "user name is empty" => Cause::NoUser,
        "authentication failed, invalid user ID or password" => Cause::AuthFailed,
        "invalid auth management" => Cause::InvalidAuthManagement,
        "revision of auth store is old" => Cause::OldAuthRevision,
        _ => return None,
    })
}

fn from_store(text: &str) -> Option<Cause> {
    Some(match text {
        "root user does not exist" => Cause::RootUserMissing,
        "root user does not have root role" => Cause::RootRoleMissing,
        "user already exists" => Cause::UserExists,
        "user name is empty" => Cause::NoUser,
        "user not found" => Cause::UserNotFound,
        "role already exists" => Cause::RoleExists,
        "role not found" => Cause::RoleNotFound,
        "role is not granted to the user" => Cause::RoleNotGranted,
        "permission is not granted to the role" => Cause::PermissionNotGranted,
        "permission denied" => Cause::PermissionDenied,
        "authentication is not enabled" => Cause::AuthNotEnabled,
        "authentication failed, invalid user ID or password"
        | "authentication failed, password was given for no password user" => Cause::AuthFailed,
        "invalid auth token" => Cause::InvalidAuthToken,
        "invalid auth management" => Cause::InvalidAuthManagement,
        "revision in header is old" => Cause::OldAuthRevision,
        _ => return None,
    })
}
