//! Users and roles of etcd, as application teams meet them: objects of their own, a password or a published certificate, and
//! what each lets in.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use api::names;
use api::v1alpha1::user::EtcdUser;
use e2e::secrets::entry;
use e2e::{Cluster, MINUTE, Played, Stage, check_truth, comes_true, deep, story, until};
use etcd::{Cause, Credentials, DirectTcp, Member, Pool, Security, Target};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

/// One of etcd's users, by password or by certificate.
fn user(name: &str, roles: &[&str], login: &Value) -> String {
    let mut spec = json!({"clusterName": "c", "roles": roles});
    if let (Some(spec), Some(login)) = (spec.as_object_mut(), login.as_object()) {
        spec.extend(login.clone());
    }
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdUser",
           "metadata": {"name": name}, "spec": spec})
    .to_string()
}

fn role(name: &str, permissions: &Value) -> String {
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdRole",
           "metadata": {"name": name},
           "spec": {"clusterName": "c", "permissions": permissions}})
    .to_string()
}

fn password(word: &str) -> String {
    password_in("pat", word)
}

fn password_in(secret: &str, word: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
           "stringData": {"password": word}})
    .to_string()
}

fn locked(auth: bool) -> Value {
    json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"},
           "security": {"tls": {}, "auth": {"enabled": auth, "rootPasswordSecret": "root"}}})
}

#[test]
fn users_by_password_and_by_certificate_get_what_their_roles_allow() -> Played {
    story(|stage| async move {
        let cluster = stage.create("c", locked(true)).await?;
        let app = json!([{"type": "ReadWrite", "prefix": "/app/"}]);
        let by_certificate = json!({"certificate": true});
        for manifest in [
            role("app", &app),
            password("first"),
            password_in("root", "wheel"),
            user("pat", &["app"], &json!({"passwordSecret": "pat"})),
            user("kim", &["app"], &by_certificate),
            // The published certificate for clients has this name: what checks the cluster below uses it.
            user("client", &["root"], &by_certificate),
        ] {
            stage.commands.apply(&manifest).await?.accepted()?;
        }
        cluster.ready_within(MINUTE * 2).await?;
        for name in ["pat", "kim", "client"] {
            is_ready(&stage, name).await?;
        }
        let auth = cluster.status().await?.auth.context("no status.auth")?;
        ensure!(auth.enabled && auth.unmanaged_users.is_empty(), "{auth:?}");
        check_truth(&cluster, 3, "3.6.16").await?;
        only_its_prefix(&stage, &cluster).await?;
        changed_password(&stage).await?;
        root_has_the_password_of_the_cluster(&stage, &cluster).await?;
        members_change(&cluster).await?;
        deleted(&stage, &cluster).await?;
        switched_off(&stage, &cluster).await
    })
}

async fn is_ready(stage: &Stage, name: &str) -> Result<()> {
    let users: Api<EtcdUser> = Api::namespaced(stage.client.clone(), &stage.namespace);
    until(format!("user {name} is ready"), MINUTE, || async {
        let status = users.get(name).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready");
        let ready = ready.context("no condition")?;
        ensure!(ready.status == "True", "{}", ready.message);
        Ok(true)
    })
    .await
    .map(drop)
}

/// `etcdctl` with a password, in a pod of the cluster.
async fn etcdctl(stage: &Stage, login: &str, words: &[&str]) -> Result<e2e::Answer> {
    let exec = [
        "exec", "c-0", "-c", "etcd", "--", "etcdctl", "--user", login,
    ];
    stage.commands.kubectl(&[&exec[..], words].concat()).await
}

/// A member, asked with the certificate that is published for a user.
async fn as_user(stage: &Stage, cluster: &Cluster, user: &str) -> Result<Member> {
    let secret = names::user_secret("c", user);
    let secret = stage.api::<Secret>().get(&secret).await?;
    let of = |key: &str| entry(&secret, key);
    let credentials = Credentials::new(&of("ca.crt")?, &of("tls.crt")?, &of("tls.key")?)?;
    let security = Security::Tls {
        credentials: Arc::new(credentials),
        name: names::member_host("c", &stage.namespace, 0),
    };
    let pods = cluster.pods().await?;
    let status = pods.get("c-0").and_then(|pod| pod.status.as_ref());
    let target = Target {
        namespace: stage.namespace.clone(),
        pod: "c-0".to_owned(),
        address: status
            .and_then(|status| status.pod_ip.clone())
            .context("no address")?,
    };
    Ok(Pool::new(Arc::new(DirectTcp)).member(&target, &security))
}

