//! What an operator sees of the world, and what it fails to see.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::intent::InvalidSpec;
use api::{ClusterIntent, EtcdClusterSpec, EtcdClusterStatus};
use plan::Observed;
use plan::observed::{
    Claim, Cluster, Etcd, Latched, MemberList, Objects, Pod, Process, Serving, Wish,
};
use plan::shape::decide_shape;
use plan::target::{Target, decide_target, keep_in_force};

use crate::intent::{intent, newest};
use crate::world::refuse::wish;
use crate::world::{self, Container, NAME, NAMESPACE, Set, World};

/// One look: what was seen, and the version of the object it was seen at.
#[derive(Clone, Debug)]
pub struct Look {
    /// What was seen.
    pub observed: Observed,
    /// The status at that time.
    pub status: EtcdClusterStatus,
    /// The object's resourceVersion at that time.
    pub revision: u64,
    /// The StatefulSet's resourceVersion at that time.
    pub set_revision: Option<u64>,
    /// Objects that are not as they should be.
    pub wishes: Vec<Wish>,
}

/// What cannot be seen.
#[derive(Clone, Debug, Default)]
pub struct Blind {
    /// Pods that do not answer.
    pub pods: BTreeSet<u32>,
    /// The member list cannot be had.
    pub list: bool,
}

thread_local! {
    /// The last targets. A template is rendered for each, which takes longer than all the rest of a look.
    static TARGETS: RefCell<VecDeque<(ClusterIntent, Latched, Target)>> = const { RefCell::new(VecDeque::new()) };
}

/// As `decide_target` says, which looks at no more of the memory than this.
pub(crate) fn target_of(intent: &ClusterIntent, latched: &Latched) -> Target {
    let asked = Latched {
        storage: latched.storage,
        proven: latched.proven.clone(),
        cluster_id: latched.cluster_id.map(|_| 1),
        transport: latched.transport,
        transport_before: latched.transport_before,
        ..Latched::default()
    };
    TARGETS.with_borrow_mut(|known| {
        let before = known.iter().find(|k| (&k.0, &k.1) == (intent, &asked));
        if let Some((_, _, target)) = before {
            return target.clone();
        }
        let target = decide_target(intent, latched);
        known.push_front((intent.clone(), asked, target.clone()));
        known.truncate(8);
        target
    })
}

impl World {
    /// Looks at everything.
    pub fn look_around(&self, blind: &Blind) -> Look {
        let mut observed = Observed {
            now: self.now,
            cluster: self.observe_cluster(),
            objects: Objects {
                replicas: self.own_set().map(|set| set.replicas),
                created: u32::try_from(self.pods.len()).ok(),
                template: self.own_set().map(|set| set.template.hash.clone()),
                kept_template: self
                    .own_set()
                    .and_then(|set| Some(set.kept.as_ref()?.hash.clone())),
                fence: self.own_set().and_then(|set| set.template.fence),
                set_uid: self.own_set().map(|set| set.uid.clone()),
                claim_template: self.own_set().map(|set| set.storage << 30),
                predecessor: self.own_set().is_some_and(|set| set.template.ungated),
                client_service: self
                    .small
                    .get("client")
                    .is_some_and(|s| s.0 == self.object.uid),
                former: self.former(),
                ..Objects::default()
            },
            claims: self.observe_claims(),
            pods: self.observe_pods(blind),
            node_bindings: self.observe_node_bindings(),
            etcd: Etcd::default(),
            certificates: self.observe_certificates(),
            failed: Vec::new(),
            recreated: BTreeMap::new(),
            not_created: BTreeMap::new(),
            backups: plan::observed::Backups {
                read: self.upkeep.read.clone(),
                newest: None,
                damaged: BTreeSet::new(),
            },
            restore: self.observe_restore(),
            indexes_recorded: None,
        };
        observed.recall();
        let seen = !blind.list && plan::cluster::has_answers(&observed);
        let list = self.observe_list().filter(|_| seen);
        let asked = list.as_ref().map(|list| list.cluster_id);
        observed.etcd.auth = asked.map(|id| self.observe_auth(id)).unwrap_or_default();
        self.prove(&mut observed, list.as_ref());
        self.observe_hashes(&mut observed);
        let wishes = self.wishes(&observed);
        observed.objects.drifted.clone_from(&wishes);
        Look {
            observed,
            status: self.object.status.clone(),
            revision: self.object.revision,
            set_revision: self.own_set().map(|set| set.revision),
            wishes,
        }
    }

