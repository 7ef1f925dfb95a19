//! What is secret stays where it is: private keys and passwords of a story's Secrets are searched for in everything that
//! people and machines read without the right to read Secrets.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;

use crate::commands::Commands;
use crate::stage::Stage;
use crate::{OPERATOR, OPERATOR_NAMESPACE};

/// Shorter than this, a piece could be found by chance.
const LEAST: usize = 12;

/// A piece of a secret, and where it belongs.
struct Canary {
    whose: String,
    piece: String,
}

/// No log, event, status or other object of the story has a piece of one of its secrets.
pub async fn nothing_leaked(stage: &Stage) -> Result<()> {
    let secrets: Vec<Secret> = stage.list().await?;
    let canaries: Vec<Canary> = secrets.iter().flat_map(canaries).collect();
    ensure!(!canaries.is_empty(), "the story has no secrets");
    let here = &stage.commands;
    let there = Commands::new(OPERATOR_NAMESPACE);
    let operator = format!("--selector=app.kubernetes.io/name={OPERATOR}");
    let members = "--selector=app.kubernetes.io/name=etcd";
    let all = ["--all-containers", "--tail=-1", "--max-log-requests=30"];
    let logs = |selector| [&["logs", selector][..], &all[..]].concat();
    let objects = "etcdclusters.etcd.etcd.io,statefulsets,pods,services,pvc,networkpolicies,events";
    let objects = vec!["get", objects, "--output=yaml", "--show-managed-fields"];
    for (commands, words) in [
        (&there, logs(&operator)),
        (here, logs(members)),
        (here, objects),
    ] {
        let said = commands.kubectl(&words).await?.accepted()?;
        ensure!(!said.is_empty(), "nothing to search: {words:?}");
        for Canary { whose, piece } in &canaries {
            let found = said.contains(piece.as_str());
            ensure!(!found, "{whose} stands in what {words:?} prints");
        }
    }
    Ok(())
}

/// Of every secret value: as it is, and as the API has it.
fn canaries(secret: &Secret) -> Vec<Canary> {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let data = secret.data.iter().flatten();
    let secret = data.filter(|(key, _)| secret_key(key));
    let pieces = secret.flat_map(|(key, value)| {
        let text = String::from_utf8_lossy(&value.0).into_owned();
        let encoded = serde_json::to_value(value).unwrap_or_default();
        let encoded = encoded.as_str().unwrap_or_default().to_owned();
        [piece(&text), piece(&encoded)].map(|piece| Canary {
            whose: format!("{key} of the Secret {name}"),
            piece,
        })
    });
    let long = pieces.filter(|canary| canary.piece.len() >= LEAST);
    long.collect()
}

fn secret_key(key: &str) -> bool {
    key.rsplit('.').next() == Some("key") || key.contains("password")
}

/// A part that no other value begins with: not the head of a PEM file, and of no more than one line.
fn piece(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let line = lines.max_by_key(|line| line.len()).unwrap_or_default();
    // The head of a key names its kind, and is the same in all of them.
    let from = line.len() / 2;
    let rest = line.get(from..).unwrap_or(line);
    let piece = if line.len() > 2 * LEAST { rest } else { line };
    piece.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn a_key_is_known_by_its_middle_in_both_spellings_and_a_certificate_is_no_secret() {
        let body = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmiddle0123456789";
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        let value = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = [
            ("tls.crt", value("public, and long enough to be found")),
            ("tls.key", value(&pem)),
            ("password", value("correct horse")),
        ];
        let secret = Secret {
            data: Some(BTreeMap::from(
                data.map(|(key, value)| (key.to_owned(), value)),
            )),
            ..Secret::default()
        };
        let pieces: Vec<String> = canaries(&secret).into_iter().map(|it| it.piece).collect();
        assert_eq!(pieces.len(), 4, "{pieces:?}");
        let [password, encoded_password, key, encoded] = pieces.as_slice() else {
            panic!("{pieces:?}");
        };
        assert_eq!(password, "correct horse");
        assert!(body.contains(key) && !key.contains("MIGH"), "{key}");
        let whole = serde_json::to_string(&secret).unwrap();
        assert!(whole.contains(encoded) && whole.contains(encoded_password));
    }
}