async fn only_its_prefix(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let put = etcdctl(stage, "pat:first", &["put", "/app/pat", "1"]).await?;
    put.accepted()?;
    let put = etcdctl(stage, "pat:first", &["put", "/other", "1"]).await?;
    put.refused_with(&["permission denied"])?;
    let kim = as_user(stage, cluster, "kim").await?;
    kim.put(b"/app/kim", b"1").await?;
    let refused = kim.put(b"/other", b"1").await;
    ensure!(
        matches!(&refused, Err(error) if matches!(error.cause, Cause::PermissionDenied)),
        "{refused:?}"
    );
    Ok(())
}

async fn changed_password(stage: &Stage) -> Result<()> {
    stage
        .commands
        .apply(&password("second"))
        .await?
        .accepted()?;
    let get = ["get", "/app/pat"];
    until("the other password is taken", MINUTE, || async {
        Ok(etcdctl(stage, "pat:second", &get).await?.ok)
    })
    .await?;
    let old = etcdctl(stage, "pat:first", &get).await?;
    old.refused_with(&["authentication failed"]).map(drop)
}

/// Given, changed by hand, rotated, and taken away. Nothing of it restarts a member.
async fn root_has_the_password_of_the_cluster(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let list = ["user", "list"];
    etcdctl(stage, "root:wheel", &list).await?.accepted()?;
    stage
        .commands
        .apply(&password_in("root", "rotated"))
        .await?
        .accepted()?;
    until("root has the other password", MINUTE, || async {
        Ok(etcdctl(stage, "root:rotated", &list).await?.ok)
    })
    .await?;
    let old = etcdctl(stage, "root:wheel", &list).await?;
    old.refused_with(&["authentication failed"])?;
    // Changes by others are noticed once a minute.
    if deep() {
        changed_by_hand(stage).await?;
    }
    let none = r#"{"spec":{"security":{"auth":{"rootPasswordSecret":null}}}}"#;
    stage.commands.patch("c", none).await?.accepted()?;
    until("root has no password that is known", MINUTE, || async {
        Ok(!etcdctl(stage, "root:rotated", &list).await?.ok)
    })
    .await?;
    // A Secret that is missing is told, and nothing else comes of it.
    let missing = r#"{"spec":{"security":{"auth":{"rootPasswordSecret":"missing"}}}}"#;
    stage.commands.patch("c", missing).await?.accepted()?;
    let words = ["there is no Secret missing", "password of etcd's user root"];
    cluster.complains("Degraded", &words).await?;
    stage.commands.patch("c", none).await?.accepted()?;
    cluster.ready_within(MINUTE).await.map(drop)
}

async fn changed_by_hand(stage: &Stage) -> Result<()> {
    let words =
        "exec -i c-0 -c etcd -- etcdctl --user root:rotated user passwd root --interactive=false";
    let words: Vec<&str> = words.split(' ').collect();
    let set = stage.commands.kubectl_with(&words, "theirs\n").await?;
    set.accepted()?;
    let list = ["user", "list"];
    etcdctl(stage, "root:theirs", &list).await?.accepted()?;
    until(
        "root has the password of its Secret",
        MINUTE * 2,
        || async { Ok(etcdctl(stage, "root:rotated", &list).await?.ok) },
    )
    .await
    .map(drop)
}

async fn members_change(cluster: &Cluster) -> Result<()> {
    cluster.resize(5).await?;
    cluster.ready_within(MINUTE * 2).await?;
    let pods = cluster.pods().await?;
    cluster.kill(pods.get("c-1").context("no pod")?).await?;
    comes_true(cluster, 5, "3.6.16").await?;
    cluster.resize(3).await?;
    cluster.ready_within(MINUTE * 2).await?;
    comes_true(cluster, 3, "3.6.16").await.map(drop)
}

async fn deleted(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let users: Api<EtcdUser> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let kim = as_user(stage, cluster, "kim").await?;
    users.delete("kim", &DeleteParams::default()).await?;
    until("the user is gone from etcd", MINUTE, || async {
        let refused = kim.put(b"/app/kim", b"2").await;
        Ok(matches!(&refused, Err(error) if matches!(error.cause, Cause::PermissionDenied)))
    })
    .await?;
    let secret = names::user_secret("c", "kim");
    let secrets = stage.api::<Secret>();
    until("its certificate goes as well", MINUTE, || async {
        Ok(secrets.get_opt(&secret).await?.is_none())
    })
    .await
    .map(drop)
}

