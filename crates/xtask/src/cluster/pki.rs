//! One certificate authority for everything in the cluster, and a kubeconfig for each who talks to the API server.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use super::control_plane::api_server;
use super::network::{API_SERVICE, HOST, Node};
use super::state::{Layout, write};

/// A name to certify: who it is, the groups it belongs to (`O`), and where it answers.
struct Subject<'a> {
    file: &'a str,
    name: &'a str,
    group: Option<&'a str>,
    answers_at: Vec<String>,
}

impl<'a> Subject<'a> {
    fn client(file: &'a str, name: &'a str, group: Option<&'a str>) -> Self {
        Self {
            file,
            name,
            group,
            answers_at: Vec::new(),
        }
    }
}

/// Makes all keys, certificates and kubeconfigs, unless a former `up` has.
pub(crate) fn ensure(layout: &Layout, nodes: u8) -> Result<()> {
    // Written last, so its presence tells that all the others are there and belong together.
    if layout.kubeconfig().exists() {
        return Ok(());
    }
    let directory = layout.pki();
    fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
    let authority = make_authority(&directory)?;
    let accounts = KeyPair::generate()?;
    write(&directory.join("accounts.key"), accounts.serialize_pem())?;
    write(&directory.join("accounts.pub"), accounts.public_key_pem())?;

    let masters = Some("system:masters");
    for subject in [
        Subject {
            answers_at: api_server_names(),
            ..Subject::client("apiserver", "kube-apiserver", None)
        },
        Subject::client(
            "apiserver-kubelet-client",
            "apiserver-kubelet-client",
            masters,
        ),
        Subject::client("front-proxy", "front-proxy", None),
    ] {
        make_certificate(&directory, &authority, &subject)?;
    }
    for node in Node::first(nodes) {
        let (file, name) = (node.name(), format!("system:node:{}", node.name()));
        let answers_at = vec![node.name(), node.address()];
        let subject = Subject {
            answers_at,
            ..Subject::client(&file, &name, Some("system:nodes"))
        };
        make_certificate(&directory, &authority, &subject)?;
        write_kubeconfig(&directory, &file, &directory.join(format!("{file}.conf")))?;
    }
    for (file, name, group) in [
        ("controller-manager", "system:kube-controller-manager", None),
        ("scheduler", "system:kube-scheduler", None),
        ("proxy", "system:kube-proxy", None),
        ("volumes", "volume-provisioner", masters),
    ] {
        make_certificate(&directory, &authority, &Subject::client(file, name, group))?;
        write_kubeconfig(&directory, file, &directory.join(format!("{file}.conf")))?;
    }
    let admin = Subject::client("admin", "admin", masters);
    make_certificate(&directory, &authority, &admin)?;
    write_kubeconfig(&directory, "admin", &layout.kubeconfig())
}

fn api_server_names() -> Vec<String> {
    let names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "localhost",
    ];
    let addresses = ["127.0.0.1", HOST, API_SERVICE];
    names
        .into_iter()
        .chain(addresses)
        .map(str::to_owned)
        .collect()
}

fn make_authority(directory: &Path) -> Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "etcd-operator-local-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate()?;
    write(&directory.join("ca.crt"), params.self_signed(&key)?.pem())?;
    write(&directory.join("ca.key"), key.serialize_pem())?;
    Ok(Issuer::new(params, key))
}

fn make_certificate(
    directory: &Path,
    authority: &Issuer<'static, KeyPair>,
    subject: &Subject<'_>,
) -> Result<()> {
    let Subject {
        file,
        name,
        group,
        answers_at,
    } = subject;
    let mut params = CertificateParams::new(answers_at.clone())?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, *name);
    if let Some(group) = group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, *group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params
        .signed_by(&key, authority)
        .with_context(|| format!("certify {name}"))?;
    write(&directory.join(format!("{file}.crt")), certificate.pem())?;
    write(&directory.join(format!("{file}.key")), key.serialize_pem())
}

/// JSON is YAML too.
fn write_kubeconfig(directory: &Path, user: &str, path: &Path) -> Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "etcd-operator",
        "clusters": [{"name": "etcd-operator", "cluster": {
            "server": api_server(),
            "certificate-authority": directory.join("ca.crt"),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate": directory.join(format!("{user}.crt")),
            "client-key": directory.join(format!("{user}.key")),
        }}],
        "contexts": [{"name": "etcd-operator", "context": {"cluster": "etcd-operator", "user": user}}],
    });
    write(path, serde_json::to_vec_pretty(&config)?)
}
