//! What a lost quorum leaves behind, and what is asked of it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gate::{Action, Identity, Report, State};
use serde_json::{Value, json};

use crate::{
    etcd::{Member, Status},
    support::{Pod, Process, UID, await_some, request},
};

/// How far a recovery raises the revision.
pub(crate) const BUMP: u64 = 1_000_000;

/// Three members that know each other, started without a gate.
pub(crate) struct Three {
    pub(crate) members: [Member; 3],
    processes: Vec<Process>,
}

impl Three {
    pub(crate) fn new(etcd: &Path) -> Self {
        let mut three = Self {
            members: ["m0", "m1", "m2"].map(|name| Member::new(etcd, name)),
            processes: Vec::new(),
        };
        three.start();
        three
    }

    /// Grown as the operator does it: one bootstraps, the others are added at once, as learners, and promoted.
    pub(crate) fn grown(etcd: &Path) -> Self {
        let members = ["m0", "m1", "m2"].map(|name| Member {
            more: vec!["--max-learners=8".to_owned()],
            ..Member::new(etcd, name)
        });
        let mut processes = Vec::new();
        let [first, rest @ ..] = &members;
        processes.push(start(first, &first.initial_cluster(), "new"));
        first.await_serving();
        let mut ids = Vec::new();
        for member in rest {
            let url = format!("http://127.0.0.1:{}", member.peer);
            let body = json!({"peerURLs": [url], "isLearner": true});
            let added = first.call("cluster/member/add", &body);
            ids.push(added["member"]["ID"].clone());
        }
        let all = members.each_ref().map(Member::initial_cluster).join(",");
        for member in rest {
            processes.push(start(member, &all, "existing"));
            let learns = "GET /health?serializable=true";
            await_some("the learner", || request(member.client, learns, ""));
        }
        for id in ids {
            let body = json!({"ID": id}).to_string();
            await_some("the promotion", || {
                let asked = request(first.client, "POST /v3/cluster/member/promote", &body);
                asked.filter(|(_, answer)| answer.contains("members"))
            });
        }
        Self { members, processes }
    }

    pub(crate) fn start(&mut self) {
        let all = self
            .members
            .each_ref()
            .map(Member::initial_cluster)
            .join(",");
        for member in &self.members {
            self.processes.push(start(member, &all, "new"));
        }
        for member in &self.members {
            member.await_serving();
        }
    }

    /// Ends them all at once, in good order or not.
    pub(crate) fn stop(&mut self, signal: &str) {
        for process in &self.processes {
            process.signal(signal);
        }
        for process in self.processes.drain(..) {
            process.await_exit();
        }
    }

    /// A follower, and who it is.
    pub(crate) fn follower(&self) -> (usize, Status) {
        let place = self.members.iter().position(|member| {
            let status = member.call("maintenance/status", &json!({}));
            status["leader"] != status["header"]["member_id"]
        });
        let place = place.unwrap();
        (place, self.members[place].status())
    }

    /// One of them alone, behind a fence; the others are gone for good.
    pub(crate) fn leave(self, place: usize) -> Member {
        Self::alone(self.members.into_iter().nth(place).unwrap())
    }

    pub(crate) fn alone(mut member: Member) -> Member {
        member.pod.write_identity(&Identity {
            cluster_uid: UID.into(),
            incarnation: 1,
            nonce: "n".into(),
            pod: None,
            member_id: None,
            cluster_id: None,
            transport: None,
        });
        member.raise_fence();
        member
    }
}

fn start(member: &Member, initial_cluster: &str, state: &str) -> Process {
    let mut command = Command::new(&member.etcd);
    command
        .args(member.flags())
        .arg(format!("--data-dir={}", member.data().display()))
        .arg(format!("--initial-cluster={initial_cluster}"))
        .arg(format!("--initial-cluster-state={state}"))
        .arg(format!("--initial-cluster-token={UID}-1"))
        .stdin(Stdio::null())
        .stderr(fs::File::create(member.pod.path("log")).unwrap());
    Process::spawn(command)
}

impl Member {
    pub(crate) fn data(&self) -> PathBuf {
        self.pod.volume().join("data")
    }

    /// The second incarnation begins.
    pub(crate) fn raise_fence(&mut self) {
        self.pod.fence = Some("2".into());
        self.pod.incarnation = 2;
        self.pod.annotate("");
    }

    /// Permission to bootstrap another cluster from exactly this data.
    pub(crate) fn recover(&self, old: &Status) -> Action {
        Action::Recover {
            token: self.pod.token(),
            initial_cluster: self.initial_cluster(),
            member_id: old.member_id.clone(),
            cluster_id: old.cluster_id.clone(),
            bump_revision: BUMP,
        }
    }

    /// An agent that is killed with all its children.
    pub(crate) fn start_group(&self) -> Process {
        let mut command = self.pod.command(&self.etcd, &self.flags());
        command.process_group(0);
        Process::spawn(command)
    }

