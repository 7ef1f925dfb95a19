//! From options to a running operator: connect, stand by, watch, work, hand over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use etcd::Connect;
use futures::future::{BoxFuture, pending};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::Controller;
use kube::runtime::controller::Config as ControllerConfig;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::Store;
use kube::{Client, Config};
use manifests::{Installation, PodUser};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::Options;
use crate::backoff::Attempts;
use crate::backup::Backups;
use crate::backup::places::Places;
use crate::caches::{self, Caches, Guarded, Triggers, Woken};
use crate::certificates::sources::Sources;
use crate::certificates::vault::Vault;
use crate::cluster::observe::accounts::Versions;
use crate::cluster::observe::auth::Noted;
use crate::context::{Compared, Context, FoundRight, Refused, Watched};
use crate::deadline::DeadlineLayer;
use crate::health::{Health, Scope};
use crate::lanes::Lanes;
use crate::lease::Election;
use crate::metrics::Metrics;
use crate::platform::Platform;
use crate::requests::CountLayer;
use crate::restore::Restores;
use crate::waits::Waits;
use crate::webhook::Keeper;
use crate::{
    backup, certificates, cluster, context, descriptors, dumps, probes, reach, restore, telemetry,
    webhook,
};

/// Between two attempts to reach the API server at the start.
const RECONNECT: Duration = Duration::from_secs(2);

/// Runs until it is told to stop or loses its lease.
pub async fn run(options: Options) -> anyhow::Result<()> {
    telemetry::start(options.log_format, &options.log_level)?;
    dumps::forbid();
    let _most = descriptors::raise();
    let (config, inside) = connect_config(&options).await?;
    let (health, metrics) = (Arc::<Health>::default(), Arc::<Metrics>::default());
    let client = client(config, &metrics).context("the kubeconfig cannot be used")?;
    let told = (Arc::clone(&health), Arc::clone(&metrics));
    let probes = tokio::spawn(probes::serve(options.probe_address, told.0, told.1));
    let stop = stop_signal()?.shared();
    let platform = tokio::select! {
        platform = connect(&client, &options, inside) => platform?,
        () = stop.clone() => return Ok(()),
    };
    let (kubernetes, pod_user) = (&platform.version, platform.pod_user);
    tracing::info!(%kubernetes, ?pod_user, agent_image = %options.agent_image, "connected");
    health.answered();
    tokio::spawn(Arc::clone(&health).ask(client.clone()));
    let (hook, keep) = admission(&client, &options, (&health, &metrics))?;

    let election = options
        .leader_election
        .then(|| Election::new(&client, &options.lease_namespace, &options.identity));
    let held = tokio::select! {
        held = acquire(election.as_ref()) => held,
        () = stop.clone() => return Ok(()),
    };
    metrics.lead();
    let lost = async {
        match (&election, held) {
            (Some(election), Some(since)) => election.hold(since).await,
            _alone => pending().await,
        }
    };
    let shared = Shared {
        inside,
        pod_user,
        client: client.clone(),
        connect: reach::connector(options.reach, inside, &client),
        lanes: Arc::new(Lanes::new(options.workers)),
        places: Arc::new(Places::new(options.backups_at_once)),
        metrics,
        health,
    };
    let work = work(&shared, &options, stop);
    let ended = tokio::select! {
        () = work => Ok(()),
        () = keep => Ok(()),
        served = hook => served.context("the webhook cannot be served"),
        () = lost => Err(anyhow::anyhow!("the lease was lost")),
        served = probes => served.context("the probe server ended")?.context("probes cannot be served"),
    };
    if let Some(election) = election.filter(|_| ended.is_ok()) {
        election
            .release()
            .await
            .context("the lease could not be given back")?;
        tracing::info!("lease given back");
    }
    ended
}

/// Since when this replica holds the lease, where there is one to hold.
async fn acquire(election: Option<&Election>) -> Option<Instant> {
    let since = election?.acquire().await;
    tracing::info!("holding the lease");
    Some(since)
}

/// The webhook: what serves it, from now on, and what keeps its certificate, once this replica holds the lease. Neither ends.
fn admission(
    client: &Client,
    options: &Options,
    (health, metrics): (&Arc<Health>, &Arc<Metrics>),
) -> anyhow::Result<(
    BoxFuture<'static, std::io::Result<()>>,
    BoxFuture<'static, ()>,
)> {
    let service = options.webhook_service.as_deref().unwrap_or_default();
    if service.is_empty() {
        return Ok((pending().boxed(), pending().boxed()));
    }
    anyhow::ensure!(
        named_namespaces(options).is_empty(),
        "--webhook-service and --namespaces exclude each other: the API server would ask for every namespace, and this operator knows only some"
    );
    let place = webhook::Place {
        client: client.clone(),
        name: service.to_owned(),
        namespace: options.lease_namespace.clone(),
    };
    let told = webhook::Told {
        health: Arc::clone(health),
        metrics: Arc::clone(metrics),
    };
    let (secret, serving) = webhook::start(&place, options.webhook_address, &told);
    let serving = tokio::spawn(serving).map(|ended| ended.map_err(std::io::Error::other)?);
    let keep = async move { Keeper::new(place, told, secret).keep().await };
    Ok((serving.boxed(), keep.boxed()))
}