    fn observe_cluster(&self) -> Cluster {
        let known = plan::status::of_object(&self.object.status, &self.object.uid);
        let latched = plan::status::latched(&known.cloned().unwrap_or_default());
        let wanted = self.intent();
        let (intent, target) = if self.object.invalid {
            let (spec, invalid) = (EtcdClusterSpec::default(), InvalidSpec::Size(4));
            let replicas = self.own_set().map(|set| set.replicas);
            let kept = keep_in_force(&spec, (&latched, replicas), &invalid);
            let intent = kept.as_ref().map(|kept| kept.intent.clone());
            (intent.ok_or(invalid), kept)
        } else {
            let target = target_of(&wanted, &latched);
            (Ok(wanted), Some(target))
        };
        Cluster {
            name: NAME.to_owned(),
            namespace: NAMESPACE.to_owned(),
            uid: self.object.uid.clone(),
            generation: self.object.generation,
            deleting: false,
            held_by_predecessor: false,
            paused: self.object.paused,
            recover: self.object.recover,
            unavailable_since: known.and_then(plan::status::unavailable_since),
            recalled: false,
            target,
            intent,
            latched,
        }
    }

    /// What the spec asks for.
    pub fn intent(&self) -> ClusterIntent {
        let mut intent = intent(self.object.size, self.object.minor);
        intent.allow_intermediate = self.object.walk;
        intent.on_quorum_loss = self.object.on_quorum_loss;
        intent.on_everything_lost = self.object.on_everything_lost;
        intent.join_patience = self.join_patience.unwrap_or(intent.join_patience);
        intent.restarted_at = (self.object.edit > 0).then(|| self.object.edit.to_string());
        intent.storage.size = api::Quantity(format!("{}Gi", self.object.storage));
        intent.storage.bytes = self.object.storage << 30;
        intent.storage.when_stopped = self.object.when_stopped;
        intent.storage.when_scaled = self.object.when_scaled;
        intent.tls.transport = self.asked_transport();
        intent.tls.live_switch = self.object.live_switch;
        intent.tls.source = self.source();
        intent.tls.trust = self.told_generation();
        intent.tls.rotate.clone_from(&self.object.rotate);
        intent.auth = self.object.auth;
        let root = self.people.declared.root.as_ref();
        intent.root_password = root.map(|wish| wish.secret.clone());
        intent.tls.locked = self.object.auth == Some(true) || self.has_auth();
        self.upkeep_intent(&mut intent);
        intent
    }

    pub(super) fn own_set(&self) -> Option<&Set> {
        self.set.as_ref().filter(|set| set.owner == self.object.uid)
    }

