//! The same over S3, where `S3_SERVER` names a versitygw.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use archive::work::{Cause, Depth, Import, Keep, Store, Task};
use tokio::net::TcpStream;

use crate::damage::failed;
use crate::foreign::{brought, fetched, import, saved};
use crate::kit::{Bench, Process, VERSIONS, eventually, free_port, on_one_version, skipped, tools};
use crate::round::{made, verified, verify};

pub(crate) fn store(port: u16, bucket: &str) -> Store {
    Store::S3 {
        bucket: bucket.to_owned(),
        path: "backups".to_owned(),
        region: None,
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        path_style: true,
        allow_http: true,
        checksum: true,
    }
}

/// What the server knows its client by.
pub(crate) fn credentials(bench: &Bench) {
    let secrets = bench.directory.path().join("secrets");
    std::fs::write(secrets.join("access-key"), "test\n").unwrap();
    std::fs::write(secrets.join("secret-key"), "testtest").unwrap();
}

/// A server with one bucket.
pub(crate) async fn serve(server: &OsStr, objects: &Path, words: &[&str]) -> (u16, Process) {
    std::fs::create_dir(objects.join("bucket")).unwrap();
    let port = free_port();
    let child = Command::new(server)
        .env("ROOT_ACCESS_KEY", "test")
        .env("ROOT_SECRET_KEY", "testtest")
        .args(["--port", &format!("127.0.0.1:{port}")])
        .args(words)
        .arg("posix")
        .arg(objects)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let process = Process(child.unwrap());
    eventually(async || TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
    (port, process)
}

#[test]
fn a_base_goes_to_s3_and_back() {
    let Some(server) = std::env::var_os("S3_SERVER") else {
        return skipped("S3_SERVER is not set");
    };
    let Some(tools) = tools(VERSIONS[2]) else {
        return skipped("ETCD_BINARIES is not set");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let objects = tempfile::tempdir().unwrap();
        let (port, _server) = serve(&server, objects.path(), &[]).await;

        let bench = Bench::new(tools).await;
        bench.fill(7000).await;
        let secrets = bench.directory.path().join("secrets");
        std::fs::write(secrets.join("access-key"), "test\n").unwrap();
        std::fs::write(secrets.join("AWS_SECRET_ACCESS_KEY"), "testtest").unwrap();
        let run = async |task| bench.run_with(store(port, "bucket"), task).await;
        let mut task = bench.snapshot("a");
        let first = made(run(Task::Snapshot(task.clone())).await);
        // More than one part.
        assert!(first.base.stored_bytes > 10_000_000, "{first:?}");
        assert!(first.base.url.starts_with("s3://bucket/backups/shop/db/"));
        let tried = verified(run(verify(&bench, None)).await);
        assert_eq!((tried.depth, tried.keys), (Depth::Restored, Some(7000)));
        for id in ["b", "c"] {
            task.id = id.to_owned();
            task.keep = Some(Keep {
                newest: Some(1),
                ..Keep::default()
            });
            made(run(Task::Snapshot(task.clone())).await);
        }
        task.id = "c".to_owned();
        let ids: Vec<String> = made(run(Task::Snapshot(task.clone())).await)
            .newest
            .into_iter()
            .map(|b| b.id)
            .collect();
        assert_eq!(ids, ["c", "a"]);

        // The words of the store are told.
        let (cause, message) = failed(
            bench
                .run_with(store(port, "absent"), verify(&bench, None))
                .await,
        );
        assert!(
            cause == Cause::Store && message.contains("NoSuchBucket"),
            "{message}"
        );
        std::fs::write(secrets.join("AWS_SECRET_ACCESS_KEY"), "wrong").unwrap();
        let (cause, message) = failed(run(Task::Snapshot(task)).await);
        assert!(
            cause == Cause::Store && message.contains("SignatureDoesNotMatch"),
            "{message}"
        );
    });
}

#[test]
fn a_file_of_others_comes_from_s3_whatever_its_name() {
    let Some(server) = std::env::var_os("S3_SERVER") else {
        return skipped("S3_SERVER is not set");
    };
    if tools(VERSIONS[2]).is_none() {
        return skipped("ETCD_BINARIES is not set");
    }
    on_one_version(async |tools| {
        let objects = tempfile::tempdir().unwrap();
        let (port, _server) = serve(&server, objects.path(), &[]).await;
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        credentials(&bench);
        let raw = saved(&bench);
        let name = "2026-11-19T02:00:00Z/etcd 1+2%20=ü.db";
        let place = objects.path().join("bucket/backups").join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, &raw).unwrap();
        let mut task = import(&bench);
        task.name = name.to_owned();
        let run = async |task: &Import| {
            let task = Task::Import(task.clone());
            bench.run_with(store(port, "bucket"), task).await
        };
        let fetched = fetched(run(&task).await);
        assert_eq!(fetched.base.revision, 21);
        assert_eq!(fetched.base.url, format!("s3://bucket/backups/{name}"));
        assert_eq!(std::fs::read(brought(&bench)).unwrap(), raw);
        task.name = "absent.db".to_owned();
        let (cause, message) = failed(run(&task).await);
        assert_eq!(cause, Cause::Damaged);
        assert_eq!(message, "there is no s3://bucket/backups/absent.db");
    });
}
