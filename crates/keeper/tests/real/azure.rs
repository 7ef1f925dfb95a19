//! The same with Azure Blob Storage, where `AZURITE` names the `azurite-blob` of its npm package.

use std::path::Path;
use std::process::{Command, Stdio};

use archive::work::{Answer, Cause, Depth, Keep, Store, Task};
use tokio::net::TcpStream;

use crate::damage::failed;
use crate::kit::{Bench, Process, eventually, free_port, on_one_version, skipped};
use crate::round::{fetch, made, read, verified, verify};

/// The account that every Azurite has, and its key, which is no secret.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Makes a container: the keeper makes none.
const MAKE: &str = r#"
const [account, key, url, name] = process.argv.slice(1);
const date = new Date().toUTCString(), version = "2021-08-06";
const text = ["PUT", ...Array(11).fill(""), `x-ms-date:${date}`, `x-ms-version:${version}`,
  `/${account}/${account}/${name}`, "restype:container"].join("\n");
const hmac = require("crypto").createHmac("sha256", Buffer.from(key, "base64"));
const headers = { "x-ms-date": date, "x-ms-version": version, "content-length": 0,
  authorization: `SharedKey ${account}:${hmac.update(text, "utf8").digest("base64")}` };
require("http").request(`${url}/${account}/${name}?restype=container`, { method: "PUT", headers },
  answer => process.exit(answer.statusCode == 201 ? 0 : 1)).end();
"#;

fn store(container: &str) -> Store {
    Store::Azure {
        account: ACCOUNT.to_owned(),
        container: container.to_owned(),
        path: "backups".to_owned(),
    }
}

/// A server with one container.
async fn serve(server: &Path, objects: &Path) -> (String, Process) {
    let port = free_port();
    let child = Command::new(server)
        .args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"])
        .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()])
        .arg("--location")
        .arg(objects)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let process = Process(child.unwrap());
    eventually(async || TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
    let url = format!("http://127.0.0.1:{port}");
    let done = Command::new("node")
        .args(["-e", MAKE, ACCOUNT, KEY, &url, "container"])
        .status();
    assert!(done.unwrap().success(), "no container");
    (url, process)
}

#[test]
fn a_base_goes_to_azure_and_back() {
    let Some(server) = std::env::var_os("AZURITE") else {
        return skipped("AZURITE is not set");
    };
    on_one_version(async |tools| {
        let objects = tempfile::tempdir().unwrap();
        let (url, _server) = serve(Path::new(&server), objects.path()).await;
        let bench = Bench::new(tools).await;
        bench.fill(7000).await;
        let key = bench.directory.path().join("secrets/account-key");
        std::fs::write(&key, KEY).unwrap();
        let run = async |container: &str, task| {
            let mut command = bench.command(store(container), task);
            command.env("AZURE_STORAGE_USE_EMULATOR", "true");
            command.env("AZURITE_BLOB_STORAGE_URL", &url);
            bench.ended(command).await
        };
        let mut task = bench.snapshot("a");
        let first = made(run("container", Task::Snapshot(task.clone())).await);
        // More than one part.
        assert!(first.base.stored_bytes > 10_000_000, "{first:?}");
        let begin = format!("azure://{ACCOUNT}/container/backups/shop/db/");
        assert!(first.base.url.starts_with(&begin), "{first:?}");
        let tried = verified(run("container", verify(&bench, None)).await);
        assert_eq!((tried.depth, tried.keys), (Depth::Restored, Some(7000)));
        let fetched = run("container", fetch(&bench, Some("a"))).await;
        assert!(matches!(fetched, Answer::Done(_)), "{fetched:?}");
        for id in ["b", "c"] {
            task.id = id.to_owned();
            task.keep = Some(Keep {
                newest: Some(1),
                ..Keep::default()
            });
            made(run("container", Task::Snapshot(task.clone())).await);
        }
        let newest = made(run("container", Task::Snapshot(task.clone())).await).newest;
        let ids: Vec<&str> = newest.iter().map(|base| base.id.as_str()).collect();
        assert_eq!(ids, ["c", "a"], "a was verified");

        // The words of the store are told, and no key.
        let (cause, message) = failed(run("absent", read(&bench, None)).await);
        let told = message.contains("ContainerNotFound") || message.contains("no base");
        assert!(told, "{cause:?}: {message}");
        let wrong = KEY.replace('E', "F");
        std::fs::write(&key, &wrong).unwrap();
        task.id = "d".to_owned();
        let (cause, message) = failed(run("container", Task::Snapshot(task)).await);
        let told = message.contains("AuthorizationFailure") || message.contains("403");
        assert!(cause == Cause::Store && told, "{message}");
        assert!(!message.contains(&wrong), "{message}");
    });
}
