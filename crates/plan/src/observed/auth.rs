//! Authentication: what etcd knows of users and roles, what is declared of them, and what may be changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::Plane;
use api::v1alpha1::role::{Access, Keys};
use api::v1alpha1::user::SecretVersion;

use super::{Issued, MemberList, Observed};
use crate::decision::Issuer;

/// The user, and the role, without which etcd does not switch authentication on.
pub const ROOT: &str = "root";
/// The user that the operator is, by its certificate.
pub const OPERATOR: &str = api::labels::OPERATOR;

/// What to do where etcd does not know the operator, though it has a certificate.
pub const NOT_A_USER: &str = "etcd asks its callers who they are, and the operator, whose certificate has the name etcd-operator, is not a user with the role root. As a user that has that role, run: etcdctl user add etcd-operator --no-password && etcdctl user grant-role etcd-operator root";
/// What to do where the operator has no certificate to be known by.
pub const NO_CERTIFICATE: &str = "Authentication was switched on in a cluster without TLS for clients, where the operator cannot be known. As user root, run: etcdctl --user root auth disable; to have it on, write security.tls and security.auth";

/// What is known of users and roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// What etcd has; `None` where it was not asked, or did not say.
    pub accounts: Option<Accounts>,
    /// Why etcd does not tell the operator.
    pub refused: Option<String>,
    /// What is declared; `None` while not all of it is known.
    pub declared: Option<Declared>,
}

/// What a role may do with which keys.
pub type Grants = BTreeMap<Keys, Access>;

/// Users and roles in etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Clients are asked who they are.
    pub enabled: bool,
    /// Rises with every change.
    pub revision: u64,
    /// The roles of each user.
    pub users: BTreeMap<String, BTreeSet<String>>,
    /// What each role may do.
    pub roles: BTreeMap<String, Grants>,
    /// The password of the user root, as far as the operator tried or set it.
    pub root: RootPassword,
}

/// The password of the user root. etcd does not tell it, nor whether there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RootPassword {
    /// It was not tried.
    #[default]
    Unknown,
    /// That of a Secret, as it was then.
    Of(SecretVersion),
    /// One that is not kept.
    Discarded,
    /// None: etcd took a password and did not set it.
    Absent,
}

/// Users and roles of which the operator is to delete those that are declared no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Users.
    pub users: BTreeSet<String>,
    /// Roles.
    pub roles: BTreeSet<String>,
    /// The user root has a password that the operator gave it.
    pub root_password: bool,
}

/// All `EtcdUser` and `EtcdRole` objects of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The users.
    pub users: Vec<UserWish>,
    /// The roles.
    pub roles: Vec<RoleWish>,
    /// The password of the user root; `None` where no Secret is named for it.
    pub root: Option<RootWish>,
}

/// The password that the user root is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootWish {
    /// Name of the Secret.
    pub secret: String,
    /// As it was last seen; `None` where there is none.
    pub seen: Option<SecretVersion>,
}

impl RootWish {
    /// Nothing while its Secret is not there.
    pub fn password(&self) -> Option<Password> {
        Some(Password {
            secret: self.secret.clone(),
            version: self.seen.clone()?,
        })
    }
}

/// An `EtcdUser`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserWish {
    /// Name of the object.
    pub object: String,
    /// Generation of its spec.
    pub generation: i64,
    /// Name of the user in etcd.
    pub user: String,
    /// The roles that it shall have.
    pub roles: BTreeSet<String>,
    /// How it is known.
    pub login: Login,
    /// The password that it has, as is recorded in the object's status.
    pub applied: Option<SecretVersion>,
    /// An older object that declares the same user.
    pub twin: Option<String>,
}

/// How a user is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "as large as what is recorded on a Secret, and it lives for one look"
)]
pub enum Login {
    /// By the password in a Secret.
    Password {
        /// Its name.
        secret: String,
        /// As it was last seen; `None` where there is none.
        seen: Option<SecretVersion>,
    },
    /// By a certificate.
    Certificate {
        /// What is in its Secret.
        issued: Issued,
        /// Identity of what is asked of it now.
        asked: String,
    },
}

/// An `EtcdRole`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleWish {
    /// Name of the object.
    pub object: String,
    /// Generation of its spec.
    pub generation: i64,
    /// Name of the role in etcd.
    pub role: String,
    /// What it shall be able to do.
    pub grants: Grants,
    /// An older object that declares the same role.
    pub twin: Option<String>,
}

impl Declared {
    /// The user is declared, however well.
    pub fn has_user(&self, user: &str) -> bool {
        self.users.iter().any(|wish| wish.user == user)
    }

    /// The role is declared, however well.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|wish| wish.role == role)
    }
}

