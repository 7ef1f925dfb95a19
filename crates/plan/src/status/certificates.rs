//! The certificates in the status.

use api::names;
use api::v1alpha1::status::CertificateStatus;

use crate::observed::Observed;

/// `None` for plaintext, and before they are issued.
pub(super) fn decide(observed: &Observed) -> Option<CertificateStatus> {
    if !observed.has_tls() {
        return None;
    }
    let issued = &observed.certificates;
    let (members, clients) = (issued.members.record()?, issued.clients.record()?);
    let first = if members.not_after.0 <= clients.not_after.0 {
        members
    } else {
        clients
    };
    let renewal = members.renew_at.0.min(clients.renew_at.0);
    Some(CertificateStatus {
        not_after: first.not_after.clone(),
        renewal_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(renewal),
        // Until the newest one has issued everything, another one counts.
        authority_not_after: issued
            .authority
            .record()
            .filter(|record| record.rotation.as_ref().is_none_or(|it| !it.pending))
            .map(|record| record.not_after.clone()),
        client_secret: names::client_secret(&observed.cluster.name),
    })
}
