//! Under which schemes members listen for each other, and under which the others look for them.

use api::names::{self, Scheme};

use super::{Member, MemberList, Observed};
use crate::why::Unlisted;

const SCHEMES: [Scheme; 2] = [Scheme::Http, Scheme::Https];

/// For a sentence.
pub(crate) fn describe_schemes(schemes: &[Scheme]) -> String {
    let names: Vec<String> = schemes.iter().map(ToString::to_string).collect();
    names.join(" and ")
}

/// The schemes under which the others look for a member.
pub(crate) fn schemes_of(member: &Member) -> Vec<Scheme> {
    let listed = |scheme: &Scheme| {
        let mut urls = member.peer_urls.iter();
        urls.any(|url| url.starts_with(&format!("{scheme}://")))
    };
    SCHEMES.into_iter().filter(listed).collect()
}

impl Observed {
    /// Peer URL of an ordinal: as its pod listens.
    pub fn peer_url(&self, ordinal: u32) -> String {
        let pod = self.pods.get(&ordinal).map(|pod| pod.transport);
        let scheme = pod.unwrap_or_else(|| self.runs()).peer.scheme();
        names::peer_url(scheme, &self.cluster.name, &self.cluster.namespace, ordinal)
    }

    /// Every scheme that a member listens on, or is about to: each member is listed under all of them.
    fn schemes_in_play(&self) -> Vec<Scheme> {
        let before = self.cluster.latched.transport_before;
        let known = [Some(self.runs()), Some(self.transport()), before];
        let pods = self.pods.values().map(|pod| pod.transport);
        let rungs: Vec<Scheme> = known
            .into_iter()
            .flatten()
            .chain(pods)
            .map(|transport| transport.peer.scheme())
            .collect();
        let listens = |scheme: &Scheme| rungs.contains(scheme);
        SCHEMES.into_iter().filter(listens).collect()
    }

    /// The schemes under which a member is to be listed. One whose pod is not there, or may be recreated from another template,
    /// keeps what it has.
    pub(crate) fn wanted_schemes(&self, ordinal: u32, member: &Member) -> Vec<Scheme> {
        let wanted = self.schemes_in_play();
        let pod = self.pods.get(&ordinal).filter(|pod| !pod.terminating);
        let proven = self.cluster.latched.proven.as_ref();
        let proven = proven.map(|proven| &proven.template);
        let stays = pod.is_some() && self.objects.template.as_ref() == proven;
        let has = schemes_of(member);
        let is = |scheme: &Scheme| wanted.contains(scheme) || (!stays && has.contains(scheme));
        SCHEMES.into_iter().filter(is).collect()
    }

    /// The URLs of a member under these schemes. What is listed stays as it is: an earlier operator wrote the cluster's domain.
    pub(crate) fn urls_under(
        &self,
        ordinal: u32,
        member: &Member,
        schemes: &[Scheme],
    ) -> Vec<String> {
        let (name, namespace) = (&self.cluster.name, &self.cluster.namespace);
        let url = |scheme: &Scheme| {
            let mut listed = member.peer_urls.iter();
            let known = listed.find(|url| url.starts_with(&format!("{scheme}://")));
            let new = || names::peer_url(*scheme, name, namespace, ordinal);
            known.cloned().unwrap_or_else(new)
        };
        schemes.iter().map(url).collect()
    }

    /// Why members may not go to another rung among themselves yet; `None` where they may, or none is asked for.
    pub(crate) fn why_unlisted(&self, list: &MemberList) -> Option<Unlisted> {
        if self.transport().peer == self.runs().peer {
            return None;
        }
        let wanted = self.schemes_in_play();
        let mut members = list.members.iter();
        if let Some(member) = members.find(|member| schemes_of(member) != wanted) {
            let ordinal = self.ordinal_of(member);
            let name = ordinal.map_or_else(|| member.name.clone(), |n| self.member_name(n));
            return Some(match ordinal {
                Some(_) => Unlisted::Member(name, wanted),
                None => Unlisted::Unmanaged(name, wanted),
            });
        }
        // Should the status be lost, they tell how the data finds itself again.
        let runs = self.runs();
        let old = self.pods.keys().find(|ordinal| {
            let claim = self.claims.get(ordinal).filter(|claim| claim.ours);
            let lineage = claim.and_then(|claim| claim.lineage.as_ref());
            lineage.is_none_or(|lineage| lineage.transport != runs)
        })?;
        let claim = names::claim(&self.cluster.name, *old);
        Some(Unlisted::Claim(claim))
    }

    /// A template may be tried that listens for peers as the target does. Without a list only one that listens as before may.
    pub(crate) fn may_listen(&self) -> bool {
        let (to, runs) = (self.transport().peer, self.runs().peer);
        match &self.etcd.members {
            Some(list) => self.why_unlisted(list).is_none(),
            None => to.scheme() == runs.scheme(),
        }
    }
}
