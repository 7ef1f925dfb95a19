//! Users and roles that are declared for a cluster, from the caches; and whether the Secrets of their passwords changed,
//! which is asked by name: the operator lists no Secrets but its own.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::v1alpha1::role::EtcdRole;
use api::v1alpha1::user::{EtcdUser, SecretVersion};
use api::{EtcdCluster, names};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Secret;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use kube::{Api, Resource, ResourceExt};
use plan::Observed;
use plan::observed::{Declared, Issued, Login, RoleWish, RootWish, UserWish};

use crate::certificates::secrets;
use crate::certificates::subjects::Subjects;
use crate::cluster::place;
use crate::context::Context;

/// For how long the version of a Secret is believed.
const BELIEVED: Duration = Duration::from_secs(20);
/// And its absence.
const MISSED: Duration = Duration::from_secs(3);

/// Versions of Secrets, by namespace and name. Losing it costs one request for each.
#[derive(Default)]
pub struct Versions(Mutex<BTreeMap<(String, String), Seen>>);

/// A Secret as it was at one moment; `None` where there was none.
#[derive(Clone)]
struct Seen {
    at: Instant,
    version: Option<SecretVersion>,
}

impl Versions {
    /// What was seen, if that is believed still.
    fn fresh(&self, secret: &(String, String)) -> Option<Seen> {
        let seen = self.lock().get(secret).cloned()?;
        let believed = match seen.version {
            Some(_) => BELIEVED,
            None => MISSED,
        };
        Some(seen).filter(|seen| seen.at.elapsed() < believed)
    }

    fn keep(&self, secret: (String, String), version: Option<SecretVersion>) {
        let mut known = self.lock();
        // Those of users that are gone are asked for no more.
        known.retain(|_, seen| seen.at.elapsed() < BELIEVED);
        let at = Instant::now();
        known.insert(secret, Seen { at, version });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Seen>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Costs nothing where authentication is not spoken of and nothing is declared.
pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let (Some(users), Some(roles)) = (
        of_cluster(&ctx.caches.users, cluster, |it| &it.spec.cluster_name),
        of_cluster(&ctx.caches.roles, cluster, |it| &it.spec.cluster_name),
    ) else {
        return;
    };
    let mut declared = Declared {
        root: root_wish(observed, cluster, ctx).await,
        ..Declared::default()
    };
    for user in users {
        let wish = user_wish(observed, &user, cluster, ctx).await;
        let twin = declared.users.iter().find(|it| it.user == wish.user);
        let twin = twin.map(|twin| twin.object.clone());
        declared.users.push(UserWish { twin, ..wish });
    }
    for role in roles {
        let wish = role_wish(&role);
        let twin = declared.roles.iter().find(|it| it.role == wish.role);
        let twin = twin.map(|twin| twin.object.clone());
        declared.roles.push(RoleWish { twin, ..wish });
    }
    observed.etcd.auth.declared = Some(declared);
}

/// All objects of a kind that name the cluster, the oldest first; `None` until the cache has them all. One that is being
/// deleted is declared no more.
pub(crate) fn of_cluster<K>(
    store: &Store<DeserializeGuard<K>>,
    cluster: &EtcdCluster,
    named: impl Fn(&K) -> &String,
) -> Option<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.wait_until_ready().now_or_never()?.ok()?;
    let (namespace, name) = place(cluster);
    let all = store.state().into_iter();
    let all = all.filter_map(|object| object.0.as_ref().ok().cloned());
    let mut own: Vec<K> = all
        .filter(|object| object.namespace().as_deref() == Some(&namespace))
        .filter(|object| *named(object) == name && object.meta().deletion_timestamp.is_none())
        .collect();
    own.sort_by_key(|object| {
        let created = object.creation_timestamp().map(|time| time.0);
        (created, object.name_any())
    });
    Some(own)
}

/// The password of the user root.
async fn root_wish(observed: &Observed, cluster: &EtcdCluster, ctx: &Context) -> Option<RootWish> {
    let intent = observed.cluster.intent.as_ref().ok()?;
    let secret = intent.root_password.clone()?;
    let asked = intent.auth == Some(true);
    let seen = if asked {
        version(cluster, &secret, ctx).await
    } else {
        None
    };
    Some(RootWish { secret, seen })
}

async fn user_wish(
    observed: &Observed,
    user: &EtcdUser,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> UserWish {
    let object = user.name_any();
    let name = user.spec.user_name.clone();
    let name = name.unwrap_or_else(|| object.clone());
    let login = match &user.spec.password_secret {
        Some(secret) => Login::Password {
            secret: secret.clone(),
            seen: version(cluster, secret, ctx).await,
        },
        None => certificate(observed, user, &name, (cluster, ctx)),
    };
    UserWish {
        generation: user.metadata.generation.unwrap_or_default(),
        roles: user.spec.roles.iter().cloned().collect(),
        applied: user.status.clone().and_then(|status| status.password),
        user: name,
        object,
        login,
        twin: None,
    }
}

/// What is in the Secret of a user's certificate.
fn certificate(
    observed: &Observed,
    user: &EtcdUser,
    name: &str,
    (cluster, ctx): (&EtcdCluster, &Context),
) -> Login {
    let (namespace, of) = place(cluster);
    let target = observed.cluster.target.as_ref();
    let asked = target.map(|target| {
        let subjects = Subjects {
            name: &of,
            namespace: &namespace,
            domain: &ctx.domain,
            tls: &target.intent.tls,
        };
        let shown = observed.certificates.members.record();
        subjects.asked_of_user(name, shown)
    });
    let secret = names::user_secret(&of, &user.name_any());
    let live = crate::caches::get(&ctx.caches.secrets, &namespace, &secret);
    let issued = match live {
        None => Issued::Missing,
        Some(live) if !is_owned_by(live.as_ref(), user) => Issued::Foreign,
        Some(live) => secrets::record(&live).map_or(Issued::Altered, Issued::Recorded),
    };
    Login::Certificate {
        issued,
        asked: asked.unwrap_or_default(),
    }
}

fn is_owned_by(secret: &Secret, user: &EtcdUser) -> bool {
    let mut owners = secret.owner_references().iter();
    owners.any(|owner| Some(&owner.uid) == user.metadata.uid.as_ref())
}

/// The Secret as it is now, or was seconds ago.
async fn version(cluster: &EtcdCluster, secret: &str, ctx: &Context) -> Option<SecretVersion> {
    let (namespace, _) = place(cluster);
    let key = (namespace.clone(), secret.to_owned());
    if let Some(known) = ctx.versions.fresh(&key) {
        return known.version;
    }
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), &namespace);
    let seen = match api.get_metadata_opt(secret).await {
        Ok(seen) => seen.and_then(|live| {
            Some(SecretVersion {
                secret_uid: live.metadata.uid?,
                resource_version: live.metadata.resource_version?,
            })
        }),
        Err(error) => {
            tracing::warn!(secret, %error, "the Secret of a password cannot be read");
            None
        }
    };
    ctx.versions.keep(key, seen.clone());
    seen
}

/// What names no keys, or in two ways, is rejected by the API server.
fn role_wish(role: &EtcdRole) -> RoleWish {
    let object = role.name_any();
    let name = role.spec.role_name.clone();
    let grants = role.spec.permissions.iter();
    let grants = grants.filter_map(|granted| Some((granted.keys()?, granted.access)));
    RoleWish {
        generation: role.metadata.generation.unwrap_or_default(),
        role: name.unwrap_or_else(|| object.clone()),
        grants: grants.collect(),
        twin: None,
        object,
    }
}
