//! Users, roles and authentication. They are data of the cluster, so that they outlive every member, and a recovery.

use std::collections::{BTreeMap, BTreeSet};

use api::v1alpha1::role::{Access, Keys};
use api::v1alpha1::user::SecretVersion;
use plan::decision::Issuer;
use plan::observed::{
    Accounts, Auth, AuthChange, Declared, Issued, Login, OPERATOR, ROOT, RoleWish, RootWish,
    UserWish,
};
use plan::status::Outcome;
use plan::{Decision, Step};

use crate::world::observe::Look;
use crate::world::{Pod, World};

/// What people do about users and roles.
#[derive(Clone, Debug, Default)]
pub struct People {
    /// Users and roles that they declare.
    pub declared: Declared,
    /// The password that each user has.
    pub passwords: BTreeMap<String, String>,
    /// Users that a person made.
    pub foreign: BTreeSet<String>,
    /// A person switched authentication on, whatever comes of it.
    pub by_hand: bool,
}

impl World {
    /// `spec.security.auth.enabled` is written.
    pub fn ask_auth(&mut self, on: Option<bool>) {
        self.object.auth = on;
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// A person switches authentication on, and does not think of the operator.
    pub fn enable_auth_by_hand(&mut self) {
        for cluster in self.clusters.values_mut() {
            let accounts = &mut cluster.accounts;
            let role = ROOT.to_owned();
            accounts.follow(&AuthChange::AddRole { role: role.clone() });
            let user = ROOT.to_owned();
            accounts.follow(&AuthChange::GrantRole { user, role });
            accounts.enabled = true;
        }
        self.people.by_hand = true;
    }

    /// Every cluster that is not given up asks its clients who they are.
    pub fn has_auth(&self) -> bool {
        let mut clusters = self.clusters.values().filter(|it| !it.given_up);
        clusters.any(|cluster| cluster.accounts.enabled)
    }

    /// Whether a step needs the role root, and the operator does not have it.
    pub(super) fn forbids(&self, cluster: u64, step: &Step) -> Option<String> {
        let accounts = &self.clusters.get(&cluster)?.accounts;
        let needs_root = match step {
            Step::AddLearner { .. }
            | Step::UpdatePeer { .. }
            | Step::Promote { .. }
            | Step::MoveLeader { .. }
            | Step::RetireMember { .. }
            | Step::RemoveMember { .. }
            | Step::Downgrade { .. }
            | Step::Compact { .. }
            | Step::Defragment { .. }
            | Step::Disarm { .. }
            | Step::ChangeAuth(_) => true,
            _other => false,
        };
        let unknown = needs_root && is_unknown_to(accounts);
        unknown.then(|| "permission denied".to_owned())
    }

    /// A member that asks who calls, and gets no certificate.
    pub(super) fn turns_away(&self, cluster: u64, pod: &Pod) -> bool {
        let known = self.clusters.get(&cluster);
        let on = known.is_some_and(|cluster| cluster.accounts.enabled);
        on && pod.template.transport.client.is_plain()
    }

    pub(super) fn observe_auth(&self, cluster: u64) -> Auth {
        let Some(known) = self.clusters.get(&cluster) else {
            return Auth::default();
        };
        let asked = self.object.auth.is_some();
        let refused = (asked && is_unknown_to(&known.accounts)).then(|| "denied".to_owned());
        Auth {
            accounts: Some(known.accounts.clone()).filter(|_| refused.is_none()),
            refused,
            declared: Some(self.people.declared.clone()),
        }
    }

    /// etcd's own conditions, and what the operator's executor looks at once more.
    pub(super) fn change_auth(&mut self, cluster: u64, change: &AuthChange) -> Result<(), String> {
        let known = self.clusters.get_mut(&cluster).ok_or("no such cluster")?;
        let accounts = &mut known.accounts;
        match change {
            AuthChange::GrantRole { user, role }
                if !accounts.users.contains_key(user) || !accounts.roles.contains_key(role) =>
            {
                return Err("no such user or role".to_owned());
            }
            AuthChange::Enable if !accounts.has(ROOT, ROOT) => {
                return Err("root user does not have root role".to_owned());
            }
            AuthChange::AddUser { user, .. } if self.people.foreign.contains(user) => {
                return Err("the name is taken".to_owned());
            }
            AuthChange::AddUser { user, replaces, .. }
                if user == ROOT && *replaces && accounts.enabled =>
            {
                return Err("invalid auth management".to_owned());
            }
            AuthChange::SetPassword { user, .. }
                if user == ROOT && !self.people.passwords.contains_key(ROOT) =>
            {
                accounts.follow_in_vain(change);
                return Ok(());
            }
            AuthChange::SetPassword { user, .. } if !accounts.users.contains_key(user) => {
                return Err("no such user".to_owned());
            }
            AuthChange::DeleteUser { user } if self.people.foreign.contains(user) => {
                accounts.follow(change);
                self.violate("a user of another was deleted");
            }
            AuthChange::Certify { object, by, .. } => {
                self.certify_user(object, *by);
            }
            _other => accounts.follow(change),
        }
        let user = change.user().unwrap_or_default().to_owned();
        if let Some(password) = change.password() {
            let version = password.version.resource_version.clone();
            self.people.passwords.insert(user, version);
        } else if let AuthChange::AddUser { .. } = change {
            self.people.passwords.remove(&user);
        } else if let AuthChange::DiscardPassword { .. } = change
            && let Some(has) = self.people.passwords.get_mut(&user)
        {
            "discarded".clone_into(has);
        }
        Ok(())
    }

    fn certify_user(&mut self, object: &str, by: Issuer) {
        let Ok(issuer) = self.issuer(by) else {
            return;
        };
        let record = self.issue_record(issuer, super::tls::LIFETIME);
        for wish in &mut self.people.declared.users {
            if let Login::Certificate { issued, .. } = &mut wish.login
                && wish.object == object
            {
                *issued = Issued::Recorded(record.clone());
            }
        }
    }

    /// A user is declared, with a password of this version, or with a certificate.
    pub fn declare_user(&mut self, user: &str, roles: &[&str], password: Option<u64>) {
        let login = match password {
            Some(version) => Login::Password {
                secret: format!("{user}-password"),
                seen: Some(SecretVersion {
                    secret_uid: user.to_owned(),
                    resource_version: version.to_string(),
                }),
            },
            None => Login::Certificate {
                issued: Issued::Missing,
                asked: "asked".to_owned(),
            },
        };
        let known = self.people.declared.users.iter().find(|it| it.user == user);
        let applied = known.and_then(|known| known.applied.clone());
        self.people.declared.users.retain(|it| it.user != user);
        self.people.declared.users.push(UserWish {
            object: user.to_owned(),
            generation: 1,
            user: user.to_owned(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            login,
            applied,
            twin: None,
        });
    }

    /// The cluster names a Secret for the password of root, which has this version, or is not there.
    pub fn name_root_password(&mut self, version: Option<u64>) {
        self.people.declared.root = Some(RootWish {
            secret: "root-password".to_owned(),
            seen: version.map(|version| SecretVersion {
                secret_uid: "root".to_owned(),
                resource_version: version.to_string(),
            }),
        });
    }

    /// A role is declared that may read and write keys with these prefixes.
    pub fn declare_role(&mut self, role: &str, keys: &[&str]) {
        let grants = keys.iter().map(|key| {
            let keys = Keys {
                key: key.as_bytes().to_vec(),
                end: b"z".to_vec(),
            };
            (keys, Access::ReadWrite)
        });
        self.people.declared.roles.retain(|it| it.role != role);
        self.people.declared.roles.push(RoleWish {
            object: role.to_owned(),
            generation: 1,
            role: role.to_owned(),
            grants: grants.collect(),
            twin: None,
        });
    }

    /// A person adds a user to etcd.
    pub fn add_foreign_user(&mut self, user: &str) {
        self.people.foreign.insert(user.to_owned());
        for cluster in self.clusters.values_mut() {
            cluster.accounts.users.entry(user.to_owned()).or_default();
        }
    }

    /// The statuses of users, as the operator writes them beside that of the cluster.
    pub(super) fn tell_users(&mut self, look: &Look, decision: &Decision, outcome: &Outcome) {
        for told in plan::status::accounts::tell_users(&look.observed, decision, outcome) {
            let users = self.people.declared.users.iter_mut();
            for wish in users.filter(|wish| wish.object == told.object) {
                wish.applied.clone_from(&told.password);
            }
        }
    }

    /// The operator has locked itself out.
    pub(super) fn check_auth(&mut self) {
        let mut locked_out = false;
        for (id, cluster) in self.clusters.iter().filter(|(_, it)| !it.given_up) {
            let bare = self.live().any(|(ordinal, process)| {
                let pod = self.pods.get(&ordinal);
                process.cluster == *id && pod.is_some_and(|pod| self.turns_away(*id, pod))
            });
            locked_out |= bare || is_unknown_to(&cluster.accounts);
        }
        if locked_out && !self.people.by_hand {
            self.violate("the operator is locked out of etcd");
        }
    }
}

/// The operator may not ask this cluster for anything that needs the role root.
fn is_unknown_to(accounts: &Accounts) -> bool {
    accounts.enabled && !accounts.has(OPERATOR, ROOT)
}
