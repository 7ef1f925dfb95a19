//! From what was typed to what is printed, and the code with which the program ends.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use api::EtcdCluster;
use clap::Parser;
use commands::{Command, ERROR, Line, Look, NOT_WELL, Output, Printed, Terminal, WELL, Which};
use futures::future::join_all;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use serde::Serialize;

use crate::act::Stage;
use crate::connect::connect;
use crate::doctor::{Diagnosis, Level, Seen, diagnose, installation};
use crate::report::{
    ClusterReport, Happening, Installed, List, Standing, VersionReport, report, timeline, versions,
};
use crate::screen::{Screen, put};
use crate::trouble::Trouble;
use crate::{completion, gather, view};

/// What a command has to say.
#[derive(Debug, Default)]
pub struct Said {
    /// For stdout.
    pub data: String,
    /// For stderr.
    pub talk: String,
    /// How the program ends.
    pub code: u8,
}

/// The program.
pub async fn main(line: impl Iterator<Item = OsString>) -> u8 {
    let line = match Line::try_parse_from(line) {
        Ok(line) => line,
        Err(error) => {
            let code = if error.use_stderr() { ERROR } else { WELL };
            // Nothing can be said where even this fails.
            drop(error.print());
            return code;
        }
    };
    let mut screen = screen(&line.common.terminal);
    screen.wide = line.command.output() == Output::Wide;
    let said = match command(&line, &screen).await {
        Ok(said) => said,
        Err(trouble) => {
            let data = match &trouble {
                Trouble::Unconfirmed { evidence, .. } => evidence.clone(),
                _other => String::new(),
            };
            Said {
                data,
                talk: trouble.tell(&screen),
                code: trouble.code(),
            }
        }
    };
    match print(&said) {
        Ok(()) => said.code,
        // The reader has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => said.code,
        Err(error) => {
            drop(writeln!(
                std::io::stderr(),
                "error: {}",
                Trouble::Output(error)
            ));
            ERROR
        }
    }
}

fn print(said: &Said) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(said.data.as_bytes())?;
    out.flush()?;
    std::io::stderr().lock().write_all(said.talk.as_bytes())
}

/// What stdout can show.
fn screen(terminal: &Terminal) -> Screen {
    let out = std::io::stdout();
    let is_terminal = out.is_terminal();
    let measured = rustix::termios::tcgetwinsize(&out).ok();
    let measured = measured
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0);
    let width = measured.or_else(|| terminal.columns()).unwrap_or(80);
    Screen {
        width: is_terminal.then_some(width),
        colour: is_terminal && terminal.may_colour(),
        // A pipe leads to a file or a program, which are not asked what they show.
        unicode: !is_terminal || terminal.is_unicode(),
        wide: false,
        now: Timestamp::now(),
    }
}

async fn command(line: &Line, screen: &Screen) -> Result<Said, Trouble> {
    if let Command::Completion { shell } = &line.command {
        return Ok(data(completion::script(*shell).to_owned()));
    }
    if let Command::Complete { words } = &line.command {
        return Ok(data(completion::complete(words).await));
    }
    let (client, namespace) = connect(&line.common).await?;
    let place = Place { client, namespace };
    match &line.command {
        Command::Status(look) => status(&place, look, screen).await,
        Command::Members(look) => members(&place, look, screen).await,
        Command::Health(look) => health(&place, look, screen).await,
        Command::Why(look) => why(&place, look, screen).await,
        Command::Events(look) => events(&place, look, screen).await,
        Command::Doctor(look) => Box::pin(doctor(&place, look, screen)).await,
        Command::Version(printed) => version(&place, *printed, screen).await,
        Command::Completion { .. } | Command::Complete { .. } => Ok(Said::default()),
        acting => Box::pin(act(&place, acting, screen)).await,
    }
}

async fn act(place: &Place, command: &Command, screen: &Screen) -> Result<Said, Trouble> {
    let stage = Stage {
        client: &place.client,
        namespace: &place.namespace,
        screen,
    };
    if let Some((target, verb)) = command.verb() {
        return Box::pin(stage.verb(&target.name, &verb, &target.waiting)).await;
    }
    match command {
        Command::Recover { target, confirm } => {
            let confirmed = confirm.as_deref();
            Box::pin(stage.recover(&target.name, confirmed, &target.waiting)).await
        }
        Command::Backup { backup, waiting } => Box::pin(stage.back_up(backup, waiting)).await,
        Command::Restore { restore, waiting } => Box::pin(stage.restore(restore, waiting)).await,
        _looking => Ok(Said::default()),
    }
}

/// Whose rights, and which namespace where none is named.
struct Place {
    client: Client,
    namespace: String,
}

fn data(data: String) -> Said {
    Said {
        data,
        ..Said::default()
    }
}

/// Clusters that were found, and what to say of those that cannot be read.
struct Found {
    clusters: Vec<EtcdCluster>,
    troubles: Vec<Trouble>,
}