impl Accounts {
    /// A user has a role.
    pub fn has(&self, user: &str, role: &str) -> bool {
        let roles = self.users.get(user);
        roles.is_some_and(|roles| roles.contains(role))
    }

    /// The same after a change that etcd carried out.
    pub fn follow(&mut self, change: &AuthChange) {
        match change {
            AuthChange::AddRole { role } => {
                self.roles.entry(role.clone()).or_default();
            }
            AuthChange::DeleteRole { role } => {
                self.roles.remove(role);
                for roles in self.users.values_mut() {
                    roles.remove(role);
                }
            }
            AuthChange::GrantPermission { role, keys, access } => {
                let grants = self.roles.entry(role.clone()).or_default();
                grants.insert(keys.clone(), *access);
            }
            AuthChange::RevokePermission { role, keys } => {
                let grants = self.roles.entry(role.clone()).or_default();
                grants.remove(keys);
            }
            AuthChange::AddUser { user, .. } => {
                self.users.insert(user.clone(), BTreeSet::new());
                self.keep_password(change);
            }
            AuthChange::DeleteUser { user } => {
                self.users.remove(user);
            }
            AuthChange::GrantRole { user, role } => {
                let roles = self.users.entry(user.clone()).or_default();
                roles.insert(role.clone());
            }
            AuthChange::RevokeRole { user, role } => {
                let roles = self.users.entry(user.clone()).or_default();
                roles.remove(role);
            }
            AuthChange::Enable => self.enabled = true,
            AuthChange::Disable => self.enabled = false,
            AuthChange::SetPassword { .. } | AuthChange::DiscardPassword { .. } => {
                self.keep_password(change);
            }
            AuthChange::Certify { .. } => return,
        }
        // Only this one is not counted.
        if *change != AuthChange::Enable {
            self.revision = self.revision.saturating_add(1);
        }
    }

    /// The same after etcd counted a change of the password of a root that has none, and can be given none.
    pub fn follow_in_vain(&mut self, change: &AuthChange) {
        self.follow(change);
        self.root = RootPassword::Absent;
    }

    /// Of the user root alone: what other users have is in the statuses of their objects.
    pub fn keep_password(&mut self, change: &AuthChange) {
        if change.user() == Some(ROOT) {
            self.root = match change.password() {
                Some(password) => RootPassword::Of(password.version.clone()),
                None if matches!(change, AuthChange::DiscardPassword { .. }) => {
                    RootPassword::Discarded
                }
                None => RootPassword::Unknown,
            };
        }
    }
}

/// A password that a user is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Password {
    /// The Secret that holds it.
    pub secret: String,
    /// As it was seen.
    pub version: SecretVersion,
}

/// One change of users, roles or authentication itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthChange {
    /// Add a role that may do nothing yet.
    AddRole {
        /// Its name.
        role: String,
    },
    /// Delete a role.
    DeleteRole {
        /// Its name.
        role: String,
    },
    /// Let a role do something.
    GrantPermission {
        /// The role.
        role: String,
        /// With which keys.
        keys: Keys,
        /// What.
        access: Access,
    },
    /// Let it do so no more.
    RevokePermission {
        /// The role.
        role: String,
        /// With which keys.
        keys: Keys,
    },
    /// Add a user; without a password it is known by its certificate.
    AddUser {
        /// Its name.
        user: String,
        /// Its password.
        password: Option<Password>,
        /// The user of this name is deleted first: etcd cannot turn a user with a password into one without, or back.
        replaces: bool,
    },
    /// Give a user another password.
    SetPassword {
        /// The user.
        user: String,
        /// The password.
        password: Password,
        /// It is known to have one.
        had_one: bool,
    },
    /// Give a user a password that is not kept.
    DiscardPassword {
        /// The user.
        user: String,
    },
    /// Issue the certificate of a user.
    Certify {
        /// Name of the `EtcdUser`.
        object: String,
        /// The user.
        user: String,
        /// By which authority of ours.
        by: Issuer,
    },
    /// Delete a user.
    DeleteUser {
        /// Its name.
        user: String,
    },
    /// Give a user a role.
    GrantRole {
        /// The user.
        user: String,
        /// The role.
        role: String,
    },
    /// Take a role from a user.
    RevokeRole {
        /// The user.
        user: String,
        /// The role.
        role: String,
    },
    /// Ask clients who they are.
    Enable,
    /// Ask them no more.
    Disable,
}

