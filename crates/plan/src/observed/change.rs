//! What the members run on, and what is asked for.

use api::names::Scheme;
use api::{Plane, Transport};

use super::{Latched, Observed, Pod, Proven};

impl Latched {
    /// Another template is proven: this is its transport, and each plane remembers where the other members still are.
    pub(crate) fn with_transport(self, to: Transport) -> Self {
        let from = self.transport.unwrap_or_default();
        let everywhere = self.proven.as_ref().is_some_and(|it| it.everywhere);
        let before = self.transport_before.filter(|_| !everywhere);
        let plane = |from: Plane, to: Plane, before: Option<Plane>| {
            if from == to {
                before.unwrap_or(to)
            } else {
                from
            }
        };
        let before = Transport {
            client: plane(from.client, to.client, before.map(|it| it.client)),
            peer: plane(from.peer, to.peer, before.map(|it| it.peer)),
        };
        Self {
            transport: Some(to),
            transport_before: (before != to).then_some(before),
            switches: self.switches.saturating_add(u64::from(from != to)),
            ..self
        }
    }
}

impl Observed {
    /// The transport of a template: of the one that is to run next, or of a pod that was made from it.
    pub(crate) fn transport_of(&self, template: &str) -> Transport {
        let target = self.cluster.target.as_ref();
        let target = target.filter(|target| target.template == template);
        let mut pods = self.pods.values();
        let pod = pods.find(|pod| pod.template == template);
        let known = target.map(|target| target.intent.tls.transport);
        known
            .or_else(|| pod.map(|pod| pod.transport))
            .unwrap_or_else(|| self.runs())
    }

    /// The members are to go to another transport.
    pub(crate) fn is_switching(&self) -> bool {
        self.transport() != self.runs()
    }

    /// What a rollout changes of the transport, for a sentence: ` (clients: plaintext and TLS, before: plaintext)`; empty where
    /// it changes nothing of that.
    pub(crate) fn describe_switch(&self) -> String {
        let (to, runs) = (self.transport(), self.runs());
        let before = self.cluster.latched.transport_before;
        let plane = |whose: &str, to: Plane, runs: Plane, before: Option<Plane>| {
            let from = before.filter(|_| to == runs).unwrap_or(runs);
            let name = |plane| match plane {
                Plane::Plain => "plaintext",
                Plane::Both if whose == "peers" => "plaintext with certificates",
                Plane::Both => "plaintext and TLS",
                Plane::Tls => "TLS",
            };
            (from != to).then(|| format!("{whose}: {}, before: {}", name(to), name(from)))
        };
        let planes = [
            plane(
                "clients",
                to.client,
                runs.client,
                before.map(|it| it.client),
            ),
            plane("peers", to.peer, runs.peer, before.map(|it| it.peer)),
        ];
        let said: Vec<String> = planes.into_iter().flatten().collect();
        if said.is_empty() {
            String::new()
        } else {
            format!(" ({})", said.join("; "))
        }
    }

    /// The schemes on which every member serves clients.
    pub(crate) fn client_schemes(&self) -> Vec<Scheme> {
        let pods = || self.pods.values().filter(|pod| !pod.terminating);
        let serves =
            |scheme: &Scheme| pods().all(|pod| pod.transport.client.served().contains(scheme));
        let some = pods().next().is_some();
        let mut schemes = self.runs().client.served().to_vec();
        if some {
            schemes = [Scheme::Http, Scheme::Https]
                .into_iter()
                .filter(serves)
                .collect();
        }
        schemes
    }

    /// Where pods are that do not have this transport, plane by plane.
    pub(crate) fn other_transport(&self, than: Transport) -> Option<Transport> {
        let other = |than: Plane, of: fn(&Transport) -> Plane| {
            let mut planes = self.pods.values().map(|pod| of(&pod.transport));
            planes.find(|plane| *plane != than).unwrap_or(than)
        };
        let other = Transport {
            client: other(than.client, |transport| transport.client),
            peer: other(than.peer, |transport| transport.peer),
        };
        (other != than).then_some(other)
    }

    /// What is proven and what is asked for, once there is a cluster.
    pub(crate) fn goal(&self) -> Option<(&Proven, &str)> {
        let target = self.cluster.target.as_ref()?;
        let latched = &self.cluster.latched;
        let proven = latched
            .proven
            .as_ref()
            .filter(|_| latched.cluster_id.is_some())?;
        Some((proven, &target.template))
    }

    /// Members run on something else than is asked for, or a member tries it. What was called off is waited for until a person
    /// changes it.
    pub fn is_changing(&self) -> bool {
        let Some((proven, target)) = self.goal() else {
            return false;
        };
        let target = if self.is_called_off(target) {
            &proven.template
        } else {
            target
        };
        let differs = |pod: &Pod| pod.template != target;
        proven.template != target
            || !proven.everywhere
            || self.cluster.latched.trial().is_some()
            || self.pods.values().any(differs)
    }

    /// No member is seen to have data that the target's minor version cannot read: what etcd had prepared may have been undone.
    pub(crate) fn may_be_read(&self, proven: &Proven) -> bool {
        let Some(target) = &self.cluster.target else {
            return true;
        };
        let (from, to) = (proven.version.minor, target.intent.version.minor);
        let mut formats = self.pods.values().filter_map(|pod| {
            let serving = pod.serving()?;
            let newer = serving.version.is_some_and(|version| version.minor > to);
            serving.storage.filter(|_| newer || from < to)
        });
        from == to || formats.all(|format| format <= to && to <= format.saturating_add(1))
    }
}
