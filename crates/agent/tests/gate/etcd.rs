//! Real etcd binaries, and what a test asks of a running one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gate::{Action, State};
use serde_json::{Value, json};

use crate::{
    support::{Pod, Process, await_some, await_told, free_port, get, request, skipped},
    tls::Tls,
};

/// The binaries that `ETCD_BINARIES` names; none, said aloud, when it is unset.
pub(crate) fn binaries() -> Vec<PathBuf> {
    let Some(directory) = std::env::var_os("ETCD_BINARIES") else {
        skipped("ETCD_BINARIES is not set");
        return Vec::new();
    };
    let directory = Path::new(&directory);
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("ETCD_BINARIES={}: {error}", directory.display()))
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with('3'))
        .map(|entry| entry.path().join("etcd"))
        .collect();
    found.sort();
    assert!(
        !found.is_empty(),
        "ETCD_BINARIES={} holds no 3.*/etcd",
        directory.display()
    );
    for path in &found {
        assert!(path.is_file(), "{} is missing", path.display());
    }
    found
}

/// A pod that runs one etcd member.
pub(crate) struct Member {
    pub(crate) pod: Pod,
    pub(crate) etcd: PathBuf,
    pub(crate) name: &'static str,
    pub(crate) peer: u16,
    pub(crate) client: u16,
    /// Flags beside the usual ones.
    pub(crate) more: Vec<String>,
}

/// What a running member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) cluster_id: String,
    pub(crate) member_id: String,
    pub(crate) term: u64,
    pub(crate) index: u64,
}

impl Status {
    /// Permission to go on with exactly this data.
    pub(crate) fn resume(&self) -> Action {
        let (member_id, cluster_id) = (self.member_id.clone(), self.cluster_id.clone());
        Action::Resume {
            member_id,
            cluster_id,
        }
    }
}

impl Member {
    pub(crate) fn new(etcd: &Path, name: &'static str) -> Self {
        let (peer, client) = (free_port(), free_port());
        Self {
            pod: Pod::new(),
            etcd: etcd.into(),
            name,
            peer,
            client,
            more: Vec::new(),
        }
    }

    /// The flags a manifest would give: all but those that are the gate's.
    pub(crate) fn flags(&self) -> Vec<String> {
        let (peer, client, scheme) = (self.peer, self.client, self.scheme());
        let (metrics, tls) = (self.pod.port, &self.pod.tls);
        let secure = tls.iter().map(Tls::metrics_url);
        let metrics: String = [format!("http://127.0.0.1:{metrics}")]
            .into_iter()
            .chain(secure)
            .collect::<Vec<_>>()
            .join(",");
        vec![
            format!("--name={}", self.name),
            format!("--listen-peer-urls={scheme}://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls={scheme}://127.0.0.1:{peer}"),
            format!("--listen-client-urls={scheme}://127.0.0.1:{client}"),
            format!("--advertise-client-urls={scheme}://127.0.0.1:{client}"),
            format!("--listen-metrics-urls={metrics}"),
        ]
        .into_iter()
        .chain(tls.iter().flat_map(|_| Tls::flags(&self.pod)))
        .chain(self.more.iter().cloned())
        .collect()
    }