async fn switched_off(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let off = r#"{"spec":{"security":{"tls":{"enabled":false,"liveSwitch":true}}}}"#;
    let refused = stage.commands.patch("c", off).await?;
    refused.refused_with(&["security.auth needs TLS for clients"])?;
    let absent = r#"{"spec":{"security":{"auth":null}}}"#;
    let refused = stage.commands.patch("c", absent).await?;
    refused.refused_with(&["security.auth.enabled: false"])?;
    let off = r#"{"spec":{"security":{"auth":{"enabled":false}}}}"#;
    stage.commands.patch("c", off).await?.accepted()?;
    until("authentication is off", MINUTE, || async {
        let auth = cluster.status().await?.auth.context("no status.auth")?;
        Ok(!auth.enabled)
    })
    .await?;
    cluster.ready_within(MINUTE).await?;
    cluster
        .has_event("AuthEnabled", "authentication is on")
        .await?;
    cluster.put("free", "again").await
}

/// A person switches it on, and does not think of the operator: the condition has the command that lets it in, and root keeps
/// the password that the person gave it.
#[test]
fn authentication_that_was_switched_on_by_hand_is_told_with_the_command_and_taken_over() -> Played {
    story(|stage| async move {
        if !deep() {
            e2e::skipped("E2E_DEEP is not set");
            return Ok(());
        }
        let mut spec = locked(true);
        spec["size"] = json!(1);
        spec["security"]["auth"] = Value::Null;
        let cluster = stage.create("c", spec).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let bare = "exec c-0 -c etcd -- etcdctl";
        for words in [
            "user add root:theirs",
            "role add root",
            "user grant-role root root",
            "auth enable",
        ] {
            let words = format!("{bare} {words}");
            let words: Vec<&str> = words.split(' ').collect();
            stage.commands.kubectl(&words).await?.accepted()?;
        }
        let on = r#"{"spec":{"security":{"auth":{"enabled":true}}}}"#;
        stage.commands.patch("c", on).await?.accepted()?;
        let words = ["etcdctl user add etcd-operator --no-password"];
        let told = cluster
            .complains_within(MINUTE * 2, "Degraded", &words)
            .await?;
        let (_, commands) = told.split_once("run: ").context("no command")?;
        for command in commands.split("&&").take(2) {
            let words = command.split_whitespace().skip(1).take(4);
            let words: Vec<&str> = words.map(|it| it.trim_end_matches(['.', ';'])).collect();
            etcdctl(&stage, "root:theirs", &words).await?.accepted()?;
        }
        until("the operator is let in", MINUTE * 2, || async {
            let auth = cluster.status().await?.auth.context("no status.auth")?;
            Ok(auth.enabled)
        })
        .await?;
        cluster.ready_within(MINUTE * 2).await?;
        let list = ["user", "list"];
        etcdctl(&stage, "root:theirs", &list)
            .await?
            .accepted()
            .map(drop)
    })
}

#[test]
fn users_and_roles_that_cannot_be_are_rejected() -> Played {
    story(|stage| async move {
        let password = json!({"passwordSecret": "pat"});
        let both = json!({"passwordSecret": "pat", "certificate": true});
        let range = json!([{"type": "Read", "range": {"from": "b", "to": "a"}}]);
        let two = json!([{"type": "Read", "key": "a", "prefix": "b"}]);
        for (manifest, words) in [
            (user("root", &[], &password), "belong to the operator"),
            (
                user("etcd-operator", &[], &password),
                "belong to the operator",
            ),
            (
                user("pat", &[], &json!({})),
                "either a password or a certificate",
            ),
            (
                user("pat", &[], &both),
                "either a password or a certificate",
            ),
            (role("root", &json!([])), "belongs to etcd"),
            (role("app", &two), "exactly one of"),
            (role("app", &range), "an empty range"),
        ] {
            let answer = stage.commands.try_apply(&manifest).await?;
            answer.refused_with(&[words])?;
        }
        let plain = json!({"size": 1, "security": {"auth": {"enabled": true}}});
        let manifest = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
                              "metadata": {"name": "c"}, "spec": plain});
        let answer = stage.commands.try_apply(&manifest.to_string()).await?;
        answer.refused_with(&["needs TLS for clients"]).map(drop)
    })
}
