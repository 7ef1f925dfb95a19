//! What the dashboards show.

/// Of one cluster: as it is told by the operator.
macro_rules! c {
    ($name:literal) => {
        concat!($name, "{namespace=~\"$namespace\",@cluster=~\"$cluster\"}")
    };
}

/// The largest of what two replicas tell.
macro_rules! max {
    ($name:literal) => {
        concat!("max by (namespace, @cluster) (", c!($name), ")")
    };
}

/// Of members, by pod.
macro_rules! pods {
    ($name:literal) => {
        concat!("max by (namespace, @cluster, pod) (", m!($name), ")")
    };
}

macro_rules! m {
    ($name:literal) => {
        concat!(
            $name,
            "{job=\"etcd\",namespace=~\"$namespace\",@cluster=~\"$cluster\",pod=~\"$pod\"}"
        )
    };
}

macro_rules! rate {
    ($name:literal) => {
        concat!(
            "sum by (namespace, @cluster, pod) (rate(",
            m!($name),
            "[$__rate_interval]))"
        )
    };
}

macro_rules! slowest {
    ($name:literal, $by:literal) => {
        concat!(
            "histogram_quantile(0.99, sum by (namespace, @cluster, pod, ",
            $by,
            "le) (rate(",
            m!($name),
            "[$__rate_interval])))"
        )
    };
}

mod cluster;
mod fleet;
mod member;

pub(super) use self::cluster::CLUSTER;
pub(super) use self::fleet::FLEET;
pub(super) use self::member::MEMBER;
use super::{Dashboard, Look, Panel};

const fn panel(
    title: &'static str,
    look: Look,
    (width, unit): (u64, &'static str),
    queries: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Panel {
    Panel {
        title,
        help,
        look,
        width,
        unit,
        queries,
    }
}

const NAME: &str = "{{namespace}}/{{@cluster}}";
const POD: &str = "{{namespace}}/{{pod}}";
