//! From a backup to the first read, in the local cluster: the time of an EtcdRestore, less that of its two Jobs if they had nothing
//! to do, beside what a person would do by hand on this machine with the same data: download, `etcdutl`, start.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::house::{Etcd, House, noise};
use super::note;
use crate::bench::place::Place;
use crate::cluster::Target;
use crate::tools::run;

const API: &str = "/apis/etcd.etcd.io/v1alpha1";
/// Bytes of a value, and how many are written at once.
const VALUE: usize = 16 * 1024;
const WRITERS: u32 = 16;

/// Seconds of both.
pub(super) struct FirstRead {
    pub(super) restored: f64,
    pub(super) by_hand: f64,
}

/// Measures once, with so many MiB.
pub(super) fn measure(
    target: &Target,
    house: &House,
    version: &str,
    mebibytes: u32,
) -> Result<FirstRead> {
    let mut place = Place::new(target, "first-read")?;
    for (api, plural, object) in store() {
        place.post(api, plural, &object)?;
    }
    place.kubectl(&["wait", "pods/s3", "--for=condition=Ready", "--timeout=60s"])?;
    let more = json!({"storage": {"size": "6Gi", "claimPolicy": {"whenDeleted": "Delete"}}});
    place.create_cluster_with("c", 1, version, &more)?;
    wait(&mut place, "c", Instant::now())?;
    fill(&place, mebibytes)?;
    let backup = object(
        "EtcdBackup",
        &json!({"clusterName": "c", "storageType": "S3", "s3": bucket(&place.namespace)}),
    );
    place.post(API, "etcdbackups", &backup)?;
    completed(&place, "etcdbackups")?;

    let jobs = empty_job(&place, "one")? + empty_job(&place, "two")?;
    note("two empty Jobs, seconds", jobs);
    let spec = json!({
        "backupName": "b", "clusterName": "r",
        "clusterTemplate": {"size": 1, "version": format!("v{version}"), "storage": more.get("storage")},
    });
    let begun = Instant::now();
    place.post(API, "etcdrestores", &object("EtcdRestore", &spec))?;
    let restored = wait(&mut place, "r", begun)?;
    note("from the EtcdRestore to the first read, seconds", restored);
    let by_hand = by_hand(house, mebibytes)?;
    note("by hand, seconds", by_hand);
    Ok(FirstRead {
        restored: (restored - jobs).max(0.0),
        by_hand,
    })
}

fn object(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": kind, "metadata": {"name": "b"}, "spec": spec})
}

/// Seconds until a cluster of one member answers a linearizable read.
fn wait(place: &mut Place<'_>, cluster: &str, since: Instant) -> Result<f64> {
    let pod = format!("{cluster}-0");
    place.until(&format!("{pod} can be read"), since, |place| {
        let found = place.pods.objects.get(&pod);
        let member = found.and_then(|found| place.etcd.member(found));
        member.is_some_and(|member| place.etcd.run(member.read_linearizable()).is_ok())
    })
}

fn completed(place: &Place<'_>, plural: &str) -> Result<()> {
    let object = format!("{plural}.etcd.etcd.io/b");
    let done = "--for=jsonpath={.status.phase}=Completed";
    place.kubectl(&["wait", &object, done, "--timeout=300s"])
}

fn fill(place: &Place<'_>, mebibytes: u32) -> Result<()> {
    let pod = place.pods.objects.get("c-0").context("c has no pod")?;
    let member = place.etcd.member(pod).context("c-0 has no address")?;
    let values = u64::from(mebibytes) * (1 << 20) / u64::try_from(VALUE)?;
    place.etcd.run(async {
        let mut writers = tokio::task::JoinSet::new();
        for first in 0..u64::from(WRITERS) {
            let member = member.clone();
            writers.spawn(async move {
                for number in (first..values).step_by(usize::try_from(WRITERS)?) {
                    let key = format!("/bench/{number:08}");
                    member.put(key.as_bytes(), &noise(number)).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        Ok(())
    })
}

/// A Job of a pod that ends at once.
fn empty_job(place: &Place<'_>, name: &str) -> Result<f64> {
    let container = json!({"name": "nothing", "image": "localhost/busybox:1",
                           "imagePullPolicy": "Never", "command": ["/bin/busybox", "true"]});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                     "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}});
    let begun = Instant::now();
    place.post("/apis/batch/v1", "jobs", &job)?;
    let job = format!("jobs/{name}");
    place.kubectl(&["wait", &job, "--for=condition=Complete", "--timeout=60s"])?;
    Ok(begun.elapsed().as_secs_f64())
}

fn bucket(namespace: &str) -> Value {
    json!({"bucket": "backups", "allowHTTP": true, "endpoint": format!("http://s3.{namespace}.svc:7070"),
           "accessKeySecret": "s3", "secretKeySecret": "s3"})
}

/// An S3 server with one bucket, and what it knows its clients by.
fn store() -> [(&'static str, &'static str, Value); 3] {
    let meta = json!({"name": "s3", "labels": {"app": "s3"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta,
                        "stringData": {"access-key": "keeper", "secret-key": "testtest"}});
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {
        "initContainers": [{
            "name": "bucket", "image": "localhost/busybox:1", "imagePullPolicy": "Never",
            "command": ["/bin/busybox", "mkdir", "-p", "/data/objects/backups", "/data/meta"],
            "volumeMounts": mounts}],
        "containers": [{
            "name": "s3", "image": "localhost/versitygw:1.8.0", "imagePullPolicy": "Never",
            "command": ["/usr/local/bin/versitygw", "--port", ":7070", "posix", "--sidecar", "/data/meta", "/data/objects"],
            "env": [{"name": "ROOT_ACCESS_KEY", "value": "keeper"}, {"name": "ROOT_SECRET_KEY", "value": "testtest"}],
            "readinessProbe": {"tcpSocket": {"port": 7070}, "periodSeconds": 1},
            "volumeMounts": mounts}],
        "volumes": [{"name": "data", "emptyDir": {}}]}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": meta,
                         "spec": {"selector": {"app": "s3"}, "ports": [{"port": 7070}]}});
    [
        ("/api/v1", "secrets", secret),
        ("/api/v1", "pods", pod),
        ("/api/v1", "services", service),
    ]
}

/// Download, `etcdutl snapshot restore`, and etcd until it can be read.
fn by_hand(house: &House, mebibytes: u32) -> Result<f64> {
    let etcd = Etcd::alone(house)?;
    etcd.fill(mebibytes)?;
    let object = house.store_raw(&etcd, "by-hand")?;
    drop(etcd);
    let (file, data) = (house.path("by-hand.db"), house.path("by-hand"));
    let begun = Instant::now();
    run(Command::new("curl")
        .args(["--fail", "--silent", "--show-error"])
        .args([
            "--aws-sigv4",
            "aws:amz:us-east-1:s3",
            "--user",
            "test:testtest",
        ])
        .arg("--output")
        .arg(&file)
        .arg(house.url(&object))
        .stdin(Stdio::null()))?;
    run(Command::new(house.etcdutl())
        .args(["snapshot", "restore"])
        .arg(&file)
        .arg("--data-dir")
        .arg(&data))?;
    let etcd = Etcd::restored(house, &data)?;
    let seconds = begun.elapsed().as_secs_f64();
    drop(etcd);
    std::fs::remove_file(file)?;
    house.clear()?;
    Ok(seconds)
}
