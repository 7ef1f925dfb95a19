//! Of schemes, trust and accounts: nothing where a world has none of them.

use api::certificates::{Record, Trust};
use api::{Plane, Transport};
use plan::observed::{Accounts, Latched};

use super::Code;
use crate::world::{Claim, Cluster, Pod, Process, World};

/// When a kubelet has surely heard of a Secret, and has brought it; and when all have, for a rotation.
const HEARD: i64 = 5;
const BROUGHT: i64 = 110;
const ALL_BROUGHT: i64 = 120;

fn rungs(transport: Transport) -> [u8; 2] {
    [transport.client, transport.peer].map(|plane| match plane {
        Plane::Plain => 0,
        Plane::Both => 1,
        Plane::Tls => 2,
    })
}

impl World {
    /// Something of it has TLS, or is to have some.
    pub(crate) fn is_locked(&self) -> bool {
        let asked = !self.asked_transport().is_plain();
        let mut pods = self.pods.values();
        asked || pods.any(|pod| !pod.template.transport.is_plain())
    }
}

impl Code<'_> {
    pub(super) fn locked(&mut self, latched: &Latched) {
        let world = self.world;
        self.put((
            latched.transport.map(rungs),
            latched.transport_before.map(rungs),
        ));
        self.put(latched.switches);
        if !world.is_locked() {
            return;
        }
        let object = &world.object;
        self.put((
            rungs(world.asked_transport()),
            object.live_switch,
            &object.rotate,
        ));
        self.put((object.auth, &latched.made.users, &latched.made.roles));
        let issued = &world.certificates;
        self.put(issued.made);
        for record in [&issued.authority, &issued.members, &issued.clients] {
            self.put(record.is_some());
            if let Some(record) = record {
                self.record(record);
            }
        }
    }

    fn record(&mut self, record: &Record) {
        self.put((&record.authorities, &record.asked));
        self.spans(record.issued_at.0, &[HEARD, BROUGHT]);
        let rotation = record.rotation.as_ref();
        self.put(rotation.map(|it| (it.pending, &it.previous, &it.asked, &it.revoked)));
        if let Some(Trust {
            authorities,
            generation,
            switched_at,
            stranded,
        }) = &record.trust
        {
            self.put((authorities, generation));
            self.put(stranded.as_ref().map(|it| it.below));
            match switched_at {
                Some(at) => self.spans(at.0, &[BROUGHT, ALL_BROUGHT]),
                None => self.put("others"),
            }
        }
    }

    /// What its kubelet was told to bring.
    pub(super) fn brought(&mut self, pod: &Pod) {
        self.put((rungs(pod.template.transport), pod.template.trust));
        let members = self.world.certificates.members.as_ref();
        let Some(members) = members.filter(|_| !pod.template.transport.is_plain()) else {
            return;
        };
        let issued = members.issued_at.0;
        self.put(pod.created > issued);
        let told = pod.refreshed.as_ref();
        let told = told.filter(|told| members.data.starts_with(&told.data));
        let heard = |at: i64| at.saturating_sub(issued.as_second()) >= HEARD;
        self.put(told.map(|told| heard(told.at)));
    }

    pub(super) fn trust(&mut self, process: &Process) {
        self.put(&process.trust);
    }

    pub(super) fn noted(&mut self, claim: &Claim) {
        let identity = claim.volume.identity.as_ref();
        self.put(identity.map(|identity| &identity.transport));
    }

    pub(super) fn accounts(&mut self, cluster: &Cluster) {
        let accounts = &cluster.accounts;
        if *accounts != Accounts::default() {
            self.put((accounts.enabled, &accounts.users));
            self.put(accounts.roles.keys().collect::<Vec<_>>());
        }
    }
}