    /// Waits behind the fence and is granted a recovery.
    pub(crate) fn grant_recovery(&self, old: &Status) -> Report {
        let report = self.pod.await_state(State::Fenced);
        self.pod.grant(&report.nonce, self.recover(old));
        report
    }

    /// Puts a key; the revision afterwards.
    pub(crate) fn put(&self, key: &str, value: &str) -> u64 {
        let body = json!({"key": encode(key), "value": encode(value)});
        number(&self.call("kv/put", &body)["header"]["revision"])
    }

    /// All keys with their values, as etcd tells them.
    pub(crate) fn keys(&self) -> BTreeMap<String, String> {
        let range = self.call("kv/range", &json!({"key": "AA==", "range_end": "AA=="}));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pairs = range["kvs"].as_array().unwrap().iter();
        pairs
            .map(|pair| (text(&pair["key"]), text(&pair["value"])))
            .collect()
    }

    pub(crate) fn revision(&self) -> u64 {
        number(&self.call("kv/range", &json!({"key": "AA=="}))["header"]["revision"])
    }

    /// Serves on new data: another cluster, and the old data lies aside as it was.
    pub(crate) fn assert_recovered(&self, old: &Status, report: &Report, files: &Files) -> Status {
        self.await_serving();
        let new = self.status();
        assert_ne!(new.cluster_id, old.cluster_id);
        assert_ne!(new.member_id, old.member_id);
        let list = self.call("cluster/member/list", &json!({}));
        assert_eq!(list["members"].as_array().unwrap().len(), 1, "{list}");
        let identity = self.pod.identity();
        assert_eq!(identity.incarnation, 2);
        assert_eq!(identity.nonce, report.nonce);
        assert_eq!(
            (identity.member_id.as_ref(), identity.cluster_id.as_ref()),
            (Some(&new.member_id), Some(&new.cluster_id))
        );
        let aside = self.pod.volume().join(format!("aside-{}", report.nonce));
        assert_eq!(&Files::read(&aside.join("member")), files);
        assert!(aside.join("identity.json").exists());
        assert_eq!(self.leftovers(), Vec::<String>::new());
        new
    }

    /// Directories of recoveries.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.pod.volume()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("recover-")).collect()
    }
}

/// Every file below a directory, with its contents.
#[derive(PartialEq, Eq)]
pub(crate) struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes = self.0.iter().map(|(path, bytes)| (path, bytes.len()));
        f.debug_map().entries(sizes).finish()
    }
}

impl Files {
    pub(crate) fn read(directory: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut directories = vec![directory.to_owned()];
        while let Some(next) = directories.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let name = path.strip_prefix(directory).unwrap().to_owned();
                    files.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        Self(files)
    }
}

/// etcd and etcdutl behind scripts that can be held up. The scripts see the environment that the agent
/// gives, which is empty.
pub(crate) struct Tools {
    directory: PathBuf,
}

impl Tools {
    pub(crate) fn new(pod: &Pod, etcd: &Path) -> Self {
        let directory = pod.path("bin");
        fs::create_dir(&directory).unwrap();
        let tools = Self { directory };
        let (at, etcdutl) = (tools.directory.display(), etcd.with_file_name("etcdutl"));
        let hold = |point: &str| {
            format!(
                "env >{at}/{point}.env; touch {at}/{point}.at; while [ -e {at}/{point}.hold ]; do sleep 0.01; done"
            )
        };
        let forced = format!(
            "case \" $* \" in *force-new-cluster*) {};; esac\nexec {} \"$@\"",
            hold("replay"),
            etcd.display()
        );
        tools.write("etcd", &forced);
        let restore = format!(
            "{}\n{} \"$@\" || exit\n{}",
            hold("restore"),
            etcdutl.display(),
            hold("restored")
        );
        tools.write("etcdutl", &restore);
        tools
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn write(&self, name: &str, script: &str) {
        // Written elsewhere first: a file that is open for writing cannot be executed.
        let new = self.path("new");
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    /// Holds up the process that reaches this point.
    pub(crate) fn hold(&self, point: &str) {
        fs::write(self.path(&format!("{point}.hold")), "").unwrap();
    }

    pub(crate) fn release(&self, point: &str) {
        fs::remove_file(self.path(&format!("{point}.hold"))).unwrap();
    }

    pub(crate) fn await_point(&self, point: &str) {
        let path = self.path(&format!("{point}.at"));
        await_some(point, || path.exists().then_some(()));
    }
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Base64, as the JSON gateway wants keys and values.
pub(crate) fn encode(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap();
            let is_padding = place > u32::try_from(chunk.len()).unwrap();
            encoded.push(if is_padding {
                '='
            } else {
                char::from(DIGITS[digit])
            });
        }
    }
    encoded
}
