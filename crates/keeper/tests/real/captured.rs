//! What a keeper captured, read back from the store as any reader would, and the keeper that does it.

use std::fs::File;
use std::process::Command;

use archive::layout::parse_manifest;
use archive::log::{self, Cover, Entry, Held, Mark, Reader, Row, Segment};
use archive::manifest::Manifest;
use archive::work::{Kind, MadeBy};

use crate::kit::{Bench, Process, local};

/// A keeper that captures; dropping it kills it as a lost node does.
pub(crate) struct Capturing(pub(crate) Process);

pub(crate) fn request(bench: &Bench) -> log::Request {
    let snapshot = bench.snapshot("unused");
    log::Request {
        store: local(),
        place: snapshot.place,
        timeline: snapshot.timeline,
        members: vec![snapshot.member],
        compress: true,
        recipients: Vec::new(),
        made_by: MadeBy {
            kind: Kind::Needed,
            ..snapshot.made_by
        },
        interval_milliseconds: 100,
        spool_bytes: 1 << 30,
        seal_seconds: 3600,
    }
}

pub(crate) fn command(bench: &Bench, request: &log::Request) -> Command {
    with_spool(bench, request, "spool")
}

/// With a spool of its own in the directory of the bench.
fn with_spool(bench: &Bench, request: &log::Request, spool: &str) -> Command {
    let mut command = bench.keeper(&["capture"], &serde_json::to_string(request).unwrap());
    command
        .arg("--spool")
        .arg(bench.directory.path().join(spool));
    command
}

impl Capturing {
    pub(crate) fn begin(bench: &Bench, request: &log::Request) -> Self {
        Self::beside(bench, request, "spool")
    }

    /// One that has its own spool.
    pub(crate) fn beside(bench: &Bench, request: &log::Request, spool: &str) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(bench.directory.path().join("capture.log"));
        let mut command = with_spool(bench, request, spool);
        Self(Process(command.stdout(log.unwrap()).spawn().unwrap()))
    }

    /// Asks it to end, as the kubelet does.
    pub(crate) fn end(mut self) {
        let told = Command::new("kill").arg(self.0.0.id().to_string()).status();
        assert!(told.unwrap().success());
        assert!(self.0.0.wait().unwrap().success());
    }
}

/// What all keepers of this bench said.
pub(crate) fn said(bench: &Bench) -> String {
    std::fs::read_to_string(bench.directory.path().join("capture.log")).unwrap_or_default()
}

pub(crate) fn segments(bench: &Bench) -> Vec<Segment> {
    let names = bench.names("log");
    names.iter().filter_map(|it| Segment::parse(it)).collect()
}

pub(crate) fn bases(bench: &Bench) -> Vec<Held> {
    let names = bench.names("base");
    let manifests = names.iter().filter(|name| parse_manifest(name).is_some());
    let read = manifests.filter_map(|name| {
        let text = std::fs::read(bench.timeline().join("base").join(name)).unwrap();
        let manifest = Manifest::open(name, &text).ok()?;
        Some(Held {
            compact: manifest.compact_revision,
            revision: manifest.revision,
        })
    });
    read.collect()
}

pub(crate) fn cover(bench: &Bench) -> Cover {
    log::cover(&bases(bench), &segments(bench))
}

/// The newest revision that the store can bring back.
pub(crate) fn newest(bench: &Bench) -> i64 {
    let ranges = cover(bench).ranges;
    ranges.last().map_or(0, |range| range.to)
}

/// What is in the segments after a revision, up to another, without what overlaps.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) rows: Vec<(i64, i64, Row)>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) leases: Vec<(i64, i64)>,
}

pub(crate) fn read(bench: &Bench, after: i64, to: i64) -> Log {
    let all = segments(bench);
    let mut log = Log::default();
    let mut reached = after;
    for segment in log::chain(&all, after, to) {
        let stored = std::fs::read(bench.timeline().join("log").join(segment.name().unwrap()));
        let mut reader = Reader::default();
        reader.push(&zstd::decode_all(&stored.unwrap()[..]).unwrap());
        let (mut revision, mut sub) = (0, 0);
        while let Some(entry) = reader.entry().unwrap() {
            match entry {
                Entry::Revision(next) => (revision, sub) = (next, 0),
                Entry::Row(row) => {
                    if revision > reached && revision <= to {
                        log.rows.push((revision, sub, row));
                    }
                    sub += 1;
                }
                Entry::Mark(mark) => log.marks.push(mark),
                Entry::Lease { id, ttl } => log.leases.push((id, ttl)),
                Entry::End(ended) => {
                    assert_eq!((ended.last, ended.hash), (segment.last, segment.hash));
                }
            }
        }
        reader.finish().unwrap();
        assert_eq!(reader.header().unwrap().first, segment.first);
        reached = segment.last;
    }
    log
}

impl Log {
    /// The hash that etcd has over the same rows, where nothing was compacted.
    pub(crate) fn hash(&self) -> u32 {
        let begin = crc32c::crc32c(b"key");
        self.rows.iter().fold(begin, |hash, (revision, sub, row)| {
            let hash = crc32c::crc32c_append(hash, &row.bucket_key(*revision, *sub));
            crc32c::crc32c_append(hash, &row.bucket_value())
        })
    }
}
