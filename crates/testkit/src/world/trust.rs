//! Authorities: which of them processes trust, which issue, and how one follows another. Computed here by itself, never by the
//! rules that are tried.

use api::certificates::{Copied, Record, Rotation, Stranded, Trust, for_clients};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::decision::{Issuer, Rotate};

use super::tls::LIFETIME;
use super::{Pod, Process, World};

/// How many times longer an authority is valid than a certificate.
const AUTHORITY: i64 = 40;

impl World {
    /// Another authority is asked for by annotation.
    pub fn rotate_by(&mut self, value: &str) {
        self.object.rotate = Some(value.to_owned());
    }

    /// It trusts what the others show. A Secret that was deleted takes nothing out of a volume that is mounted.
    pub(super) fn believes_the_others(&self, process: &Process) -> bool {
        let Some(record) = &self.certificates.members else {
            return true;
        };
        let copied = record.copied.as_ref().map(|copied| &copied.trust);
        let issuer = copied.unwrap_or(&record.authorities);
        process.trust.is_empty() || process.trust.contains(issuer)
    }

    /// Never is a certificate shown that a member which runs does not trust.
    pub(super) fn check_trust(&mut self) {
        let mut live = self.live();
        let cut = live.find(|(ordinal, process)| {
            let pod = self.pods.get(ordinal).map(|pod| &pod.uid);
            let stranded = pod.is_some_and(|uid| self.certificates.stranded.contains(uid));
            self.voters(process.cluster) > 1 && !stranded && !self.believes_the_others(process)
        });
        let cut = cut.map(|(ordinal, process)| (ordinal, process.trust.clone()));
        drop(live);
        if let Some((ordinal, trust)) = cut {
            let shown = self.certificates.members.clone().map(|it| it.authorities);
            self.violate(format!(
                "member {ordinal} trusts {trust:?}, and the others show a certificate of {shown:?}"
            ));
        }
    }

    /// It does not trust what issued the operator's own certificate.
    pub(super) fn distrusts_us(&self, process: &Process, pod: &Pod) -> bool {
        if pod.template.transport.client.is_plain() || process.trust.is_empty() {
            return false;
        }
        let Some(issuer) = self.identity() else {
            return false;
        };
        if self.is_over(&issuer) || self.is_expired_for(process) {
            return true;
        }
        let clients = for_clients(&issuer);
        !process.trust.contains(&issuer) && !process.trust.contains(&clients)
    }

    /// The authority of the operator's own certificate: the one that issued what members show, or, where its key is gone,
    /// of a certificate that can be had.
    fn identity(&self) -> Option<String> {
        let issued = &self.certificates;
        let shown = issued.members.as_ref().map(|it| it.authorities.clone());
        let had = issued.clients.as_ref().map(|it| it.authorities.clone());
        let known = had.or_else(|| shown.clone());
        let Some(ours) = &issued.authority else {
            return known;
        };
        let rotation = ours.rotation.as_ref();
        let previous = rotation.and_then(|it| it.previous.clone());
        match shown {
            Some(shown) if shown == ours.authorities => Some(shown),
            Some(shown) if Some(&shown) == previous.as_ref() => Some(shown),
            Some(_) => known,
            None => previous.or_else(|| Some(ours.authorities.clone())),
        }
    }

    /// An authority of ours that has expired.
    fn is_over(&self, authority: &str) -> bool {
        let until = self.certificates.expire.get(authority);
        until.is_some_and(|until| *until <= self.now)
    }

    /// What is shown to it, or what issued that, has expired. Connections that stood before are not counted on.
    pub(super) fn is_expired_for(&self, process: &Process) -> bool {
        let shown = self.certificates.members.as_ref();
        let shown = shown.filter(|it| it.copied.is_none() && !process.trust.is_empty());
        shown.is_some_and(|it| it.not_after.0 <= self.now || self.is_over(&it.authorities))
    }

