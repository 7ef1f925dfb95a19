//! What to run next on the way to what the spec asks for: the spec itself, or a release or a rung of the transport that lies
//! between. It follows from the spec and from what is recorded, never from who happens to answer.

use std::fmt;

use api::image::ImageIntent;
use api::intent::{InvalidSpec, MaintenanceIntent, TlsIntent};
use api::v1alpha1::cluster::{EtcdClusterSpec, OnEverythingLost, OnQuorumLoss, Retention};
use api::version::PathRefused;
use api::{ClusterIntent, EtcdVersion, Plane, Quantity, Transport};
use manifests::Template;

use crate::observed::{Latched, Proven};

/// What to run next.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The spec, on the release and the transport that come next.
    pub intent: ClusterIntent,
    /// The transport that is proven; before there is any, the one that comes next.
    pub runs: Transport,
    /// Hash of the pod template that follows.
    pub template: String,
    /// Why the release that the spec asks for cannot be reached; the members stay as they are.
    pub refused: Option<Refused>,
    /// Why the spec makes no sense. Then this is what is in force, and nothing is changed towards anything else.
    pub invalid: Option<InvalidSpec>,
}

/// Why what is asked for is not run next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The spec makes no sense, and so many members stay on a release.
    Invalid {
        /// Why it makes none.
        invalid: InvalidSpec,
        /// So many members.
        size: u32,
        /// The release.
        version: EtcdVersion,
    },
    /// The image is pinned, and a release lies between.
    Pinned {
        /// The release that runs.
        from: EtcdVersion,
        /// The release that is asked for.
        to: EtcdVersion,
        /// The release between.
        through: EtcdVersion,
    },
    /// etcd cannot go there at once.
    Path(PathRefused),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid {
                invalid,
                size,
                version,
            } => write!(
                out,
                "{invalid}; until that is corrected nothing is changed, and {size} members stay on v{version}"
            ),
            Self::Pinned { from, to, through } => write!(
                out,
                "the upgrade from v{from} to v{to} goes through v{through}, and the image is pinned by a tag or digest: go to v{through} first"
            ),
            Self::Path(refused) => refused.fmt(out),
        }
    }
}

impl Target {
    /// What a template is rendered from. A member that tries it is the first on another transport; wherever else one is
    /// rendered, as for a StatefulSet that vanished, all members may meet it, and have to find each other.
    pub fn rendered(&self, template: Template) -> ClusterIntent {
        let mut intent = self.intent.clone();
        match template {
            Template::Try => {}
            Template::Render | Template::Live | Template::Kept => intent.tls.transport = self.runs,
        }
        intent
    }
}

/// What is in force while a spec makes no sense: as many members as there are pods, on what they run on. No claim goes
/// by a policy, and nothing is given up without a person. `None` before there is a cluster, or where that is not known.
pub fn keep_in_force(
    spec: &EtcdClusterSpec,
    (latched, replicas): (&Latched, Option<u32>),
    invalid: &InvalidSpec,
) -> Option<Target> {
    let proven = latched.proven.as_ref();
    let proven = proven.filter(|_| latched.cluster_id.is_some())?;
    let mut intent = ClusterIntent::parse(&EtcdClusterSpec::default()).ok()?;
    intent.size = size_in_force(spec, latched, replicas)?;
    intent.version = proven.version;
    intent.tls = TlsIntent::of(spec);
    intent.tls.transport = transport_in_force(latched).unwrap_or_default();
    // Numbers, and what may be compacted, cannot be invalid.
    let recovery = spec.recovery.as_ref();
    if let Some(patience) = recovery.and_then(|recovery| recovery.node_patience_seconds) {
        intent.node_patience = i64::from(patience);
    }
    if let Some(patience) = recovery.and_then(|recovery| recovery.join_patience_seconds) {
        intent.join_patience = i64::from(patience);
    }
    intent.on_quorum_loss = OnQuorumLoss::Ask;
    intent.on_everything_lost = OnEverythingLost::Ask;
    intent.maintenance.defragment = false;
    if let Some(maintenance) = &spec.maintenance {
        intent.maintenance.history = MaintenanceIntent::history_of(maintenance);
    }
    // Volumes are as large as they are.
    intent.storage.bytes = latched.storage.unwrap_or(0);
    intent.storage.size = Quantity(intent.storage.bytes.to_string());
    intent.storage.when_stopped = Retention::Retain;
    intent.storage.when_scaled = Retention::Retain;
    intent.storage.when_deleted = Retention::Retain;
    Some(Target {
        template: proven.template.clone(),
        runs: intent.tls.transport,
        refused: Some(Refused::Invalid {
            invalid: invalid.clone(),
            size: intent.size,
            version: intent.version,
        }),
        intent,
        invalid: Some(invalid.clone()),
    })
}