impl Found {
    fn said(&self, data: String, screen: &Screen) -> Said {
        let talk: String = self.troubles.iter().map(|it| it.tell(screen)).collect();
        Said {
            data,
            talk,
            code: if self.troubles.is_empty() {
                WELL
            } else {
                ERROR
            },
        }
    }
}

async fn find(place: &Place, which: &Which) -> Result<Found, Trouble> {
    if which.names.is_empty() {
        let namespace = (!which.all_namespaces).then_some(place.namespace.as_str());
        let (clusters, troubles) = gather::clusters(&place.client, namespace).await?;
        return Ok(Found { clusters, troubles });
    }
    let mut clusters = Vec::new();
    for name in &which.names {
        clusters.push(gather::cluster(&place.client, &place.namespace, name).await?);
    }
    let troubles = Vec::new();
    Ok(Found { clusters, troubles })
}

/// With their pods.
async fn reports(place: &Place, clusters: &[EtcdCluster]) -> Vec<ClusterReport> {
    let reports = clusters.iter().map(|cluster| async {
        let namespace = cluster.namespace().unwrap_or_default();
        let pods = gather::pods(&place.client, &namespace, &cluster.name_any()).await;
        let pods = pods.as_deref().map_err(ToString::to_string);
        report(cluster, Some(pods))
    });
    join_all(reports).await
}

/// Nothing there is no error, and must not look like a result that was lost.
fn or_nothing(text: String, is_empty: bool, which: &Which, place: &Place) -> Said {
    if !is_empty {
        return data(text);
    }
    let place = if which.all_namespaces {
        "in any namespace".to_owned()
    } else {
        format!("in namespace {}", place.namespace)
    };
    Said {
        talk: format!("there is no EtcdCluster {place}\n"),
        ..Said::default()
    }
}

async fn status(place: &Place, look: &Look, screen: &Screen) -> Result<Said, Trouble> {
    let found = find(place, &look.which).await?;
    let named = !look.which.names.is_empty();
    let reports = if named {
        reports(place, &found.clusters).await
    } else {
        found
            .clusters
            .iter()
            .map(|cluster| report(cluster, None))
            .collect()
    };
    if let Some(text) = machine("ClusterReportList", &reports, look.printed)? {
        return Ok(found.said(text, screen));
    }
    let text = if named {
        let texts: Vec<String> = reports.iter().map(|it| view::status(it, screen)).collect();
        texts.join("\n")
    } else {
        view::fleet(&reports, look.which.all_namespaces, screen)
    };
    Ok(with(
        &found,
        or_nothing(text, reports.is_empty(), &look.which, place),
        screen,
    ))
}

async fn members(place: &Place, look: &Look, screen: &Screen) -> Result<Said, Trouble> {
    let found = find(place, &look.which).await?;
    let reports = reports(place, &found.clusters).await;
    if let Some(text) = machine("ClusterReportList", &reports, look.printed)? {
        return Ok(found.said(text, screen));
    }
    let several = reports.len() != 1 || look.which.all_namespaces;
    let text = view::members(&reports, several, screen);
    let mut said = or_nothing(text, reports.is_empty(), &look.which, place);
    for report in reports.iter().filter(|report| !report.unseen.is_empty()) {
        let unseen = report.unseen.join("; ");
        put(
            &mut said.talk,
            format_args!("not seen of {}: {unseen}\n", report.name),
        );
    }
    Ok(with(&found, said, screen))
}

async fn health(place: &Place, look: &Look, screen: &Screen) -> Result<Said, Trouble> {
    let found = find(place, &look.which).await?;
    let reports: Vec<ClusterReport> = found
        .clusters
        .iter()
        .map(|cluster| report(cluster, None))
        .collect();
    let text = match machine("ClusterReportList", &reports, look.printed)? {
        Some(text) => data(text),
        None => or_nothing(
            view::health(&reports, screen),
            reports.is_empty(),
            &look.which,
            place,
        ),
    };
    let mut said = with(&found, text, screen);
    let well = reports
        .iter()
        .map(|report| report.standing)
        .all(Standing::is_well);
    if said.code == WELL && !well {
        said.code = NOT_WELL;
    }
    Ok(said)
}

async fn why(place: &Place, look: &Look, screen: &Screen) -> Result<Said, Trouble> {
    let found = find(place, &look.which).await?;
    let reports: Vec<ClusterReport> = found
        .clusters
        .iter()
        .map(|cluster| report(cluster, None))
        .collect();
    if let Some(text) = machine("ClusterReportList", &reports, look.printed)? {
        return Ok(found.said(text, screen));
    }
    let texts: Vec<String> = reports.iter().map(|it| view::why(it, screen)).collect();
    let said = or_nothing(texts.join("\n"), reports.is_empty(), &look.which, place);
    Ok(with(&found, said, screen))
}