    /// What an earlier object of this name still owns.
    fn former(&self) -> Vec<String> {
        let uid = &self.object.uid;
        let small = self.small.iter().filter(|(_, (owner, _))| owner != uid);
        let set = self.set.iter().filter(|set| set.owner != *uid);
        let pods = self.pods.iter().filter(|(_, pod)| pod.owner != *uid);
        // A claim that goes with its owner, though it still carries that owner's label.
        let claims = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.terminating && claim.cluster_uid != *uid);
        small
            .map(|(name, _)| (*name).to_owned())
            .chain(set.map(|_| "statefulset".to_owned()))
            .chain(pods.map(|(ordinal, _)| format!("pod {ordinal}")))
            .chain(claims.map(|(ordinal, _)| format!("claim {ordinal}")))
            .collect()
    }

    fn observe_claims(&self) -> BTreeMap<u32, Claim> {
        let seen = self.claims.iter().map(|(ordinal, claim)| {
            let ours = claim.cluster_uid == self.object.uid;
            (
                *ordinal,
                Claim {
                    uid: claim.uid.clone(),
                    ours,
                    terminating: claim.terminating,
                    requested: Some(claim.requested << 30),
                    capacity: Some(claim.capacity << 30),
                    expandable: Some(self.expandable),
                    class: None,
                    lost: None,
                    lineage: api::Lineage::parse(&claim.lineage),
                },
            )
        });
        seen.collect()
    }

    fn observe_pods(&self, blind: &Blind) -> BTreeMap<u32, Pod> {
        let seen = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.owner == self.object.uid);
        seen.map(|(ordinal, pod)| {
            let process = if blind.pods.contains(ordinal) {
                Process::Unknown
            } else {
                let instead = self.found_instead(*ordinal);
                instead.unwrap_or_else(|| self.process(pod))
            };
            let seen = Pod {
                uid: pod.uid.clone(),
                created: pod.created,
                scheduled: pod.node.is_some(),
                resolvable: !matches!(pod.container, Container::Down),
                terminating: pod.terminating,
                ready: matches!(&process, Process::Serving(s) if s.reads == Some(true)),
                problem: self.stands_in_its_way(*ordinal, pod),
                broken: self.ends_again(*ordinal, pod),
                outdated: self
                    .own_set()
                    .is_some_and(|set| set.template.hash != pod.template.hash),
                template: pod.template.hash.clone(),
                transport: pod.template.transport,
                trust: pod.template.trust,
                refreshed: pod.refreshed.clone(),
                debug: false,
                told_removed: pod.told_removed.clone(),
                grant: pod.grant.clone(),
                told: pod.told,
                fence: pod.template.fence,
                received: self.received(*ordinal, &process),
                process,
                stranger: None,
                stall: None,
            };
            (*ordinal, seen)
        })
        .collect()
    }

    pub(super) fn process(&self, pod: &world::Pod) -> Process {
        let process = match &pod.container {
            Container::Down => return Process::Unknown,
            Container::Waiting(report) => return Process::Held(report.clone()),
            Container::Etcd(process) => process,
        };
        if !process.serving {
            return Process::Starting;
        }
        if self.is_busy(process.member) {
            return Process::Unknown;
        }
        if self.distrusts_us(process, pod) {
            return Process::Refusing("tls: unknown certificate authority".to_owned());
        }
        if self.turns_away(process.cluster, pod) {
            return Process::Refusing("etcd does not know who asks".to_owned());
        }
        let log = self.log_of(process.cluster, process.member);
        let cluster = self.clusters.get(&process.cluster);
        let leader = cluster.and_then(|cluster| cluster.leader);
        let heard = !self.is_cut_off(process.cluster, process.member);
        let data = self.claims.values().filter_map(|claim| claim.volume.data);
        let storage = data
            .filter(|data| (data.cluster, data.member) == (process.cluster, process.member))
            .map(|data| data.storage);
        Process::Serving(Serving {
            member_id: process.member,
            cluster_id: process.cluster,
            version: Some(newest(process.minor)),
            leader: process.followed.or(leader).filter(|_| heard).unwrap_or(0),
            raft_index: log,
            applied_index: log,
            errors: self.observe_alarms(),
            view: Some(process.view.iter().map(|member| member.id).collect()),
            reads: Some(self.has_quorum(process.cluster) && !process.hung && heard),
            // 3.5 does not tell.
            storage: storage.min().filter(|_| process.minor > 5),
            downgrade: cluster.and_then(|cluster| cluster.downgrade),
            space: self.observe_space(process, &pod.template.hash),
            hash: None,
        })
    }

    /// What the scheduler or the kubelet says.
    fn stands_in_its_way(&self, ordinal: u32, pod: &world::Pod) -> Option<String> {
        let cannot = pod.template.bad || pod.refuses;
        let cannot = cannot.then(|| "ImagePullBackOff: no such image".to_owned());
        let claim = self.claims.get(&ordinal);
        let full = claim.is_some_and(super::Claim::is_full);
        let full = full && matches!(pod.container, Container::Down) && !pod.frozen;
        let full = full.then(|| "no space left on device".to_owned());
        let ends = self.ends_again(ordinal, pod).or(full);
        cannot.or_else(|| Some(format!("CrashLoopBackOff: {}", ends?)))
    }

    /// etcd ends of its data whenever it starts.
    fn ends_again(&self, ordinal: u32, pod: &world::Pod) -> Option<String> {
        let claim = self.claims.get(&ordinal);
        let broken = claim.is_some_and(|claim| claim.volume.broken && claim.volume.data.is_some());
        let down = matches!(pod.container, Container::Down);
        (broken && down && !pod.frozen).then(|| "failed to open database".to_owned())
    }

    /// The list that a quorum confirms.
    fn observe_list(&self) -> Option<MemberList> {
        let (id, cluster) = self.clusters.iter().find(|(id, cluster)| {
            let mut members = cluster.members.iter();
            let serves = |id: u64, member| {
                let process = self.process_of(id, member);
                process.is_some_and(|p| p.serving && !p.hung)
            };
            self.has_quorum(**id) && members.any(|member| serves(**id, member.id))
        })?;
        Some(MemberList {
            cluster_id: *id,
            members: cluster.members.clone(),
        })
    }

    /// What is missing or not as it should be.
    fn wishes(&self, observed: &Observed) -> Vec<Wish> {
        let Some(shape) = decide_shape(observed) else {
            return Vec::new();
        };
        self.unwritten(observed, &shape)
            .iter()
            .map(|object| wish(object, &shape))
            .collect()
    }
}
