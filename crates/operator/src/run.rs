//! From options to a running operator: connect, stand by, watch, work, hand over.

use std::sync::Arc;

use anyhow::Context as _;
use futures::{FutureExt, StreamExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::Controller;
use kube::runtime::controller::Config as ControllerConfig;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Options;
use crate::caches::{self, Caches};
use crate::cluster;
use crate::context::{Compared, Context, FoundRight, Refused, Watched};
use crate::lease::Election;
use crate::metrics::Metrics;
use crate::probes::{self, Readiness};
use crate::{reach, telemetry};

/// Runs until it is told to stop or loses its lease.
pub async fn run(options: Options) -> anyhow::Result<()> {
    telemetry::start(&options)?;
    let (config, inside) = connect_config(&options).await?;
    let client = Client::try_from(config).context("the kubeconfig cannot be used")?;
    let readiness = Readiness::default();
    let metrics = Arc::<Metrics>::default();
    let probes = probes::serve(
        options.probe_address,
        readiness.clone(),
        Arc::clone(&metrics),
    );
    let probes = tokio::spawn(probes);
    let version = client
        .apiserver_version()
        .await
        .context("the API server does not answer")?;
    tracing::info!(kubernetes = %version.git_version, agent_image = %options.agent_image, "connected");
    readiness.set();

    let stop = stop_signal()?.shared();
    let election = options
        .leader_election
        .then(|| Election::new(&client, &options.lease_namespace, &options.identity));
    if let Some(election) = &election {
        tokio::select! {
            () = election.acquire() => tracing::info!("holding the lease"),
            () = stop.clone() => return Ok(()),
        }
    }
    let lost = async {
        match &election {
            Some(election) => election.hold().await,
            None => futures::future::pending().await,
        }
    };
    let work = work(&client, (&options, &metrics), inside, stop);
    let ended = tokio::select! {
        () = work => Ok(()),
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

/// Prints the CRD.
pub fn print_crd() -> anyhow::Result<()> {
    use std::io::Write as _;
    let crd = serde_json::to_string_pretty(&api::crd::etcd_cluster()?)?;
    writeln!(std::io::stdout(), "{crd}").context("standard output is closed")
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
    client: &Client,
    (options, metrics): (&Options, &Arc<Metrics>),
    inside: bool,
    stop: impl Future<Output = ()> + Clone + Send + Sync + 'static,
) {
    let named: Vec<&str> = options
        .namespaces
        .iter()
        .map(|name| name.trim())
        .filter(|name| !name.is_empty())
        .collect();
    let scopes: Vec<Option<&str>> = if named.is_empty() {
        vec![None]
    } else {
        named.into_iter().map(Some).collect()
    };
    let controllers = scopes
        .into_iter()
        .map(|namespace| control(client, (options, metrics), inside, namespace, stop.clone()));
    futures::future::join_all(controllers).await;
}

async fn control(
    client: &Client,
    (options, metrics): (&Options, &Arc<Metrics>),
    inside: bool,
    namespace: Option<&str>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let (tell_gone, mut gone) = tokio::sync::mpsc::unbounded_channel();
    let (clusters, cluster_events) =
        caches::watch_clusters(caches::scoped(client, namespace), tell_gone);
    let (statefulsets, statefulset_events) =
        caches::watch_owned(caches::scoped(client, namespace), |_| {});
    let (services, service_events) = caches::watch_owned(caches::scoped(client, namespace), |_| {});
    let (service_accounts, account_events) =
        caches::watch_owned(caches::scoped(client, namespace), |_| {});
    let (budgets, budget_events) = caches::watch_owned(caches::scoped(client, namespace), |_| {});
    let (claims, claim_events) = caches::watch_owned(caches::scoped(client, namespace), |_| {});
    let (slices, slice_events) = caches::watch_slices(caches::scoped(client, namespace));
    let (pods, pod_events) =
        caches::watch_owned(caches::scoped(client, namespace), caches::trim_pod);
    let caches = Caches {
        clusters: clusters.clone(),
        statefulsets,
        services,
        service_accounts,
        budgets,
        claims,
        slices,
        pods,
        filled: tokio::sync::OnceCell::new(),
    };
    metrics.watch(clusters.clone());
    let context = Arc::new(build_context(client, (options, metrics), inside, caches));
    let farewells = {
        let context = Arc::clone(&context);
        async move {
            while let Some(cluster) = gone.recv().await {
                cluster::farewell::farewell(&cluster, &context).await;
            }
        }
    };
    let work = Controller::for_stream(cluster_events, clusters)
        .watches_stream(statefulset_events, |object| caches::owner_of(&object))
        .watches_stream(service_events, |object| caches::owner_of(&object))
        .watches_stream(account_events, |object| caches::owner_of(&object))
        .watches_stream(budget_events, |object| caches::owner_of(&object))
        .watches_stream(claim_events, |object| caches::owner_of(&object))
        .watches_stream(slice_events, |object| caches::owner_of(&object))
        .watches_stream(pod_events, |object| caches::owner_of(&object))
        .with_config(ControllerConfig::default().concurrency(options.workers))
        .graceful_shutdown_on(stop)
        .run(cluster::reconcile, cluster::on_error, context)
        .for_each(|_done| futures::future::ready(()));
    futures::future::join(work, farewells).await;
}

fn build_context(
    client: &Client,
    (options, metrics): (&Options, &Arc<Metrics>),
    inside: bool,
    caches: Caches,
) -> Context {
    let connect = reach::connector(options.reach, inside, client);
    let reporter = Reporter {
        controller: api::labels::OPERATOR.to_owned(),
        instance: Some(options.identity.clone()),
    };
    Context {
        metrics: Arc::clone(metrics),
        client: client.clone(),
        caches,
        pool: etcd::Pool::new(Arc::clone(&connect)),
        connect,
        recorder: Recorder::new(client.clone(), reporter),
        agent_image: options.agent_image.clone(),
        found_right: FoundRight::default(),
        compared: Compared::default(),
        watched: Watched::default(),
        refused: Refused::default(),
    }
}
