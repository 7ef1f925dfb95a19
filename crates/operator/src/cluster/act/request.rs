//! Asks cert-manager for what members show. A Certificate is created where there is none, and applied only where it is this
//! cluster's, as it was seen a moment ago. Where another source is named, it is deleted; the Secret that cert-manager wrote stays.

use api::intent::Source;
use api::{EtcdCluster, labels, names};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use manifests::Owner;
use manifests::certificate::build;
use plan::Observed;
use plan::status::Outcome;

use super::outcome_of;
use crate::certificates::request::{certificates, is_absent, is_ours};
use crate::certificates::subjects::Subjects;
use crate::cluster::observe::owner;
use crate::context::Context;

pub(super) async fn request(cluster: &EtcdCluster, observed: &Observed, ctx: &Context) -> Outcome {
    let Some(target) = &observed.cluster.target else {
        return Outcome::Done;
    };
    let owner = owner(cluster);
    let Source::CertManager { issuer, .. } = &target.intent.tls.source else {
        return withdraw(&owner, ctx).await;
    };
    let subjects = Subjects {
        name: &owner.name,
        namespace: &owner.namespace,
        domain: &ctx.domain,
        tls: &target.intent.tls,
    };
    let mut body = build(&owner, &subjects.request(issuer));
    let name = names::issued(&owner.name);
    let what = format!("Certificate {name}");
    let api = certificates(&owner.namespace, ctx);
    // What comes of it is looked at when it is written.
    ctx.sources.forget(&observed.cluster.uid);
    let live = match api.get(&name).await {
        Ok(live) => live,
        Err(kube::Error::Api(status)) if is_absent(&status, &name) => {
            let new: DynamicObject = match serde_json::from_value(body) {
                Ok(new) => new,
                Err(error) => return Outcome::Failed(format!("{what}: {error}")),
            };
            let params = PostParams {
                field_manager: Some(labels::OPERATOR.to_owned()),
                ..PostParams::default()
            };
            return outcome_of(&what, api.create(&params, &new).await);
        }
        Err(error) => return outcome_of(&what, Err::<(), _>(error)),
    };
    if !is_ours(&live, &owner) {
        return Outcome::NotNow(format!("{what} has another owner"));
    }
    if let Some(metadata) = body.get_mut("metadata") {
        metadata["uid"] = live.uid().into();
        metadata["resourceVersion"] = live.resource_version().into();
    }
    let params = PatchParams::apply(labels::OPERATOR).force();
    outcome_of(&what, api.patch(&name, &params, &Patch::Apply(&body)).await)
}

async fn withdraw(owner: &Owner, ctx: &Context) -> Outcome {
    let name = names::issued(&owner.name);
    let what = format!("Certificate {name}");
    let api = certificates(&owner.namespace, ctx);
    let live = match api.get(&name).await {
        Ok(live) if is_ours(&live, owner) => live,
        Ok(_foreign) => return Outcome::Done,
        Err(kube::Error::Api(status)) if status.code == 404 => return Outcome::Done,
        Err(error) => return outcome_of(&what, Err::<(), _>(error)),
    };
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: live.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(&name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Outcome::Done,
        answer => outcome_of(&what, answer.map(drop)),
    }
}
