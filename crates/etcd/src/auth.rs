//! The calls for users, roles and what they may do. Who asks is known by its certificate; there is no token here.
//!
//! Every one of them, reads included, is an entry in the log of the cluster. While authentication is on, all but
//! [`Member::authenticate`] need the role `root`.

use crate::error::Error;
use crate::member::{Member, Rpc};
use crate::proto::{self, auth};

const ENABLE: Rpc = ("auth enable", "/etcdserverpb.Auth/AuthEnable");
const DISABLE: Rpc = ("auth disable", "/etcdserverpb.Auth/AuthDisable");
const STATUS: Rpc = ("auth status", "/etcdserverpb.Auth/AuthStatus");
const AUTHENTICATE: Rpc = ("authenticate", "/etcdserverpb.Auth/Authenticate");
const USER_ADD: Rpc = ("user add", "/etcdserverpb.Auth/UserAdd");
const USER_DELETE: Rpc = ("user delete", "/etcdserverpb.Auth/UserDelete");
const USER_GET: Rpc = ("user get", "/etcdserverpb.Auth/UserGet");
const USER_LIST: Rpc = ("user list", "/etcdserverpb.Auth/UserList");
const USER_PASSWORD: Rpc = (
    "user change password",
    "/etcdserverpb.Auth/UserChangePassword",
);
const USER_GRANT: Rpc = ("user grant role", "/etcdserverpb.Auth/UserGrantRole");
const USER_REVOKE: Rpc = ("user revoke role", "/etcdserverpb.Auth/UserRevokeRole");
const ROLE_ADD: Rpc = ("role add", "/etcdserverpb.Auth/RoleAdd");
const ROLE_DELETE: Rpc = ("role delete", "/etcdserverpb.Auth/RoleDelete");
const ROLE_GET: Rpc = ("role get", "/etcdserverpb.Auth/RoleGet");
const ROLE_LIST: Rpc = ("role list", "/etcdserverpb.Auth/RoleList");
const ROLE_GRANT: Rpc = (
    "role grant permission",
    "/etcdserverpb.Auth/RoleGrantPermission",
);
const ROLE_REVOKE: Rpc = (
    "role revoke permission",
    "/etcdserverpb.Auth/RoleRevokePermission",
);

/// Whether callers are asked who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthStatus {
    /// They are.
    pub enabled: bool,
    /// Rises with each change of a user or role.
    pub revision: u64,
}

/// What may be done with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// They may be read and watched.
    Read,
    /// They may be written and deleted.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    fn to_proto(self) -> i32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::ReadWrite => 2,
        }
    }

    fn from_proto(number: i32) -> Option<Self> {
        [Self::Read, Self::Write, Self::ReadWrite]
            .into_iter()
            .find(|access| access.to_proto() == number)
    }
}

/// What a role may do with which keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// What may be done.
    pub access: Access,
    /// The key, or the first of them.
    pub key: Vec<u8>,
    /// The first key that is no longer meant; empty for one key alone, a zero byte for all from `key` on.
    pub range_end: Vec<u8>,
}

impl Permission {
    pub(crate) fn from_proto(permission: auth::Permission) -> Option<Self> {
        Some(Self {
            access: Access::from_proto(permission.access)?,
            key: permission.key,
            range_end: permission.range_end,
        })
    }
}

impl Member {
    /// From now on callers are asked who they are. Needs a user `root` that has the role `root`
    /// ([`Cause::RootUserMissing`](crate::Cause::RootUserMissing), [`Cause::RootRoleMissing`](crate::Cause::RootRoleMissing)).
    /// Already on is no error.
    pub async fn auth_enable(&self) -> Result<(), Error> {
        self.done(ENABLE, auth::Nothing {}).await
    }

    /// From now on they are not. Users and roles stay. Already off is no error.
    pub async fn auth_disable(&self) -> Result<(), Error> {
        self.done(DISABLE, auth::Nothing {}).await
    }

    /// Whether they are.
    pub async fn auth_status(&self) -> Result<AuthStatus, Error> {
        let answer: auth::StatusResponse = self.call(STATUS, auth::Nothing {}).await?;
        Ok(AuthStatus {
            enabled: answer.enabled,
            revision: answer.auth_revision,
        })
    }

    /// Whether this is the user's password: [`Cause::AuthFailed`](crate::Cause::AuthFailed) if not. The token that etcd
    /// makes is not kept. Takes etcd about a tenth of a second.
    pub async fn authenticate(&self, user: &str, password: &str) -> Result<(), Error> {
        self.done(AUTHENTICATE, with_password(user, password)).await
    }

