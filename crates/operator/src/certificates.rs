//! Certificates: those that the operator issues, which names each has, those that it copies from another source, how they are
//! kept in Secrets, and the operator's own identity towards the members, which is in no Secret.

pub(crate) mod given;
pub(crate) mod keyring;
pub(crate) mod request;
pub(crate) mod secrets;
pub mod sources;
pub(crate) mod subjects;
pub(crate) mod trust;
pub mod vault;

/// The domain of the Kubernetes cluster, as the pod of the operator is told to search it; `None` where nothing says so, as
/// outside a cluster.
pub fn domain_of(resolv_conf: &str) -> Option<String> {
    let mut lines = resolv_conf.lines();
    let search = lines.find_map(|line| line.trim().strip_prefix("search "))?;
    let mut domains = search.split_whitespace();
    let domain = domains.find_map(|domain| domain.strip_prefix("svc."))?;
    let domain = domain.trim_end_matches('.');
    (!domain.is_empty()).then(|| domain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_found_where_the_kubelet_says_it() {
        let of = |text: &str| domain_of(text);
        let pod = "nameserver 10.96.0.10\nsearch ns.svc.example.org svc.example.org example.org\n";
        assert_eq!(of(pod).as_deref(), Some("example.org"));
        assert_eq!(
            of("search svc.cluster.local.\n").as_deref(),
            Some("cluster.local")
        );
        for text in [
            "",
            "search example.org\n",
            "search svc.\n",
            "nameserver ::1\n",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
