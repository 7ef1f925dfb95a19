//! Which authorities members trust, and which they are to trust. A process reads them once, when it starts, so that a pod
//! bears the generation of those that it was started with.

use api::certificates::{Record, Stranded, Trust, for_clients};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Observed, Offered, Pod};
use crate::decision::Issuer;

impl Observed {
    /// The authorities that members are to trust: the newest of ours, and those of another source.
    pub(crate) fn wanted_trust(&self) -> Option<Vec<String>> {
        let own = &self.certificates.authority.record()?.authorities;
        let wanted = match self.source_trust() {
            None => vec![own.clone()],
            Some(theirs) => vec![for_clients(own), theirs.to_owned()],
        };
        Some(wanted)
    }

    /// The authorities of another source. Where that cannot be used, those that it had.
    fn source_trust(&self) -> Option<&str> {
        let copied = || self.certificates.members.record()?.copied.as_ref();
        let copied = match &self.certificates.offered {
            Offered::Own => None,
            Offered::Usable(copied) => Some(copied),
            Offered::Unusable(_) => copied(),
        };
        copied.map(|copied| copied.trust.as_str())
    }

    /// Members that start now would not trust all that they are to trust, or pods bear a later generation than what they
    /// mount.
    pub(crate) fn lacks_trust(&self) -> bool {
        let Some(record) = self.certificates.members.record() else {
            return false;
        };
        let told = record.trusted();
        let wanted = self.wanted_trust().unwrap_or_default();
        let behind = self.newest_generation() > record.generation();
        behind || !wanted.iter().all(|wanted| covers(&told, wanted))
    }

    /// Members that start now trust more than they are to trust.
    pub(crate) fn trusts_too_much(&self) -> bool {
        let told = self.certificates.members.record().map(Record::trusted);
        let wanted = self.wanted_trust();
        told.zip(wanted).is_some_and(|(told, wanted)| {
            let mut told = told.iter();
            told.any(|told| !wanted.contains(told))
        })
    }

    /// The highest generation that a pod bears.
    fn newest_generation(&self) -> u64 {
        let pods = self.pods.values().map(|pod| pod.trust);
        pods.max().unwrap_or(0)
    }

    /// The generation that follows whatever is written or borne.
    pub fn next_generation(&self) -> u64 {
        let issued = &self.certificates;
        let records = [&issued.members, &issued.clients].map(|it| it.record());
        let written = records.into_iter().flatten().map(Record::generation);
        let target = self.cluster.target.as_ref();
        let template = target.map_or(0, |target| target.intent.tls.trust);
        let borne = self.newest_generation().max(template);
        written.max().unwrap_or(0).max(borne).saturating_add(1)
    }

    /// Members are still told to trust authorities that are revoked.
    pub(crate) fn has_revoked(&self) -> bool {
        let ours = self.certificates.authority.record();
        let rotation = ours.and_then(|it| it.rotation.as_ref());
        let revoked = rotation.and_then(|it| it.revoked.as_deref());
        let told = self.certificates.members.record().map(Record::trusted);
        let told = told.unwrap_or_default();
        revoked.is_some_and(|revoked| covers(&told, &for_clients(revoked)))
    }

    /// Every pod was started with all authorities that are mounted now, or will be.
    pub(crate) fn every_pod_trusts(&self) -> bool {
        let Some(record) = self.certificates.members.record() else {
            return false;
        };
        let replicas = self.objects.replicas.unwrap_or(0);
        let all = usize::try_from(replicas).is_ok_and(|replicas| replicas == self.pods.len());
        let mut pods = self.pods.values();
        all && pods.all(|pod| !pod.terminating && pod.trust >= record.generation())
    }

    /// Whatever is shown of it, by members or to them, was valid until then: the authority of ours that issues for members
    /// that run. `None` where that is not recorded.
    fn issues_until(&self) -> Option<Timestamp> {
        let ours = self.certificates.authority.record()?;
        match self.issuer()? {
            Issuer::Newest => Some(ours.not_after.0),
            Issuer::Previous => {
                let rotation = ours.rotation.as_ref()?;
                rotation.previous_until.as_ref().map(|until| until.0)
            }
        }
    }

    /// That authority has expired, and issues nothing any more.
    pub(crate) fn issues_no_more(&self) -> bool {
        self.issues_until().is_some_and(|until| until <= self.now)
    }

    /// Every authority of ours whose key there is has expired.
    pub(crate) fn are_all_over(&self) -> bool {
        let ours = self.certificates.authority.record();
        ours.is_some_and(|ours| {
            let rotation = ours.rotation.as_ref();
            let before = rotation.and_then(|it| it.previous_until.as_ref());
            ours.not_after.0 <= self.now && before.is_none_or(|it| it.0 <= self.now)
        })
    }

    /// No new connection can be made with what members trust, and nothing that they trust can be issued: the authority has
    /// expired, or the certificates have and their issuer is gone. Members have what they are connected by, and no more.
    pub(crate) fn trusts_the_expired(&self) -> bool {
        let issued = &self.certificates;
        let Some(shown) = issued.members.record() else {
            return false;
        };
        let gone = match &issued.offered {
            Offered::Own => self.issuer().is_none() && issued.authority.record().is_some(),
            Offered::Usable(_) => issued.are_of_another_source(),
            Offered::Unusable(_) => false,
        };
        self.issues_no_more() || (gone && shown.not_after.0 <= self.now)
    }