    /// Of the URLs that members and clients use.
    pub(crate) fn scheme(&self) -> &'static str {
        self.pod.tls.as_ref().map_or("http", |_| "https")
    }

    pub(crate) fn start(&self) -> Process {
        self.pod.start(&self.etcd, &self.flags())
    }

    pub(crate) fn initial_cluster(&self) -> String {
        format!("{}={}", self.name, self.peer_url())
    }

    pub(crate) fn peer_url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme(), self.peer)
    }

    pub(crate) fn bootstrap(&self, discard: bool) -> Action {
        let (token, initial_cluster) = (self.pod.token(), self.initial_cluster());
        Action::Bootstrap {
            token,
            initial_cluster,
            discard,
        }
    }

    /// A member that was granted a bootstrap, holds one key and was then killed.
    pub(crate) fn bootstrapped(etcd: &Path) -> (Self, Status) {
        let member = Self::new(etcd, "m0");
        let process = member.found();
        let status = member.status();
        drop(process);
        (member, status)
    }

    /// Bootstraps and writes one key; the member is settled afterwards: nothing else enters its log.
    pub(crate) fn found(&self) -> Process {
        let process = self.start();
        let report = self.pod.await_state(State::Empty);
        self.pod.grant(&report.nonce, self.bootstrap(false));
        self.await_serving();
        await_some("a cluster version", || {
            let (_, version) = self.ask("GET /version", "")?;
            (!version.contains("not_decided")).then_some(())
        });
        self.call("kv/put", &json!({"key": "Zm9v", "value": "YmFy"}));
        process
    }

    pub(crate) fn await_serving(&self) {
        let log = || format!("etcd to serve\n{}", self.pod.log());
        await_told(&log, || {
            let (_, body) = get(self.pod.port, "/health")?;
            body.contains(r#""health":"true""#).then_some(())
        });
        assert_eq!(
            get(self.pod.port, "/gate").unwrap().0,
            404,
            "etcd answers in the gate's place"
        );
    }

    /// Waits until clients are served, on the port that they know.
    pub(crate) fn await_clients(&self) {
        await_some("clients to be served", || self.ask("GET /version", ""));
    }

    /// One request on the client port.
    fn ask(&self, head: &str, body: &str) -> Option<(u16, String)> {
        match &self.pod.tls {
            None => request(self.client, head, body),
            Some(tls) => tls.request(self.client, head, body).ok(),
        }
    }

    /// Adds a member that waits at its gate as a learner, and lets it join; its ID.
    pub(crate) fn invite(&self, other: &Self) -> u64 {
        let report = other.pod.await_state(State::Empty);
        let body = json!({"peerURLs": [other.peer_url()], "isLearner": true});
        let added = self.call("cluster/member/add", &body);
        let id = added["member"]["ID"].as_str().unwrap().parse().unwrap();
        let join = Action::Join {
            token: other.pod.token(),
            initial_cluster: format!("{},{}", self.initial_cluster(), other.initial_cluster()),
            member_id: format!("{id:x}"),
            cluster_id: self.status().cluster_id,
            discard: false,
        };
        other.pod.grant(&report.nonce, join);
        id
    }

    /// Calls etcd's JSON gateway.
    pub(crate) fn call(&self, method: &str, body: &Value) -> Value {
        self.try_call(method, body)
            .unwrap_or_else(|| panic!("{method} failed\n{}", self.pod.log()))
    }

    pub(crate) fn try_call(&self, method: &str, body: &Value) -> Option<Value> {
        let (status, text) = self.ask(&format!("POST /v3/{method}"), &body.to_string())?;
        (status == 200).then(|| serde_json::from_str(&text).unwrap())
    }

    /// Whether the key that was written is still there.
    pub(crate) fn has_key(&self) -> bool {
        self.call("kv/range", &json!({"key": "Zm9v"}))["count"] == "1"
    }

    pub(crate) fn status(&self) -> Status {
        let status = self.call("maintenance/status", &json!({}));
        let number = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
        Status {
            cluster_id: format!("{:x}", number(&status["header"]["cluster_id"])),
            member_id: format!("{:x}", number(&status["header"]["member_id"])),
            term: number(&status["raftTerm"]),
            index: number(&status["raftIndex"]),
        }
    }

    /// Puts the data where an earlier operator had it, and leaves nothing of ours.
    pub(crate) fn make_old(&self) {
        let volume = self.pod.volume();
        fs::remove_file(volume.join("member")).unwrap();
        fs::rename(volume.join("data/member"), volume.join("member")).unwrap();
        fs::remove_dir(volume.join("data")).unwrap();
        fs::remove_file(volume.join("identity.json")).unwrap();
    }

    /// The only WAL file of a young member.
    pub(crate) fn wal(&self) -> PathBuf {
        let name = "data/member/wal/0000000000000000-0000000000000000.wal";
        self.pod.volume().join(name)
    }
}
