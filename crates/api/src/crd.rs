//! The CRD as it is installed: what the derive makes, plus defaults, the CEL table, and what Kubernetes
//! wants said differently than JSON Schema does.

mod bounds;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::intent::{DEFAULT_REPOSITORY, DEFAULT_SIZE, DEFAULT_STORAGE};
use crate::rules::{self, CelRule};
use crate::v1alpha1::backup::EtcdBackup;
use crate::v1alpha1::restore::EtcdRestore;
use crate::v1alpha1::role::EtcdRole;
use crate::v1alpha1::user::EtcdUser;
use crate::{EtcdCluster, EtcdVersion};

/// Why the CRD could not be made; only a mistake in this crate can be the reason.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// A path of the tables below leads nowhere.
    #[error("the schema has no property {0}")]
    NoSuchProperty(String),
    /// The schema is no longer one.
    #[error("the changed schema is not a CRD")]
    NotACrd(#[from] serde_json::Error),
}

/// The CRDs of all kinds.
pub fn all() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let mut all = vec![
        etcd_cluster()?,
        etcd_user()?,
        etcd_role()?,
        etcd_backup()?,
        etcd_restore()?,
    ];
    // So that a program can say which release they are of, and that it is another.
    for crd in &mut all {
        let labels = crd.metadata.labels.get_or_insert_default();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        labels.insert(crate::labels::VERSION.to_owned(), version);
    }
    Ok(all)
}

/// The CRD of `EtcdCluster`.
pub fn etcd_cluster() -> Result<CustomResourceDefinition, CrdError> {
    let mut crd = serde_json::to_value(EtcdCluster::crd())?;
    let schema = crd
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .ok_or_else(|| CrdError::NoSuchProperty("openAPIV3Schema".into()))?;
    // The predecessor did not require a spec; with the default, an object without one gets all defaults.
    set(schema, &["spec"], "default", json!({}))?;
    if let Some(root) = schema.as_object_mut() {
        root.remove("required");
    }
    for (path, default) in defaults() {
        set(schema, path, "default", default)?;
    }
    for (path, key, value) in bounds::all() {
        set(schema, path, key, value)?;
    }
    let source = &["spec", "bootstrap", "restore", "source"];
    locate(schema, source)?;
    list_conditions(schema)?;
    for rule in rules::all() {
        add_rule(schema, rule)?;
    }
    for rule in rules::restore::LOCATION {
        add_rule_below(schema, source, rule)?;
    }
    Ok(serde_json::from_value(crd)?)
}

/// The CRD of `EtcdUser`.
pub fn etcd_user() -> Result<CustomResourceDefinition, CrdError> {
    let texts: &[&[&str]] = &[
        &["spec", "clusterName"],
        &["spec", "userName"],
        &["spec", "roles", "*"],
        &["spec", "passwordSecret"],
    ];
    account(EtcdUser::crd(), texts, "roles", rules::accounts::USER)
}

/// The CRD of `EtcdRole`.
pub fn etcd_role() -> Result<CustomResourceDefinition, CrdError> {
    let texts: &[&[&str]] = &[&["spec", "clusterName"], &["spec", "roleName"]];
    account(EtcdRole::crd(), texts, "permissions", rules::accounts::ROLE)
}

/// The CRD of `EtcdBackup`.
pub fn etcd_backup() -> Result<CustomResourceDefinition, CrdError> {
    let mut crd = serde_json::to_value(EtcdBackup::crd())?;
    let schema = crd
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .ok_or_else(|| CrdError::NoSuchProperty("openAPIV3Schema".into()))?;
    for (path, longest) in bounds::BACKUP_TEXTS {
        set(schema, path, "minLength", json!(1))?;
        set(schema, path, "maxLength", json!(longest))?;
    }
    for path in bounds::BACKUP_NUMBERS {
        set(schema, path, "minimum", json!(0))?;
    }
    let recipients = &["spec", "encryption", "recipients"];
    set(schema, recipients, "minItems", json!(1))?;
    set(schema, recipients, "maxItems", json!(16))?;
    let namespaces = &["spec", "allowedNamespaces"];
    set(schema, namespaces, "maxItems", json!(64))?;
    set(schema, namespaces, "x-kubernetes-list-type", json!("set"))?;
    list_conditions(schema)?;
    for rule in rules::backup::ALL {
        add_rule(schema, rule)?;
    }
    Ok(serde_json::from_value(crd)?)
}

/// The CRD of `EtcdRestore`. Its template is judged when the EtcdCluster is made of it: the API server would not let so many
/// rules run over one object twice.
pub fn etcd_restore() -> Result<CustomResourceDefinition, CrdError> {
    let mut crd = serde_json::to_value(EtcdRestore::crd())?;
    let schema = crd
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .ok_or_else(|| CrdError::NoSuchProperty("openAPIV3Schema".into()))?;
    for (path, longest) in bounds::RESTORE_TEXTS {
        set(schema, path, "minLength", json!(1))?;
        set(schema, path, "maxLength", json!(longest))?;
    }
    let revision = &["spec", "target", "revision"];
    set(schema, revision, "minimum", json!(1))?;
    locate(schema, &["spec", "source"])?;
    list_conditions(schema)?;
    for rule in rules::restore::ALL {
        add_rule(schema, rule)?;
    }
    for rule in rules::restore::LOCATION {
        add_rule_below(schema, &["spec", "source"], rule)?;
    }
    Ok(serde_json::from_value(crd)?)
}

