//! How the members of a formed cluster speak: the rung of each pod, the schemes that each is listed under, and how far the
//! cluster is on the ladder between plaintext and TLS.

use api::names::{self, Scheme};
use api::{ClusterIntent, Lineage, Plane, Transport};
use plan::Observed;
use plan::observed::{Certificates, Issued, format_id};
use plan::target::Target;

use super::{CLUSTER, Does, Listed, Scene, Slot, Trial, pod_uid};
use crate::scene::trust::{issued, record};
use crate::world::observe::target_of;
use crate::world::{NAME, NAMESPACE};

/// A member of the cluster, and its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// What its pod is made for; `None` where there is no pod.
    pub pod: Option<Plane>,
    /// etcd serves there; else it starts.
    pub serves: bool,
    /// It is listed for the others under plaintext.
    pub http: bool,
    /// It is listed for the others under TLS.
    pub https: bool,
}

/// A formed cluster, whose planes are on the same rung.
#[derive(Clone, Debug)]
pub struct Schemes {
    /// The rung that is proven.
    pub proven: Plane,
    /// Every member has reached it.
    pub everywhere: bool,
    /// The rung before, while some members are there.
    pub before: Option<Plane>,
    /// What the spec asks for.
    pub asked: Plane,
    /// Its owner said that members that run may be switched.
    pub consent: bool,
    /// How far the trial of the next rung by the first member got.
    pub trial: Option<Trial>,
    /// The certificates of the members are there.
    pub certified: bool,
    /// The member list could be had.
    pub list: bool,
    /// The claims record the proven rung.
    pub recorded: bool,
    /// The members.
    pub seats: Vec<Seat>,
}

/// The same rung on both planes.
pub fn rung(plane: Plane) -> Transport {
    Transport {
        client: plane,
        peer: plane,
    }
}

impl Schemes {
    fn size(&self) -> u32 {
        u32::try_from(self.seats.len()).unwrap_or(0)
    }

    fn intent(&self, asked: Plane) -> ClusterIntent {
        let mut intent = crate::intent::intent(self.size(), 6);
        intent.tls.transport = rung(asked);
        intent.tls.live_switch = self.consent;
        intent
    }

    /// Hash of the template of a rung.
    fn template(&self, plane: Plane) -> String {
        let mut latched = Scene::formed(self.size(), Vec::new())
            .observed()
            .cluster
            .latched;
        latched.transport = Some(rung(plane));
        let intent = ClusterIntent {
            tls: api::intent::TlsIntent {
                live_switch: true,
                ..self.intent(plane).tls
            },
            ..self.intent(plane)
        };
        target_of(&intent, &latched).template
    }

    fn scene(&self) -> Scene {
        let slots = self.seats.iter().map(|seat| match (seat.pod, seat.serves) {
            (None, _) => Slot::new(Does::Absent, Listed::Voter),
            (Some(_), true) => Slot::voter(),
            (Some(_), false) => Slot::new(Does::Starts, Listed::Voter),
        });
        Scene {
            list: self.list,
            ..Scene::formed(self.size(), slots.collect())
        }
    }

    /// The observation.
    pub fn observed(&self) -> Observed {
        let mut observed = self.scene().observed();
        observed.cluster.intent = Ok(self.intent(self.asked));
        let latched = &mut observed.cluster.latched;
        latched.transport = Some(rung(self.proven));
        latched.transport_before = self.before.map(rung);
        let proven = self.template(self.proven);
        if let Some(recorded) = &mut latched.proven {
            recorded.template.clone_from(&proven);
            recorded.everywhere = self.everywhere;
        }
        let target = target_of(&self.intent(self.asked), latched);
        self.stage(&mut observed, &proven, &target);
        observed.cluster.target = Some(target);
        self.seat(&mut observed);
        observed.certificates = self.certificates();
        observed
    }

    /// The StatefulSet, and the member that tries the next rung.
    fn stage(&self, observed: &mut Observed, proven: &str, target: &Target) {
        let trial = self.trial.filter(|_| target.template != proven);
        let written = matches!(trial, Some(Trial::Written | Trial::Remade));
        let objects = &mut observed.objects;
        objects.template = Some(if written {
            target.template.clone()
        } else {
            proven.to_owned()
        });
        objects.kept_template = written.then(|| proven.to_owned());
        observed.cluster.latched.disturbance = trial.map(|trial| {
            let remade = matches!(trial, Trial::Remade | Trial::Restored);
            let uid = pod_uid(0);
            plan::observed::Disturbance::Trial(api::v1alpha1::status::TrialIntent {
                member: names::member(NAME, 0),
                template: target.template.clone(),
                pod_uid: if remade { format!("former-{uid}") } else { uid },
            })
        });
    }

    fn seat(&self, observed: &mut Observed) {
        let live = observed.objects.template.clone().unwrap_or_default();
        for (ordinal, seat) in (0..).zip(&self.seats) {
            if let (Some(pod), Some(plane)) = (observed.pods.get_mut(&ordinal), seat.pod) {
                pod.transport = rung(plane);
                pod.template = self.template(plane);
                pod.outdated = pod.template != live;
            }
            if let Some(claim) = observed.claims.get_mut(&ordinal) {
                let runs = if self.recorded {
                    rung(self.proven)
                } else {
                    Transport::default()
                };
                claim.lineage = Some(Lineage {
                    incarnation: 1,
                    cluster_id: Some(format_id(CLUSTER)),
                    transport: runs,
                    ..Lineage::default()
                });
            }
        }
        let list = observed.etcd.members.as_mut();
        let members = list.into_iter().flat_map(|list| &mut list.members);
        for ((ordinal, seat), member) in (0..).zip(&self.seats).zip(members) {
            let schemes = [(Scheme::Http, seat.http), (Scheme::Https, seat.https)];
            let urls = schemes.into_iter().filter(|(_, listed)| *listed);
            let urls = urls.map(|(scheme, _)| names::peer_url(scheme, NAME, NAMESPACE, ordinal));
            member.peer_urls = urls.collect();
        }
    }

    fn certificates(&self) -> Certificates {
        if !self.certified {
            return Certificates {
                authority: Issued::Missing,
                members: Issued::Missing,
                clients: Issued::Missing,
                ..issued()
            };
        }
        let all = Issued::Recorded(record("a"));
        Certificates {
            authority: all.clone(),
            members: all.clone(),
            clients: all,
            ..issued()
        }
    }
}
