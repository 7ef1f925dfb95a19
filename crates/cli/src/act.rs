//! Writes what a command asks for, and follows it where that is asked for. Each write names the UID of the object that was seen,
//! so that another one of its name is left alone.

use std::fmt::Debug;
use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use api::EtcdCluster;
use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::EtcdRestore;
use commands::{BackUp, Restore, Verb, WELL, Waiting};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::change::{self, Change, Goal};
use crate::follow;
use crate::gather::{self, BACKUPS, CLUSTERS, RESTORES};
use crate::report::report;
use crate::run::Said;
use crate::screen::Screen;
use crate::trouble::{Asked, Trouble};

/// In the managed fields of what this program wrote.
const MANAGER: &str = "kubectl-etcd";

/// Where, and how it is shown.
pub struct Stage<'a> {
    /// Whose rights.
    pub client: &'a Client,
    /// In which namespace.
    pub namespace: &'a str,
    /// Where lines go.
    pub screen: &'a Screen,
}

impl Stage<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Changes a cluster.
    pub async fn verb(&self, name: &str, verb: &Verb, waiting: &Waiting) -> Result<Said, Trouble> {
        let cluster = Box::pin(gather::cluster(self.client, self.namespace, name)).await?;
        let change = change::change(verb, &cluster, Timestamp::now());
        self.write::<EtcdCluster>(CLUSTERS, name, &change, waiting)
            .await?;
        Box::pin(self.follow_cluster(name, &change.goal, waiting)).await
    }

    /// Recovers a cluster, or shows why that would be right.
    pub async fn recover(
        &self,
        name: &str,
        confirmed: Option<&str>,
        waiting: &Waiting,
    ) -> Result<Said, Trouble> {
        let cluster = Box::pin(gather::cluster(self.client, self.namespace, name)).await?;
        let pods = gather::pods(self.client, self.namespace, name).await;
        let pods = pods.as_deref().map_err(ToString::to_string);
        let report = report(&cluster, Some(pods));
        let change = change::recover(&cluster, &report, confirmed, self.screen)?;
        self.write::<EtcdCluster>(CLUSTERS, name, &change, waiting)
            .await?;
        Box::pin(self.follow_cluster(name, &change.goal, waiting)).await
    }

    /// Has one more backup made.
    pub async fn back_up(&self, asked: &BackUp, waiting: &Waiting) -> Result<Said, Trouble> {
        let backups = gather::backups(self.client, self.namespace).await?;
        let backup = change::choose(asked, self.namespace, &backups)?;
        let (name, change) = (backup.name_any(), change::back_up(backup, Timestamp::now()));
        self.write::<EtcdBackup>(BACKUPS, &name, &change, waiting)
            .await?;
        let Goal::BackedUp(value) = &change.goal else {
            return Ok(Said::default());
        };
        let place = format!("EtcdBackup {}/{name}", self.namespace);
        let line = |backup: &EtcdBackup| follow::backup_line(backup, self.screen);
        Box::pin(self.follow(
            (BACKUPS, &name, &place),
            waiting,
            line,
            async |backup: &EtcdBackup| Ok(follow::is_backed_up(backup, value)),
        ))
        .await
    }

    /// Has a backup brought back.
    pub async fn restore(&self, asked: &Restore, waiting: &Waiting) -> Result<Said, Trouble> {
        let existing = match gather::cluster(self.client, self.namespace, &asked.name).await {
            Ok(existing) => Some(existing),
            Err(Trouble::Absent { .. }) => None,
            Err(trouble) => return Err(trouble),
        };
        let (object, said) = change::restore(asked, existing.as_ref(), self.namespace)?;
        let mut to = Asked::one("create", RESTORES, self.namespace, &asked.name);
        to.name = None;
        let parameters = PostParams {
            dry_run: waiting.dry_run,
            field_manager: Some(MANAGER.to_owned()),
        };
        let api: Api<EtcdRestore> = self.api();
        let made = gather::within(&to, api.create(&parameters, &object)).await?;
        let name = made.name_any();
        let place = format!("EtcdRestore {}/{name}", self.namespace);
        self.say(&format!("{place}: {said}{}", dry(waiting)))?;
        let line = |restore: &EtcdRestore| follow::restore_line(restore, self.screen);
        Box::pin(self.follow(
            (RESTORES, &name, &place),
            waiting,
            line,
            async |restore: &EtcdRestore| Ok(follow::is_restored(restore)),
        ))
        .await
    }

    async fn write<K>(
        &self,
        resource: &'static str,
        name: &str,
        change: &Change,
        waiting: &Waiting,
    ) -> Result<(), Trouble>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        if let Some(patch) = &change.patch {
            let parameters = PatchParams {
                dry_run: waiting.dry_run,
                field_manager: Some(MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let asked = Asked::one("patch", resource, self.namespace, name);
            let api: Api<K> = self.api();
            gather::within(&asked, api.patch(name, &parameters, &Patch::Merge(patch))).await?;
        }
        let kind = K::kind(&());
        let text = format!(
            "{kind} {}/{name}: {}{}",
            self.namespace,
            change.said,
            dry(waiting)
        );
        self.say(&text)
    }

    async fn follow_cluster(
        &self,
        name: &str,
        goal: &Goal,
        waiting: &Waiting,
    ) -> Result<Said, Trouble> {
        let place = format!("EtcdCluster {}/{name}", self.namespace);
        let line = |cluster: &EtcdCluster| follow::line(&report(cluster, None), self.screen);
        Box::pin(self.follow(
            (CLUSTERS, name, &place),
            waiting,
            line,
            async |cluster: &EtcdCluster| {
                let seen = report(cluster, None);
                let pods: Vec<Pod> = match goal {
                    Goal::Restarted(_) => gather::pods(self.client, self.namespace, name).await?,
                    _without => Vec::new(),
                };
                Ok(follow::is_there(goal, cluster, &seen, &pods))
            },
        ))
        .await
    }

    /// Prints every line that is new until it is there, or time is up.
    async fn follow<K>(
        &self,
        (resource, name, place): (&'static str, &str, &str),
        waiting: &Waiting,
        line: impl Fn(&K) -> String,
        is_there: impl AsyncFn(&K) -> Result<bool, Trouble>,
    ) -> Result<Said, Trouble>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + 'static,
    {
        if !waiting.wait || waiting.dry_run {
            return Ok(Said::default());
        }
        let begin = Instant::now();
        let limit = waiting.timeout.0;
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        // What fails is tried again, less and less often.
        let mut events = pin!(watcher(self.api::<K>(), config).default_backoff());
        let mut last = String::new();
        loop {
            let Ok(next) = timeout_at(begin + limit, next(&mut events)).await else {
                return Err(Trouble::Late {
                    what: format!("{place} is not done"),
                    seconds: limit.as_secs(),
                    now: last,
                });
            };
            let object = match next {
                Ok(Some(object)) => object,
                Ok(None) => {
                    return Err(Trouble::Unreachable {
                        tried: format!("follow {place}"),
                        why: "it was deleted".to_owned(),
                    });
                }
                Err(error) => {
                    let asked = Asked::one("watch", resource, self.namespace, name);
                    match asked.failed(error) {
                        trouble @ (Trouble::Forbidden { .. } | Trouble::NoKind(_)) => {
                            return Err(trouble);
                        }
                        _tried_again => continue,
                    }
                }
            };
            let new = line(&object);
            if new != last {
                self.say(&format!("{}  {new}", seconds(begin.elapsed())))?;
                last = new;
            }
            if is_there(&object).await? {
                self.say(&format!("{}  done", seconds(begin.elapsed())))?;
                return Ok(Said {
                    code: WELL,
                    ..Said::default()
                });
            }
        }
    }

    /// One line at once: what is followed is not kept until the end.
    fn say(&self, text: &str) -> Result<(), Trouble> {
        let mut out = std::io::stdout().lock();
        let text = if out.is_terminal() {
            self.screen.wrap(text, 7)
        } else {
            self.screen.clean(text)
        };
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .map_err(Trouble::Output)
    }
}

fn dry(waiting: &Waiting) -> &'static str {
    if waiting.dry_run {
        " (dry run: nothing was changed)"
    } else {
        ""
    }
}

fn seconds(elapsed: Duration) -> String {
    format!("{:>4}s", elapsed.as_secs())
}

/// The object as it is now; nothing once it is gone.
async fn next<K>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> Result<Option<K>, kube::Error> {
    loop {
        match events.next().await {
            Some(Ok(Event::Apply(object) | Event::InitApply(object))) => return Ok(Some(object)),
            Some(Ok(Event::Delete(_))) | None => return Ok(None),
            Some(Ok(Event::Init | Event::InitDone)) => {}
            Some(Err(error)) => return Err(as_kube(error)),
        }
    }
}

fn as_kube(error: watcher::Error) -> kube::Error {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(status) => kube::Error::Api(status),
        watcher::Error::NoResourceVersion => {
            kube::Error::Service("the list has no version".to_owned().into())
        }
    }
}