/// The texts of a place where backups are.
fn locate(schema: &mut Value, at: &[&str]) -> Result<(), CrdError> {
    for (path, longest) in bounds::LOCATION_TEXTS {
        let path = [at, path].concat();
        set(schema, &path, "minLength", json!(1))?;
        set(schema, &path, "maxLength", json!(longest))?;
    }
    Ok(())
}

/// Names are said and short, and the list that both kinds have is bounded.
fn account(
    crd: CustomResourceDefinition,
    texts: &[&[&str]],
    list: &str,
    rules: &[CelRule],
) -> Result<CustomResourceDefinition, CrdError> {
    let mut crd = serde_json::to_value(crd)?;
    let schema = crd
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .ok_or_else(|| CrdError::NoSuchProperty("openAPIV3Schema".into()))?;
    for path in texts {
        set(schema, path, "minLength", json!(1))?;
        set(schema, path, "maxLength", json!(bounds::NAME))?;
    }
    set(schema, &["spec", list], "maxItems", json!(bounds::GRANTS))?;
    if list == "permissions" {
        for of in [
            &["key"][..],
            &["prefix"],
            &["range", "from"],
            &["range", "to"],
        ] {
            let path = [&["spec", "permissions", "*"], of].concat();
            set(schema, &path, "maxLength", json!(bounds::KEY))?;
        }
        for of in [&["key"][..], &["range", "from"]] {
            let path = [&["spec", "permissions", "*"], of].concat();
            set(schema, &path, "minLength", json!(1))?;
        }
    }
    list_conditions(schema)?;
    for rule in rules {
        add_rule(schema, rule)?;
    }
    Ok(serde_json::from_value(crd)?)
}

fn list_conditions(schema: &mut Value) -> Result<(), CrdError> {
    let conditions = &["status", "conditions"];
    set(schema, conditions, "x-kubernetes-list-type", json!("map"))?;
    let keys = json!(["type"]);
    set(schema, conditions, "x-kubernetes-list-map-keys", keys)
}

fn defaults() -> Vec<(&'static [&'static str], Value)> {
    vec![
        (&["spec", "size"], json!(DEFAULT_SIZE)),
        (
            &["spec", "version"],
            json!(format!("v{}", EtcdVersion::DEFAULT)),
        ),
        (&["spec", "repository"], json!(DEFAULT_REPOSITORY)),
        (&["spec", "storage", "size"], json!(DEFAULT_STORAGE)),
        (&["spec", "security", "tls", "enabled"], json!(true)),
        (
            &["spec", "security", "tls", "clientTLSEnabled"],
            json!(true),
        ),
        // Not `autoTLS`: what it means when absent depends on `certificateSecret`.
        (&["spec", "security", "tls", "peerTLSEnabled"], json!(true)),
    ]
}

fn property<'a>(schema: &'a mut Value, path: &[&str]) -> Result<&'a mut Value, CrdError> {
    let mut at = schema;
    for name in path {
        let pointer = match *name {
            "*" if at.get("items").is_some() => "/items".to_owned(),
            "*" => "/additionalProperties".to_owned(),
            name => format!("/properties/{name}"),
        };
        at = at
            .pointer_mut(&pointer)
            .ok_or_else(|| CrdError::NoSuchProperty(path.join(".")))?;
    }
    Ok(at)
}

fn set(schema: &mut Value, path: &[&str], key: &str, value: Value) -> Result<(), CrdError> {
    let property = property(schema, path)?
        .as_object_mut()
        .ok_or_else(|| CrdError::NoSuchProperty(path.join(".")))?;
    // `nullable` would let a null through where the default should be.
    if key == "default" {
        property.remove("nullable");
    }
    property.insert(key.to_owned(), value);
    Ok(())
}

fn add_rule(schema: &mut Value, rule: &CelRule) -> Result<(), CrdError> {
    add_rule_below(schema, &[], rule)
}

fn add_rule_below(schema: &mut Value, at: &[&str], rule: &CelRule) -> Result<(), CrdError> {
    let mut json = json!({"rule": rule.rule, "message": rule.message});
    if let Some(json) = json.as_object_mut() {
        if rule.optional_old_self {
            json.insert("optionalOldSelf".to_owned(), json!(true));
        }
        if let Some(place) = rule.at {
            json.insert("fieldPath".to_owned(), json!(place));
        }
        if let Some(expression) = rule.telling {
            json.insert("messageExpression".to_owned(), json!(expression));
        }
    }
    let path = [at, rule.path].concat();
    let property = property(schema, &path)?
        .as_object_mut()
        .ok_or_else(|| CrdError::NoSuchProperty(path.join(".")))?;
    let rules = property
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_takes_every_rule_and_default() {
        let crd = serde_json::to_value(etcd_cluster().unwrap()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let text = schema.to_string();
        let rules = rules::all().count() + rules::restore::LOCATION.len();
        assert_eq!(text.matches("\"rule\":").count(), rules);
        assert_eq!(
            schema["properties"]["spec"]["properties"]["size"]["default"],
            3
        );
        assert!(crd["spec"]["versions"][0]["subresources"]["scale"].is_object());
    }
}
