//! Members that are switched to TLS among themselves and back while they serve, as the operator does it: armed, listed under
//! both schemes, restarted one by one, listed under one. The simulated members take for granted what is tried here.

use std::path::{Path, PathBuf};

use etcd::{Consistency, Member};
use pki::Authority;

use crate::cluster::{eventually, handles};
use crate::locked::{authority, issue, validity};
use crate::process::{RealEtcd, Seat, minor};

/// The name by which members recognise each other.
const PEERS: &str = "c-peer.real.svc";

/// A rung between members; on the upper two clients are served with and without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Plain,
    Both,
    Tls,
}

/// What a member of a rung is started with beside the usual flags, of which the last word counts.
fn flags(seat: &Seat, binary: &Path, authority: &Authority, rung: Rung) -> Vec<String> {
    if rung == Rung::Plain {
        return Vec::new();
    }
    let pair = issue(
        authority,
        "c",
        &[PEERS, "localhost", "127.0.0.1"],
        validity(),
    );
    let file = |name: &str, text: &str| seat.write(name, text).to_str().unwrap().to_owned();
    let (certificate, key) = (file("c.crt", &pair.chain), file("c.key", pair.key.expose()));
    let trust = file("ca.crt", authority.certificate());
    let skip = if minor(binary) == "3.5" {
        "experimental-peer-skip-client-san-verification"
    } else {
        "peer-skip-client-san-verification"
    };
    let (plain, secure) = (seat.client_url("http"), seat.client_url("https"));
    let mut flags = vec![
        format!("--listen-client-urls={plain},{secure}"),
        format!("--cert-file={certificate}"),
        format!("--key-file={key}"),
        format!("--trusted-ca-file={trust}"),
        "--client-cert-auth=true".to_owned(),
        format!("--peer-cert-file={certificate}"),
        format!("--peer-key-file={key}"),
        format!("--peer-trusted-ca-file={trust}"),
        "--peer-client-cert-auth=true".to_owned(),
        format!("--peer-cert-allowed-hostname={PEERS}"),
        format!("--{skip}=true"),
    ];
    if rung == Rung::Tls {
        let url = seat.peer_url().replace("http:", "https:");
        flags.push(format!("--listen-peer-urls={url}"));
    }
    flags
}

struct Switched<'a> {
    seats: [&'a Seat; 3],
    members: [Member; 3],
    processes: [RealEtcd; 3],
    binary: &'a PathBuf,
    authority: Authority,
}

impl Switched<'_> {
    fn start(&self, place: usize, rung: Rung) -> RealEtcd {
        let seat = self.seats[place];
        let flags = flags(seat, self.binary, &self.authority, rung);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        seat.start_with(self.binary, &self.seats, &flags)
    }

    async fn stop(&mut self, place: usize) {
        let process = &mut self.processes[place];
        process.ask_to_stop();
        eventually("the process ends", async || {
            process.has_ended().then_some(())
        })
        .await;
    }

    /// It follows a leader, and what the others wrote since is there.
    async fn serves(&self, place: usize, word: &str) {
        let other = &self.members[(place + 1) % 3];
        eventually("another one writes", async || {
            other.put(word.as_bytes(), word.as_bytes()).await.ok()
        })
        .await;
        eventually("it is read", async || {
            let member = &self.members[place];
            let read = member.get(word.as_bytes(), Consistency::Linearizable).await;
            let read = read.ok()??;
            (read.value == word.as_bytes()).then_some(())
        })
        .await;
    }

    /// One member after the other.
    async fn roll(&mut self, rung: Rung) {
        for place in 0..3 {
            self.stop(place).await;
            self.processes[place] = self.start(place, rung);
            self.serves(place, &format!("{rung:?} {place}")).await;
        }
    }

    /// All of them at once, as an eviction does; on these rungs.
    async fn stop_and_start(&mut self, rungs: [Rung; 3]) {
        for place in 0..3 {
            self.stop(place).await;
        }
        for (place, rung) in rungs.into_iter().enumerate() {
            self.processes[place] = self.start(place, rung);
        }
        for place in 0..3 {
            self.serves(place, &format!("{rungs:?} {place}")).await;
        }
    }

    /// Every member is listed under these schemes.
    async fn list(&self, schemes: &[&str]) {
        for (seat, member) in self.seats.iter().zip(&self.members) {
            let id = member.status().await.unwrap().member_id;
            let url = |scheme: &&str| seat.peer_url().replace("http:", &format!("{scheme}:"));
            let urls: Vec<String> = schemes.iter().map(url).collect();
            eventually("it is listed", async || {
                self.members[0].member_update(id, &urls).await.ok()
            })
            .await;
        }
    }
}

pub(crate) async fn members_are_switched_and_back_and_come_back_from_a_stop_half_way(
    binary: PathBuf,
) {
    let seats = ["c-0", "c-1", "c-2"].map(Seat::new);
    let [first, second, third] = &seats;
    let all = [first, second, third];
    let mut trio = Switched {
        processes: all.map(|seat| seat.start_with(&binary, &all, &[])),
        members: handles(all),
        seats: all,
        binary: &binary,
        authority: authority(),
    };
    for place in 0..3 {
        trio.serves(place, "plain").await;
    }
    trio.roll(Rung::Both).await;
    trio.list(&["http", "https"]).await;
    // Some have gone on, and all of them are evicted.
    trio.stop_and_start([Rung::Both, Rung::Tls, Rung::Both])
        .await;
    trio.roll(Rung::Tls).await;
    trio.list(&["https"]).await;
    trio.stop_and_start([Rung::Tls; 3]).await;
    trio.list(&["http", "https"]).await;
    trio.stop_and_start([Rung::Tls, Rung::Tls, Rung::Both])
        .await;
    trio.roll(Rung::Both).await;
    trio.list(&["http"]).await;
    trio.roll(Rung::Plain).await;
}