/// What the controllers of all namespaces have in common.
struct Shared {
    /// The operator runs in a pod.
    inside: bool,
    pod_user: PodUser,
    client: Client,
    connect: Arc<dyn Connect>,
    lanes: Arc<Lanes>,
    places: Arc<Places>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

/// A client whose every request has a deadline and is counted.
fn client(config: Config, metrics: &Arc<Metrics>) -> kube::Result<Client> {
    let builder = ClientBuilder::try_from(config)?;
    let builder = builder.with_layer(&DeadlineLayer::default());
    let count = CountLayer(Arc::clone(metrics));
    Ok(builder.with_layer(&count).build())
}

/// What the API server says of itself. In a pod it is waited for: a restart would not bring it back.
async fn connect(client: &Client, options: &Options, inside: bool) -> anyhow::Result<Platform> {
    loop {
        match Platform::ask(client, options.pod_user).await {
            Ok(platform) => return Ok(platform),
            Err(error) if inside => {
                tracing::warn!(%error, "the API server does not answer, trying again");
                tokio::time::sleep(RECONNECT).await;
            }
            Err(error) => return Err(error).context("the API server does not answer"),
        }
    }
}

/// Prints the CRDs, one after the other, as `kubectl` reads them.
pub fn print_crd() -> anyhow::Result<()> {
    use std::io::Write as _;
    for crd in api::crd::all()? {
        let crd = serde_json::to_string_pretty(&crd)?;
        writeln!(std::io::stdout(), "{crd}").context("standard output is closed")?;
    }
    Ok(())
}

async fn connect_config(options: &Options) -> anyhow::Result<(Config, bool)> {
    if options.kubeconfig.is_none()
        && options.context.is_none()
        && let Ok(config) = Config::incluster()
    {
        return Ok((config, true));
    }
    let choice = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match &options.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("the kubeconfig {} cannot be read", path.display()))?;
            Config::from_custom_kubeconfig(file, &choice).await
        }
        None => Config::from_kubeconfig(&choice).await,
    };
    Ok((
        config.context("no usable kubeconfig: set --kubeconfig, --context or $KUBECONFIG")?,
        false,
    ))
}

fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be watched")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be watched")?;
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        tracing::info!("stopping: finishing what has begun");
    })
}

/// One controller per watched namespace, or one for all.
async fn work(
    shared: &Shared,
    options: &Options,
    stop: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    let named = named_namespaces(options);
    let scopes: Vec<Option<&str>> = if named.is_empty() {
        vec![None]
    } else {
        named.into_iter().map(Some).collect()
    };
    let controllers = scopes
        .into_iter()
        .map(|namespace| control(shared, options, namespace, stop.clone()));
    futures::future::join_all(controllers).await;
}

fn named_namespaces(options: &Options) -> Vec<&str> {
    let all = options.namespaces.iter().map(|name| name.trim());
    all.filter(|name| !name.is_empty()).collect()
}

async fn control(
    shared: &Shared,
    options: &Options,
    namespace: Option<&str>,
    stop: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    let (client, scope) = (&shared.client, shared.health.scope(namespace));
    let scope = scope.as_ref();
    let (tell_gone, gone) = tokio::sync::mpsc::unbounded_channel();
    let (clusters, cluster_events) =
        caches::watch_clusters(caches::scoped(client, namespace), tell_gone, scope);
    let mut woken = Woken::default();
    let (backups, backup_events) = caches::watch_all(caches::scoped(client, namespace), scope);
    let (jobs, job_events) = backup::watch_jobs(caches::scoped(client, namespace), scope);
    let (restores, restore_events) = caches::watch_all(caches::scoped(client, namespace), scope);
    shared.metrics.watch_backups(backups.clone());
    let known = Known {
        clusters: clusters.clone(),
        backups,
        restores: restores.clone(),
        jobs: jobs.clone(),
    };
    let caches = watch(client, (namespace, scope), known, &mut woken);
    scope.work(clusters.clone());
    let context = Arc::new(build_context(shared, options, caches));
    let board = Arc::clone(&context.board);
    shared.metrics.watch(clusters.clone(), board);
    shared.metrics.watch_calls(context.pool.calls());
    let farewells = farewells(gone, Arc::clone(&context));
    let sweeps = cluster::farewell::sweep_for_ever(Arc::clone(&context));
    let work = Controller::for_stream(cluster_events, clusters)
        .reconcile_on(woken.clusters())
        // Without a bound of its own: looks share the places of all controllers.
        .with_config(ControllerConfig::default())
        .graceful_shutdown_on(stop.clone())
        .run(cluster::reconcile, cluster::on_error, Arc::clone(&context))
        .for_each(|_done| futures::future::ready(()));
    let restores = Restores {
        context: Arc::clone(&context),
        store: restores,
        rejected: Attempts::default(),
    };
    let bring = bring(restores, restore_events, stop.clone());
    let backups = Backups {
        context,
        jobs,
        places: Arc::clone(&shared.places),
    };
    let keep = keep(backups, (backup_events, job_events), stop);
    let work = futures::future::join4(work, farewells, keep, bring);
    tokio::select! {
        _done = work => {}
        () = sweeps => {}
    }
}