    /// This pod was started before what is shown now, and all that it trusts had expired: no member that was started since
    /// hears it, nor can any client connect to it. Nothing but a restart helps.
    pub(crate) fn is_stranded(&self, pod: &Pod) -> bool {
        let record = self.certificates.members.record();
        let stranded = record.and_then(Record::stranded);
        stranded.is_some_and(|it| {
            !pod.transport.is_plain() && pod.trust < it.below && pod.created <= it.until.0
        })
    }

    /// The certificates of the members are of the authorities that are to stay.
    pub(crate) fn has_switched(&self) -> bool {
        let issued = &self.certificates;
        let (Some(ours), Some(members)) = (issued.authority.record(), issued.members.record())
        else {
            return false;
        };
        let copied = members.copied.as_ref().map(|copied| copied.trust.as_str());
        members.authorities == ours.authorities && copied == self.source_trust()
    }

    /// The authority of ours that issues for members that run: the one that issued what they show; `None` where its key is
    /// gone.
    pub(crate) fn issuer(&self) -> Option<Issuer> {
        let issued = &self.certificates;
        let ours = issued.authority.record()?;
        if self.trusts_nothing() {
            return Some(Issuer::Newest);
        }
        let rotation = ours.rotation.as_ref();
        let previous = rotation.and_then(|it| it.previous.as_ref());
        let shown = issued.members.record().map(|it| &it.authorities);
        let told = issued.clients.record().map(|it| &it.authorities);
        let pending = rotation.is_some_and(|it| it.pending);
        match shown {
            Some(shown) if *shown == ours.authorities => Some(Issuer::Newest),
            Some(shown) => (previous == Some(shown)).then_some(Issuer::Previous),
            // Clients get theirs after the members, so that these have got there as well.
            None if told == Some(&ours.authorities) => Some(Issuer::Newest),
            None if pending => previous.map(|_| Issuer::Previous),
            None => told.is_none().then_some(Issuer::Newest),
        }
    }

    /// Identity of that authority.
    pub(crate) fn issuing(&self) -> Option<&String> {
        let ours = self.certificates.authority.record()?;
        match self.issuer()? {
            Issuer::Newest => Some(&ours.authorities),
            Issuer::Previous => ours.rotation.as_ref()?.previous.as_ref(),
        }
    }
}

/// What is recorded of trust beside the certificates of the members, for the step that was decided.
impl Observed {
    /// They are issued. What was told before stays told; where nothing is known of that, members that run have yet to read
    /// it if they may not trust the newest authority.
    pub fn trust_when_issued(&self, by: Issuer) -> Option<Trust> {
        let switched_at = Some(Time(self.now));
        let wanted = self.wanted_trust().unwrap_or_default();
        let ours = self.certificates.authority.record();
        let rotation = ours.and_then(|it| it.rotation.as_ref());
        let generation = self.next_generation().saturating_sub(1);
        if let Some(record) = self.certificates.members.record()
            && !self.trusts_nothing()
        {
            let moved = by == Issuer::Newest && !self.has_switched();
            let trust = record.trust.clone()?;
            let strands = moved && !self.every_pod_trusts();
            return Some(Trust {
                switched_at: if moved {
                    switched_at
                } else {
                    trust.switched_at
                },
                stranded: if strands {
                    Some(Stranded {
                        below: trust.generation,
                        until: Time(self.now),
                    })
                } else {
                    trust.stranded
                },
                ..trust
            });
        }
        let Some(rotation) = rotation.filter(|_| by == Issuer::Previous) else {
            return (generation > 0).then_some(Trust {
                authorities: wanted,
                generation,
                switched_at,
                stranded: self.stranded_before(),
            });
        };
        let alone = self.source_trust().is_none();
        let before = rotation.previous.iter();
        let before = before.map(|it| if alone { it.clone() } else { for_clients(it) });
        Some(Trust {
            authorities: before.chain(wanted).collect(),
            generation: self.next_generation(),
            switched_at: None,
            stranded: self.stranded_before(),
        })
    }

    /// What any Secret still tells of members that trust nothing that is shown.
    fn stranded_before(&self) -> Option<Stranded> {
        let issued = &self.certificates;
        let records = [&issued.members, &issued.clients].map(|it| it.record());
        let told = records.into_iter().flatten().filter_map(Record::stranded);
        told.max_by_key(|it| it.below).cloned()
    }

    /// Members that start from now on trust what they are to trust as well.
    pub fn trust_widened(&self) -> Option<Trust> {
        let mut authorities = self.certificates.members.record()?.trusted();
        for wanted in self.wanted_trust()? {
            if !covers(&authorities, &wanted) {
                authorities.push(wanted);
            }
        }
        Some(Trust {
            authorities,
            generation: self.next_generation(),
            switched_at: None,
            stranded: self.stranded_before(),
        })
    }

    /// Members that start from now on trust nothing else.
    pub fn trust_narrowed(&self, revoke: bool) -> Option<Trust> {
        let record = self.certificates.members.record()?;
        Some(Trust {
            authorities: self.wanted_trust()?,
            generation: if revoke {
                self.next_generation()
            } else {
                record.generation()
            },
            switched_at: record.trust.as_ref().and_then(|it| it.switched_at.clone()),
            // Every pod has read more than that.
            stranded: None,
        })
    }
}

/// An authority for everything is one for clients as well.
fn covers(told: &[String], wanted: &str) -> bool {
    let whole = wanted.strip_suffix(&for_clients(""));
    let has = |it: &str| told.iter().any(|told| told == it);
    has(wanted) || whole.is_some_and(has)
}
