//! The member that is asked for a snapshot: reached by its own name, and known by its ID.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::manifest::{HashKv, Source};
use archive::work::{self, Cause};
use etcd::{
    BoxFuture, BoxStream, Connect, Consistency, Credentials, Pool, Security, Status, Target,
};
use tokio::net::TcpStream;

use crate::fault::{Explain as _, Fault, Result};

const DEADLINE: Duration = Duration::from_secs(10);
/// A member needs about a second for each GiB.
const HASH_DEADLINE: Duration = Duration::from_mins(2);
/// Bytes that a member may be ahead of us.
const WINDOW: u32 = 2 << 20;

/// A member that is the one that was asked for.
pub(crate) struct Known {
    pub(crate) member: etcd::Member,
    pub(crate) status: Status,
    name: String,
}

/// TCP to a host and a port. In a Job the name of a member is resolved by the cluster's DNS; that it leads to the member is
/// seen by its certificate and its ID.
struct Address(String);

impl Connect for Address {
    fn connect<'a>(
        &'a self,
        _target: &'a Target,
        _port: u16,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let stream = TcpStream::connect(&self.0).await?;
            stream.set_nodelay(true)?;
            let stream: BoxStream = Box::new(stream);
            Ok(stream)
        })
    }
}

/// A handle for a member at an address, of which nothing is known yet.
pub(crate) fn handle(name: &str, address: &str, security: &Security) -> etcd::Member {
    let target = Target {
        namespace: "member".to_owned(),
        pod: name.to_owned(),
        address: address.to_owned(),
    };
    let pool = Pool::new(Arc::new(Address(address.to_owned()))).with_window(WINDOW);
    pool.member(&target, security).with_deadline(DEADLINE)
}

/// Connects, and makes sure who it is: a voter with the ID that was asked for, of the cluster that was asked for.
pub(crate) async fn meet(asked: &work::Member, place: &work::Place, tls: &Path) -> Result<Known> {
    let member = handle(&asked.name, &asked.address, &security(asked, tls)?);
    let what = format!("ask member {} at {}", asked.name, asked.address);
    let status = member.status().await.explain(Cause::Member, &what)?;
    let differs = |kind: &str, is: u64, asked: &str| {
        let message = format!("{what}: it has {kind} {is:x}, and not {asked}");
        Err(Fault::new(Cause::Member, message))
    };
    if u64::from_str_radix(&asked.id, 16) != Ok(status.member_id) {
        return differs("ID", status.member_id, &asked.id);
    }
    if u64::from_str_radix(&place.cluster_id, 16) != Ok(status.cluster_id) {
        return differs("cluster ID", status.cluster_id, &place.cluster_id);
    }
    if status.is_learner {
        let message = format!("{what}: it is a learner, and may be behind the others");
        return Err(Fault::new(Cause::Member, message));
    }
    // It has applied all that a quorum knew at this moment: one that is cut off from the others cannot answer.
    let listed = member.member_list(Consistency::Linearizable).await;
    listed.explain(Cause::Member, &what)?;
    Ok(Known {
        member,
        status,
        name: asked.name.clone(),
    })
}

impl Known {
    /// What a manifest says about where a base is from.
    pub(crate) async fn source(&self) -> Source {
        // Only for people: what cannot be learned is left out.
        let auth = self.member.auth_status().await.ok();
        Source {
            name: self.name.clone(),
            id: format!("{:x}", self.status.member_id),
            etcd_version: self.status.version.clone(),
            storage_version: self.status.storage_version.clone(),
            db_size: self.status.db_size,
            db_size_in_use: self.status.db_size_in_use,
            auth_enabled: auth.map(|auth| auth.enabled),
        }
    }

    /// The member's own hash of what was copied. While it computes it, it applies nothing: so only a follower is asked, and
    /// only where others serve meanwhile. Without it a base can still be restored for a trial, so no failure ends the work.
    pub(crate) async fn hash(&self, revision: i64) -> Option<HashKv> {
        let list = self.member.member_list(Consistency::Local).await.ok()?;
        let voters = list
            .members
            .iter()
            .filter(|member| !member.is_learner)
            .count();
        let status = self.member.status().await.ok()?;
        if voters < 2 || status.leader == status.member_id || status.leader == 0 {
            return None;
        }
        let member = self.member.clone().with_deadline(HASH_DEADLINE);
        let hash = member.hash_kv(revision).await.ok()?;
        (hash.revision == revision).then_some(HashKv {
            revision,
            compact_revision: hash.compact_revision,
            hash: hash.hash,
        })
    }
}

fn security(asked: &work::Member, tls: &Path) -> Result<Security> {
    let Some(name) = &asked.server_name else {
        return Ok(Security::Plain);
    };
    let read = |file: &str| {
        let path = tls.join(file);
        let text = std::fs::read_to_string(&path);
        text.explain(Cause::Request, format!("read {}", path.display()))
    };
    let credentials = Credentials::new(&read("ca.crt")?, &read("tls.crt")?, &read("tls.key")?);
    let credentials = credentials.explain(Cause::Request, "use the certificate for the member")?;
    Ok(Security::Tls {
        credentials: Arc::new(credentials),
        name: name.clone(),
    })
}