async fn events(place: &Place, look: &Look, screen: &Screen) -> Result<Said, Trouble> {
    let found = find(place, &look.which).await?;
    let (mut all, mut talk): (Vec<Happening>, _) = (Vec::new(), String::new());
    for cluster in &found.clusters {
        let namespace = cluster.namespace().unwrap_or_default();
        let told = gather::events(&place.client, &namespace, &cluster.name_any()).await?;
        let (events, subjects, unseen) = told;
        all.extend(timeline(&events, &subjects.into_iter().collect()));
        for trouble in unseen {
            put(&mut talk, format_args!("not seen: {trouble}\n"));
        }
    }
    all.sort();
    if let Some(text) = machine("HappeningList", &all, look.printed)? {
        return Ok(found.said(text, screen));
    }
    if all.is_empty() {
        talk.push_str("no events; Kubernetes keeps them for an hour\n");
        return Ok(with(
            &found,
            Said {
                talk,
                ..Said::default()
            },
            screen,
        ));
    }
    let mut said = data(view::events(&all, screen));
    said.talk = talk;
    Ok(with(&found, said, screen))
}

async fn version(place: &Place, printed: Printed, screen: &Screen) -> Result<Said, Trouble> {
    let report = look_at_versions(&place.client).await?;
    let text = match written(&report, printed)? {
        Some(text) => text,
        None => view::version(&report, screen),
    };
    let code = if report.mismatches.is_empty() {
        WELL
    } else {
        NOT_WELL
    };
    Ok(Said { code, ..data(text) })
}

async fn look_at_versions(client: &Client) -> Result<VersionReport, Trouble> {
    let kubernetes = gather::kubernetes(client).await?;
    let operators = gather::operators(client).await;
    let crd = gather::crd(client).await;
    let installed = Installed {
        kubernetes: Ok(kubernetes),
        operators: operators.as_deref().map_err(ToString::to_string),
        crd: crd.as_ref().map_err(ToString::to_string),
    };
    Ok(versions(&installed, env!("CARGO_PKG_VERSION")))
}

async fn doctor(place: &Place, look: &Look, screen: &Screen) -> Result<Said, Trouble> {
    let found = find(place, &look.which).await?;
    let mut all = vec![installation(&look_at_versions(&place.client).await?)];
    let seen = found
        .clusters
        .iter()
        .map(|cluster| examine(&place.client, cluster));
    let diagnoses: Vec<Diagnosis> = join_all(seen).await;
    all.extend(diagnoses);
    let data = match machine("DiagnosisList", &all, look.printed)? {
        Some(text) => text,
        None => view::doctor(&all, screen),
    };
    let mut said = found.said(data, screen);
    let findings = all.iter().flat_map(|diagnosis| &diagnosis.findings);
    let fails = findings
        .map(|finding| finding.level)
        .any(|level| level == Level::Fail);
    if said.code == WELL && fails {
        said.code = NOT_WELL;
    }
    Ok(said)
}

async fn examine(client: &Client, cluster: &EtcdCluster) -> Diagnosis {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let pods = gather::pods(client, &namespace, &name);
    let claims = gather::claims(client, &namespace);
    let budgets = gather::budgets(client, &namespace);
    let services = gather::services(client, &namespace);
    let backups = gather::backups(client, &namespace);
    let (pods, claims, budgets, services, backups) =
        Box::pin(async { tokio::join!(pods, claims, budgets, services, backups) }).await;
    diagnose(&Seen {
        cluster,
        pods: pods.as_deref().map_err(ToString::to_string),
        claims: claims.as_deref().map_err(ToString::to_string),
        budgets: budgets.as_deref().map_err(ToString::to_string),
        services: services.as_deref().map_err(ToString::to_string),
        backups: backups.as_deref().map_err(ToString::to_string),
        now: Timestamp::now(),
    })
}

/// Adds what is to be said of clusters that cannot be read.
fn with(found: &Found, mut said: Said, screen: &Screen) -> Said {
    let troubles = found.said(String::new(), screen);
    said.talk.push_str(&troubles.talk);
    said.code = said.code.max(troubles.code);
    said
}

/// For programs, where that is asked for.
fn machine<T: Serialize>(
    kind: &'static str,
    items: &[T],
    printed: Printed,
) -> Result<Option<String>, Trouble> {
    written(&List::of(kind, items), printed)
}

/// For programs, where that is asked for.
pub fn written<T: Serialize>(value: &T, printed: Printed) -> Result<Option<String>, Trouble> {
    let output =
        |error: &dyn std::fmt::Display| Trouble::Output(std::io::Error::other(error.to_string()));
    match printed.output {
        Output::Text | Output::Wide => Ok(None),
        Output::Json => {
            let text = serde_json::to_string_pretty(value).map_err(|error| output(&error))?;
            Ok(Some(format!("{text}\n")))
        }
        Output::Yaml => serde_yaml::to_string(value)
            .map(Some)
            .map_err(|error| output(&error)),
    }
}
