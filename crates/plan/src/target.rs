//! What to run next on the way to what the spec asks for: the spec itself, or a release that lies between. It follows
//! from the spec and from what is written down, never from who happens to answer.

use api::{ClusterIntent, EtcdVersion};

use crate::observed::{Latched, Proven};

/// What to run next.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The spec, on the release that comes next.
    pub intent: ClusterIntent,
    /// Hash of the pod template that follows.
    pub template: String,
    /// Why the release that the spec asks for cannot be reached; the members stay as they are.
    pub refused: Option<String>,
}

/// The next target.
pub fn decide_target(intent: &ClusterIntent, latched: &Latched) -> Target {
    let mut wanted = intent.clone();
    wanted.storage.size_in_force = latched.storage;
    let proven = latched
        .proven
        .as_ref()
        .filter(|_| latched.cluster_id.is_some());
    let Some(proven) = proven else {
        return target(wanted, None);
    };
    match reach(&wanted, proven) {
        Ok(intent) => target(intent, None),
        Err(why) => {
            // Everything stays as it is; a StatefulSet that vanished comes back on the release that runs.
            let stay = wanted.at_version(proven.version).unwrap_or(wanted);
            let mut target = target(stay, Some(why));
            target.template.clone_from(&proven.template);
            target
        }
    }
}

/// One release at a time: a line of etcd reaches every member before another one is begun. Only the way back to where
/// the others still are is open at any time.
fn reach(wanted: &ClusterIntent, proven: &Proven) -> Result<ClusterIntent, String> {
    let (from, asked) = (proven.version, wanted.version);
    let in_play = asked.minor == from.minor
        || proven
            .before
            .is_some_and(|before| before.minor == asked.minor);
    let hop = if proven.everywhere || in_play {
        EtcdVersion::next_hop(from, asked, wanted.allow_intermediate)
            .map_err(|refused| refused.to_string())?
    } else {
        from
    };
    if hop == wanted.version {
        return Ok(wanted.clone());
    }
    wanted.at_version(hop).ok_or_else(|| {
        format!(
            "the way from v{from} to v{} leads through v{hop}, and the image is pinned by a tag or digest: go to v{hop} first",
            wanted.version
        )
    })
}

fn target(intent: ClusterIntent, refused: Option<String>) -> Target {
    Target {
        template: manifests::template_hash(&intent),
        intent,
        refused,
    }
}