impl AuthChange {
    /// The user that it is about.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::AddUser { user, .. }
            | Self::SetPassword { user, .. }
            | Self::DiscardPassword { user }
            | Self::Certify { user, .. }
            | Self::DeleteUser { user }
            | Self::GrantRole { user, .. }
            | Self::RevokeRole { user, .. } => Some(user),
            _of_others => None,
        }
    }

    /// The role that is itself changed.
    pub fn role(&self) -> Option<&str> {
        match self {
            Self::AddRole { role }
            | Self::DeleteRole { role }
            | Self::GrantPermission { role, .. }
            | Self::RevokePermission { role, .. } => Some(role),
            _of_others => None,
        }
    }

    /// The password that a user has once this is done.
    pub fn password(&self) -> Option<&Password> {
        match self {
            Self::AddUser { password, .. } => password.as_ref(),
            Self::SetPassword { password, .. } => Some(password),
            _of_others => None,
        }
    }
}

impl fmt::Display for AuthChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddRole { role } => write!(f, "adding role {role} to etcd"),
            Self::DeleteRole { role } => write!(f, "deleting role {role} from etcd"),
            Self::GrantPermission { role, .. } | Self::RevokePermission { role, .. } => {
                write!(f, "changing the permissions of role {role}")
            }
            Self::AddUser {
                user,
                replaces: false,
                ..
            } => write!(f, "adding user {user} to etcd"),
            Self::AddUser { user, .. } => write!(f, "adding user {user} to etcd again"),
            Self::SetPassword { user, .. } => write!(f, "setting the password of user {user}"),
            Self::DiscardPassword { user } => {
                write!(
                    f,
                    "replacing the password of user {user} by one that is not kept"
                )
            }
            Self::Certify { user, .. } => write!(f, "issuing the certificate of user {user}"),
            Self::DeleteUser { user } => write!(f, "deleting user {user} from etcd"),
            Self::GrantRole { user, role } => write!(f, "granting role {role} to user {user}"),
            Self::RevokeRole { user, role } => write!(f, "revoking role {role} from user {user}"),
            Self::Enable => write!(f, "switching authentication on"),
            Self::Disable => write!(f, "switching authentication off"),
        }
    }
}

impl Observed {
    /// Authentication is to be on, or off; `None` where it is left as it is.
    pub(crate) fn auth_asked(&self) -> Option<bool> {
        self.cluster.intent.as_ref().ok()?.auth
    }

    /// Every member is listed, healthy and demands certificates, and stays so: nothing is tried, and nothing else is asked
    /// for.
    pub(crate) fn demands_certificates(&self) -> bool {
        let Some(list) = &self.etcd.members else {
            return false;
        };
        let size = self.cluster.intent.as_ref().map_or(0, |it| it.size);
        let all = usize::try_from(size).is_ok_and(|size| size == list.members.len());
        let well = list.voters().filter(|it| self.is_healthy(it)).count() == list.members.len();
        let locked = self.pods.values().all(|pod| {
            let plane = pod.transport.client;
            plane == Plane::Tls && !pod.terminating
        });
        let stays = self.transport().client == Plane::Tls && self.runs().client == Plane::Tls;
        let latched = &self.cluster.latched;
        let calm = latched.trial().is_none() && latched.transport_before.is_none();
        all && well && locked && stays && calm && self.leader().is_some()
    }

    /// Users whose certificates are of another authority than the newest, while they are issued by the operator.
    pub(crate) fn left_behind(&self) -> Vec<&UserWish> {
        let ours = self.certificates.authority.record();
        let declared = self.etcd.auth.declared.as_ref();
        let declared = declared.filter(|_| self.auth_asked() == Some(true));
        let (Some(ours), Some(declared)) = (ours, declared) else {
            return Vec::new();
        };
        let old = |wish: &&UserWish| match &wish.login {
            Login::Certificate { issued, .. } => issued
                .record()
                .is_some_and(|it| it.authorities != ours.authorities),
            Login::Password { .. } => false,
        };
        let users = declared.users.iter().filter(|wish| wish.twin.is_none());
        users.filter(old).collect()
    }

    /// Members can be asked about users and roles: they know the operator by its certificate.
    pub fn can_manage_users(&self) -> bool {
        let voters = self.etcd.members.iter().flat_map(MemberList::voters);
        let any = voters.into_iter().any(|voter| self.is_healthy(voter));
        any && self.runs().client != Plane::Plain
    }

    /// Users and roles that neither are the operator's nor are declared: they are left alone.
    pub(crate) fn unmanaged(&self) -> Made {
        let (Some(accounts), Some(declared)) = (&self.etcd.auth.accounts, &self.etcd.auth.declared)
        else {
            return Made::default();
        };
        let made = &self.cluster.latched.made;
        let users = accounts.users.keys().filter(|user| {
            let own = *user == ROOT || *user == OPERATOR;
            !own && !made.users.contains(*user) && !declared.has_user(user)
        });
        let roles = accounts.roles.keys().filter(|role| {
            *role != ROOT && !made.roles.contains(*role) && !declared.has_role(role)
        });
        Made {
            users: users.cloned().collect(),
            roles: roles.cloned().collect(),
            root_password: false,
        }
    }
}