    /// Other certificates are about to be shown. Members for which nothing can be issued that they trust lose nothing by it.
    pub(super) fn note_stranded(&mut self, issuer: &str) {
        let secrets = &self.certificates;
        let Some(shown) = &secrets.members else {
            return;
        };
        let before = secrets
            .authority
            .as_ref()
            .and_then(|it| it.rotation.as_ref());
        let before = before.and_then(|it| it.previous.as_ref());
        let ours = secrets.authority.as_ref().map(|it| &it.authorities);
        let has_key = before == Some(&shown.authorities) || ours == Some(&shown.authorities);
        let expired = shown.not_after.0 <= self.now && shown.copied.is_none();
        let over = self.is_over(&shown.authorities) || (expired && !has_key);
        let live = self.live();
        let cut = live.filter(|(_, it)| !it.trust.iter().any(|of| of == issuer));
        let pods = cut.filter_map(|(ordinal, _)| Some(self.pods.get(&ordinal)?.uid.clone()));
        let pods: Vec<String> = pods.filter(|_| over).collect();
        self.certificates.stranded.extend(pods);
    }

    pub(super) fn make_authority(&mut self, name: String, rotation: Option<Rotation>) {
        let record = self.issue_record(name, LIFETIME * AUTHORITY);
        let (name, until) = (record.authorities.clone(), record.not_after.0);
        self.certificates.expire.insert(name, until);
        self.certificates.authority = Some(Record { rotation, ..record });
    }

    /// Valid no longer than its authority.
    pub(super) fn issue_leaf(&mut self, issuer: String) -> Record {
        let until = self.certificates.expire.get(&issuer);
        let left = until.map(|until| until.duration_since(self.now).as_secs());
        self.issue_record(issuer, LIFETIME.min(left.unwrap_or(LIFETIME)))
    }

    pub(super) fn issuer(&self, by: Issuer) -> Result<String, String> {
        let ours = self.certificates.authority.as_ref();
        let ours = ours.ok_or("there is no authority")?;
        match by {
            Issuer::Newest => Ok(ours.authorities.clone()),
            Issuer::Previous => {
                let rotation = ours.rotation.as_ref();
                let previous = rotation.and_then(|it| it.previous.clone());
                previous.ok_or_else(|| "its key is gone".to_owned())
            }
        }
    }

    pub(super) fn told_generation(&self) -> u64 {
        let secrets = &self.certificates;
        let first = secrets.members.as_ref().or(secrets.clients.as_ref());
        let set = self.own_set().map(|set| set.template.trust);
        first.map_or(set.unwrap_or(0), Record::generation)
    }

    fn highest_generation(&self) -> u64 {
        let pods = self.pods.values().map(|pod| pod.template.trust);
        let set = self.own_set().map(|set| set.template.trust);
        let pods = pods.chain(set);
        let secrets = &self.certificates;
        let records = [&secrets.members, &secrets.clients];
        let records = records.into_iter().flatten().map(Record::generation);
        pods.chain(records).max().unwrap_or(0)
    }

    fn to_be_trusted(&self, copied: Option<&Copied>) -> Vec<String> {
        let ours = self.certificates.authority.as_ref();
        let ours = ours.map(|it| it.authorities.clone()).unwrap_or_default();
        match copied {
            None => vec![ours],
            Some(copied) => vec![for_clients(&ours), copied.trust.clone()],
        }
    }