/// What other controllers watch.
struct Known {
    clusters: Store<Guarded>,
    backups: Store<backup::Guarded>,
    restores: Store<restore::Guarded>,
    jobs: Store<Job>,
}

/// Watches everything else that clusters are made of.
fn watch(
    client: &Client,
    (namespace, scope): (Option<&str>, &Scope),
    known: Known,
    woken: &mut Woken,
) -> Caches {
    let Known {
        clusters,
        backups,
        restores,
        jobs,
    } = known;
    Caches {
        clusters,
        backups,
        restores,
        jobs,
        users: woken.as_named(
            caches::watch_all(caches::scoped(client, namespace), scope),
            caches::cluster_of_user,
        ),
        roles: woken.as_named(
            caches::watch_all(caches::scoped(client, namespace), scope),
            caches::cluster_of_role,
        ),
        statefulsets: woken.owned(client, namespace, scope),
        services: woken.owned(client, namespace, scope),
        service_accounts: woken.owned(client, namespace, scope),
        budgets: woken.owned(client, namespace, scope),
        network_policies: woken.owned(client, namespace, scope),
        claims: woken.owned(client, namespace, scope),
        secrets: woken.by(caches::watch_owned(
            caches::scoped(client, namespace),
            certificates::secrets::trim,
            scope,
        )),
        slices: woken.by(caches::watch_slices(
            caches::scoped(client, namespace),
            scope,
        )),
        pods: woken.by(caches::watch_owned(
            caches::scoped(client, namespace),
            caches::trim_pod,
            scope,
        )),
        filled: tokio::sync::OnceCell::new(),
    }
}

/// The controller of the EtcdBackups.
async fn keep(
    backups: Backups,
    (events, jobs): (Triggers<backup::Guarded>, Triggers<Job>),
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let owners = jobs.filter_map(|event| {
        let owner = event.ok().and_then(|job| backup::owner_of(&job));
        futures::future::ready(owner)
    });
    let store = backups.context.caches.backups.clone();
    Controller::for_stream(events, store)
        .reconcile_on(owners)
        .graceful_shutdown_on(stop)
        .run(backup::reconcile, backup::on_error, Arc::new(backups))
        .for_each(|_done| futures::future::ready(()))
        .await;
}

/// The controller of the EtcdRestores. Those that are on their way look at their cluster every two seconds, which costs no
/// request.
async fn bring(
    restores: Restores,
    events: Triggers<restore::Guarded>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    Controller::for_stream(events, restores.store.clone())
        .graceful_shutdown_on(stop)
        .run(restore::reconcile, restore::on_error, Arc::new(restores))
        .for_each(|_done| futures::future::ready(()))
        .await;
}

async fn farewells(mut gone: UnboundedReceiver<Guarded>, context: Arc<Context>) {
    while let Some(cluster) = gone.recv().await {
        cluster::farewell::farewell(&cluster, &context).await;
    }
}

/// As it was said; else as the kubelet says it to this pod; else what nearly every cluster has.
fn domain(options: &Options) -> String {
    let said = options.cluster_domain.clone();
    let found = || {
        let file = std::fs::read_to_string("/etc/resolv.conf").ok()?;
        certificates::domain_of(&file)
    };
    said.or_else(found)
        .unwrap_or_else(|| "cluster.local".to_owned())
}

fn build_context(shared: &Shared, options: &Options, caches: Caches) -> Context {
    let reporter = Reporter {
        controller: api::labels::OPERATOR.to_owned(),
        instance: Some(options.identity.clone()),
    };
    Context {
        metrics: Arc::clone(&shared.metrics),
        board: Arc::default(),
        client: shared.client.clone(),
        caches,
        pool: etcd::Pool::new(Arc::clone(&shared.connect)),
        connect: Arc::clone(&shared.connect),
        recorder: Recorder::new(shared.client.clone(), reporter),
        namespaces: named_namespaces(options)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        install: Installation {
            agent_image: options.agent_image.clone(),
            namespace: shared
                .inside
                .then(|| shared.client.default_namespace().to_owned()),
            pod_user: shared.pod_user,
        },
        domain: domain(options),
        vault: Vault::default(),
        sources: Sources::default(),
        found_right: FoundRight::default(),
        compared: Compared::default(),
        accounts: Noted::default(),
        versions: Versions::default(),
        watched: Watched::default(),
        refused: Refused::default(),
        health: Arc::clone(&shared.health),
        lanes: Arc::clone(&shared.lanes),
        attempts: Attempts::default(),
        waits: Waits::default(),
        upkeep: context::upkeep(),
        hashing: context::hashing(),
    }
}