    /// Adds a user; without a password it can only be known by a certificate of its name.
    pub async fn user_add(&self, user: &str, password: Option<&str>) -> Result<(), Error> {
        let options = auth::UserAddOptions {
            no_password: password.is_none(),
        };
        let request = auth::UserAddRequest {
            name: user.to_owned(),
            password: password.unwrap_or_default().to_owned(),
            options: Some(options),
        };
        self.done(USER_ADD, request).await
    }

    /// Deletes a user.
    pub async fn user_delete(&self, user: &str) -> Result<(), Error> {
        self.done(USER_DELETE, named(user)).await
    }

    /// The roles of a user, in order.
    pub async fn user_get(&self, user: &str) -> Result<Vec<String>, Error> {
        self.names(USER_GET, named(user)).await
    }

    /// All users, in order.
    pub async fn user_list(&self) -> Result<Vec<String>, Error> {
        self.names(USER_LIST, auth::Nothing {}).await
    }

    /// Gives a user another password. Voids its tokens, even where the password is the one that it has.
    pub async fn user_change_password(&self, user: &str, password: &str) -> Result<(), Error> {
        self.done(USER_PASSWORD, with_password(user, password))
            .await
    }

    /// Gives a user a role. One that it has is no error.
    pub async fn user_grant_role(&self, user: &str, role: &str) -> Result<(), Error> {
        self.done(USER_GRANT, user_role(user, role)).await
    }

    /// Takes a role from a user: [`Cause::RoleNotGranted`](crate::Cause::RoleNotGranted) where it has none such.
    pub async fn user_revoke_role(&self, user: &str, role: &str) -> Result<(), Error> {
        self.done(USER_REVOKE, user_role(user, role)).await
    }

    /// Adds a role that may do nothing yet.
    pub async fn role_add(&self, role: &str) -> Result<(), Error> {
        self.done(ROLE_ADD, named(role)).await
    }

    /// Deletes a role, and takes it from every user.
    pub async fn role_delete(&self, role: &str) -> Result<(), Error> {
        self.done(ROLE_DELETE, named(role)).await
    }

    /// What a role may do, in order. A kind of permission that this crate does not know is no answer.
    pub async fn role_get(&self, role: &str) -> Result<Vec<Permission>, Error> {
        let answer: auth::RoleGetResponse = self.call(ROLE_GET, named(role)).await?;
        let known = answer.permissions.into_iter().map(Permission::from_proto);
        let known: Option<Vec<Permission>> = known.collect();
        let mut known =
            known.ok_or_else(|| self.bad_answer(ROLE_GET, "it names an unknown permission"))?;
        known.sort_unstable();
        Ok(known)
    }

    /// All roles, in order.
    pub async fn role_list(&self) -> Result<Vec<String>, Error> {
        self.names(ROLE_LIST, auth::Nothing {}).await
    }

    /// Lets a role do something. Where it has another permission for exactly these keys, that one is replaced.
    pub async fn role_grant_permission(
        &self,
        role: &str,
        permission: &Permission,
    ) -> Result<(), Error> {
        let request = auth::RoleGrantRequest {
            role: role.to_owned(),
            permission: Some(auth::Permission {
                access: permission.access.to_proto(),
                key: permission.key.clone(),
                range_end: permission.range_end.clone(),
            }),
        };
        self.done(ROLE_GRANT, request).await
    }

    /// Takes the permission for exactly these keys from a role:
    /// [`Cause::PermissionNotGranted`](crate::Cause::PermissionNotGranted) where it has none such.
    pub async fn role_revoke_permission(
        &self,
        role: &str,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Error> {
        let request = auth::RoleRevokeRequest {
            role: role.to_owned(),
            key: key.to_vec(),
            range_end: range_end.to_vec(),
        };
        self.done(ROLE_REVOKE, request).await
    }

    async fn done(&self, rpc: Rpc, request: impl prost::Message + 'static) -> Result<(), Error> {
        self.call(rpc, request).await.map(|proto::Done {}| ())
    }

    async fn names(
        &self,
        rpc: Rpc,
        request: impl prost::Message + 'static,
    ) -> Result<Vec<String>, Error> {
        let answer: auth::NamesResponse = self.call(rpc, request).await?;
        let mut names = answer.names;
        names.sort_unstable();
        Ok(names)
    }
}

fn named(name: &str) -> auth::NameRequest {
    auth::NameRequest {
        name: name.to_owned(),
    }
}

fn user_role(user: &str, role: &str) -> auth::UserRoleRequest {
    auth::UserRoleRequest {
        user: user.to_owned(),
        role: role.to_owned(),
    }
}

fn with_password(user: &str, password: &str) -> auth::PasswordRequest {
    auth::PasswordRequest {
        name: user.to_owned(),
        password: password.to_owned(),
    }
}