    pub(super) fn trust_when_issued(&self, by: Issuer, copied: Option<&Copied>) -> Option<Trust> {
        let wanted = self.to_be_trusted(copied);
        let switched_at = Some(Time(self.now));
        let pending = self.certificates.authority.as_ref();
        let pending = pending.and_then(|it| it.rotation.clone());
        let pending = pending.filter(|it| it.pending);
        let known = self.certificates.members.as_ref();
        let known = known.filter(|it| wanted.iter().all(|one| it.trusted().contains(one)));
        if let Some(known) = known {
            let trust = known.trust.clone()?;
            let issuer = self.issuer(by).unwrap_or_default();
            let moved = (&issuer, copied.map(|it| &it.trust))
                != (
                    &known.authorities,
                    known.copied.as_ref().map(|it| &it.trust),
                );
            let below = trust.generation;
            let late = self.pods.values().any(|pod| pod.template.trust < below);
            let until = Time(self.now);
            let stranded = (moved && late).then_some(Stranded { below, until });
            return Some(Trust {
                switched_at: if moved {
                    switched_at
                } else {
                    trust.switched_at
                },
                stranded: stranded.or(trust.stranded),
                ..trust
            });
        }
        let generation = self.highest_generation();
        let Some(pending) = pending.filter(|_| by == Issuer::Previous) else {
            return (generation > 0).then_some(Trust {
                authorities: wanted,
                generation,
                switched_at,
                stranded: self.told_stranded(),
            });
        };
        Some(Trust {
            authorities: pending.previous.into_iter().chain(wanted).collect(),
            generation: generation + 1,
            switched_at: None,
            stranded: self.told_stranded(),
        })
    }

    fn told_stranded(&self) -> Option<Stranded> {
        let secrets = &self.certificates;
        let told = secrets.members.as_ref().or(secrets.clients.as_ref());
        told.and_then(Record::stranded).cloned()
    }

    pub(super) fn rotate(&mut self, what: Rotate) -> Result<(), String> {
        let theirs = self.certificates.theirs.clone();
        let old = self.certificates.members.clone();
        let old_copied = old.as_ref().and_then(|it| it.copied.clone());
        let copied = match theirs {
            None => None,
            Some(Ok(copied)) => Some(copied),
            Some(Err(_)) => old_copied,
        };
        let generation = self.highest_generation();
        let wanted = self.to_be_trusted(copied.as_ref());
        match what {
            Rotate::Begin => self.begin_rotation(old),
            Rotate::Forget => {
                let ours = self.certificates.authority.as_mut();
                let rotation = ours.and_then(|it| it.rotation.as_mut());
                let rotation = rotation.ok_or("nothing to forget")?;
                (rotation.pending, rotation.previous) = (false, None);
                rotation.previous_until = None;
            }
            Rotate::Widen => {
                let members = old.ok_or("no certificates of members")?;
                let told = members.trusted();
                let new = wanted.into_iter().filter(|it| !told.contains(it));
                let trust = Trust {
                    authorities: told.iter().cloned().chain(new).collect(),
                    generation: generation + 1,
                    switched_at: None,
                    stranded: self.told_stranded(),
                };
                self.rewrite_trust(members, trust);
            }
            Rotate::Narrow { revoke } => {
                let members = old.ok_or("no certificates of members")?;
                let switched_at = members.trust.as_ref().and_then(|it| it.switched_at.clone());
                let trust = Trust {
                    authorities: wanted,
                    generation: generation + u64::from(revoke),
                    switched_at,
                    stranded: None,
                };
                self.rewrite_trust(members, trust);
            }
        }
        Ok(())
    }

    fn begin_rotation(&mut self, members: Option<Record>) {
        let ours = self.certificates.authority.take();
        let before = ours.as_ref().and_then(|it| it.rotation.clone());
        let other = before.and_then(|it| it.asked) != self.object.rotate;
        let asked = self.object.rotate.as_deref();
        let revokes = other && asked.is_some_and(|asked| asked.starts_with("revoke"));
        self.certificates.made += 1;
        let name = format!("authority-{}", self.certificates.made);
        let rotation = Rotation {
            pending: true,
            previous_until: ours.as_ref().map(|it| it.not_after.clone()),
            previous: ours.map(|it| it.authorities),
            revoked: members.map(|it| it.authorities).filter(|_| revokes),
            asked: self.object.rotate.clone(),
        };
        self.make_authority(name, Some(rotation));
    }

    /// The certificates stay as they are.
    fn rewrite_trust(&mut self, members: Record, trust: Trust) {
        let data = self.issue_record(String::new(), 1).data;
        self.certificates.members = Some(Record {
            trust: Some(trust),
            data,
            ..members
        });
    }
}
