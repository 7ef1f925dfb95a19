//! The messages of etcd's authentication, and those of `auth.proto` in them. Answers of which only the arrival matters are
//! [`Done`](super::Done). What holds a password has no `Debug`.

use prost::Message;

/// `AuthEnable`, `AuthDisable`, `AuthStatus`, `UserList` and `RoleList` ask without a word.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(bool, tag = "2")]
    pub(crate) enabled: bool,
    #[prost(uint64, tag = "3")]
    pub(crate) auth_revision: u64,
}

/// `Authenticate` and `UserChangePassword`.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct PasswordRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct UserAddRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) options: Option<UserAddOptions>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UserAddOptions {
    #[prost(bool, tag = "1")]
    pub(crate) no_password: bool,
}

/// `UserGet`, `UserDelete`, `RoleAdd`, `RoleGet` and `RoleDelete` take one name.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NameRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `UserGrantRole` and `UserRevokeRole`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct UserRoleRequest {
    #[prost(string, tag = "1")]
    pub(crate) user: String,
    #[prost(string, tag = "2")]
    pub(crate) role: String,
}

/// The roles of a user, all users, or all roles.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamesResponse {
    #[prost(string, repeated, tag = "2")]
    pub(crate) names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Permission {
    /// 0 reads, 1 writes, 2 does both.
    #[prost(int32, tag = "1")]
    pub(crate) access: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RoleGrantRequest {
    #[prost(string, tag = "1")]
    pub(crate) role: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) permission: Option<Permission>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RoleRevokeRequest {
    #[prost(string, tag = "1")]
    pub(crate) role: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RoleGetResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) permissions: Vec<Permission>,
}