/// Members are kept, not counted down: a StatefulSet that was scaled by hand takes no voter away, and only the owner's own 0
/// stops a cluster.
fn size_in_force(spec: &EtcdClusterSpec, latched: &Latched, replicas: Option<u32>) -> Option<u32> {
    if spec.size == Some(0) {
        return Some(0);
    }
    let voters = latched.voters.iter().filter_map(|voter| {
        let (_, ordinal) = voter.member.rsplit_once('-')?;
        ordinal.parse::<u32>().ok()?.checked_add(1)
    });
    let seen = replicas.or(latched.replicas).filter(|seen| *seen > 0);
    voters.max().max(seen)
}

/// The next target.
pub fn decide_target(intent: &ClusterIntent, latched: &Latched) -> Target {
    let mut wanted = intent.clone();
    wanted.storage.size_in_force = latched.storage;
    wanted.tls.transport = next_transport(intent, latched);
    let runs = transport_in_force(latched).unwrap_or(wanted.tls.transport);
    let proven = latched
        .proven
        .as_ref()
        .filter(|_| latched.cluster_id.is_some());
    let Some(proven) = proven else {
        return target(wanted, runs, None);
    };
    match reach(&wanted, proven) {
        Ok(intent) => target(intent, runs, None),
        Err(why) => {
            // Everything stays as it is; a StatefulSet that vanished comes back on the release that runs.
            wanted.tls.transport = runs;
            let stay = wanted.at_version(proven.version);
            let stay = stay.unwrap_or_else(|| unpinned(wanted, proven.version));
            let mut target = target(stay, runs, Some(why));
            target.template.clone_from(&proven.template);
            target
        }
    }
}

/// One rung at a time on each plane: every member has reached it before another one is begun. Only the way back to where the
/// others still are is open at any time.
fn next_transport(intent: &ClusterIntent, latched: &Latched) -> Transport {
    let asked = &intent.tls;
    let Some(runs) = transport_in_force(latched) else {
        return asked.transport;
    };
    let Some(proven) = &latched.proven else {
        return runs;
    };
    let goal = asked.goal(runs);
    let before = latched.transport_before;
    let plane = |runs: Plane, goal: Plane, before: Option<Plane>| {
        let next = runs.towards(goal);
        let open = proven.everywhere || before == Some(next);
        if open { next } else { runs }
    };
    Transport {
        client: plane(runs.client, goal.client, before.map(|it| it.client)),
        peer: plane(runs.peer, goal.peer, before.map(|it| it.peer)),
    }
}

/// The transport of the template that is proven. Members find each other as they were listed, so it stays until another one
/// was proven. `None` before it is settled.
fn transport_in_force(latched: &Latched) -> Option<Transport> {
    // What an earlier release formed has no record of it, and is plaintext.
    let formed = latched.cluster_id.map(|_| Transport::default());
    latched.transport.or(formed)
}

/// The release that runs, in the image that its version implies. What the image is pinned to is the release that was refused,
/// which must never meet the data; an image that does not exist harms nothing.
fn unpinned(wanted: ClusterIntent, version: EtcdVersion) -> ClusterIntent {
    ClusterIntent {
        version,
        image: ImageIntent {
            tag: None,
            digest: None,
            ..wanted.image.clone()
        },
        ..wanted
    }
}

/// What is asked for, at the next rung of the ladder that leads there; an error says why there is none.
fn reach(wanted: &ClusterIntent, proven: &Proven) -> Result<ClusterIntent, Refused> {
    let hop = next_version(wanted, proven)?;
    if hop == wanted.version {
        return Ok(wanted.clone());
    }
    wanted.at_version(hop).ok_or(Refused::Pinned {
        from: proven.version,
        to: wanted.version,
        through: hop,
    })
}

/// One release at a time: a minor version of etcd reaches every member before another one is begun. Only the way back to
/// where the others still are is open at any time.
fn next_version(wanted: &ClusterIntent, proven: &Proven) -> Result<EtcdVersion, Refused> {
    let (from, asked) = (proven.version, wanted.version);
    let before = proven.before.map(|before| before.minor);
    let in_play = asked.minor == from.minor || before == Some(asked.minor);
    if !proven.everywhere && !in_play {
        return Ok(from);
    }
    EtcdVersion::next_hop(from, asked, wanted.allow_intermediate).map_err(Refused::Path)
}

fn target(intent: ClusterIntent, runs: Transport, refused: Option<Refused>) -> Target {
    Target {
        template: manifests::template_hash(&intent),
        intent,
        runs,
        refused,
        invalid: None,
    }
}
