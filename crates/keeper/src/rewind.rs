//! A base becomes the database of an earlier revision that it holds: brought beside the place where the result is written, read
//! there row by row, and removed. The result is read once more before it is used, by the reader that sees snapshots pass,
//! which must find that revision in it and gives it its hash.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use archive::bolt::{Broken, Database, Source, Unwritten};
use archive::manifest::{self, Manifest, Sum, seal};
use archive::materialise::{Made, Unmade, materialise};
use archive::stream::{Facts, Reader};
use archive::work::{Cause, Fetched, Rewound};
use serde::{Deserialize, Serialize};

use crate::decode::{self, bring};
use crate::fault::{Explain as _, Fault, Result};
use crate::import::end;
use crate::store::Store;
use crate::volume::{PART, READY, SNAPSHOT, make, put_in_place, remove, sum_of, write_ready};

/// The base, until the result is there.
const BASE: &str = "base.db.part";
/// Leases that are named; an answer has little room.
const NAMED: usize = 10;

/// `ready.json` of such a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    base: Manifest,
    revision: i64,
    raw: Sum,
    fetched: Fetched,
}

/// Writes the database of a revision, or finds that it is there. The base holds it.
pub(crate) async fn rewind(
    store: &Store,
    data: &str,
    base: &Manifest,
    revision: i64,
    (identities, into): (Vec<PathBuf>, &Path),
) -> Result<Fetched> {
    make(into)?;
    if let Some(ready) = find(into).filter(|it| it.base == *base && it.revision == revision) {
        return Ok(ready.fetched);
    }
    // Whatever was there is of something else, or not whole.
    remove(&into.join(READY))?;
    let parts = [into.join(BASE), into.join(PART)];
    let made = write(store, (data, base), revision, identities, &parts).await;
    let [brought, part] = &parts;
    remove(brought)?;
    let (facts, made) = match made {
        Ok(made) => made,
        Err(fault) => {
            remove(part)?;
            return Err(fault);
        }
    };
    put_in_place(part, &into.join(SNAPSHOT))?;
    let fetched = Fetched {
        base: base.base(store.url(data)),
        trailer: facts.trailer,
        auth: base.source.auth_enabled,
        rewound: Some(rewound(base, revision, facts.raw.bytes, &made)),
    };
    let ready = Ready {
        base: base.clone(),
        revision,
        raw: facts.raw,
        fetched: fetched.clone(),
    };
    let text = seal(&ready).explain(Cause::Request, "say that it is ready")?;
    write_ready(into, &text)?;
    Ok(fetched)
}

fn rewound(base: &Manifest, revision: i64, bytes: u64, made: &Made) -> Rewound {
    let some = made.leases.iter().take(NAMED);
    Rewound {
        revision,
        base_trailer: base.trailer.clone(),
        bytes,
        leases: u64::try_from(made.leases.len()).unwrap_or(u64::MAX),
        some_leases: some.map(|id| format!("{id:x}")).collect(),
    }
}

/// What is told of one that was read and not written.
pub(crate) fn unwritten(base: &Manifest, revision: i64) -> Rewound {
    let none = Made {
        revision: 0,
        rows: 0,
        leases: std::collections::BTreeSet::new(),
    };
    rewound(base, revision, 0, &none)
}

/// What was made before, if it is still as it was.
fn find(into: &Path) -> Option<Ready> {
    let ready = std::fs::read(into.join(READY)).ok()?;
    let ready: Ready = manifest::open(&ready).ok()?;
    (sum_of(&into.join(SNAPSHOT)).as_ref() == Some(&ready.raw)).then_some(ready)
}

async fn write(
    store: &Store,
    (data, base): (&str, &Manifest),
    revision: i64,
    identities: Vec<PathBuf>,
    [brought, part]: &[PathBuf; 2],
) -> Result<(Facts, Made)> {
    bring(store, data, base, identities, Some(brought)).await?;
    let (url, compacted) = (store.url(data), base.compact_revision);
    let (brought, part) = (brought.clone(), part.clone());
    let written = tokio::task::spawn_blocking(move || {
        let made = materialised(&brought, &part, revision, &url)?;
        let facts = ended(&part, &url)?;
        if (facts.revision, facts.compact_revision) == (revision, compacted) {
            return Ok((facts, made));
        }
        let found = facts.revision;
        let message = format!("{url}: its revision {revision} was written as {found}");
        Err(Fault::new(Cause::Damaged, message))
    });
    written.await.explain(Cause::Request, "rewind")?
}

/// A file on the volume.
struct Disk(File);

impl Source for Disk {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, at)
    }
}

fn materialised(brought: &Path, part: &Path, revision: i64, url: &str) -> Result<Made> {
    let reading = format!("read {}", brought.display());
    let file = File::open(brought).explain(Cause::Request, reading)?;
    let writing = format!("write {}", part.display());
    let to = File::create(part).explain(Cause::Request, writing)?;
    let to = BufWriter::with_capacity(256 << 10, to);
    let revision = u64::try_from(revision).unwrap_or(0);
    let what = format!("rewind {url} to revision {revision}");
    let base = Database::open(Disk(file)).explain(Cause::Damaged, &what)?;
    let made = materialise(&base, revision, to);
    let (_to, made) = made.map_err(|error| Fault::of(blame(&error), &what, &error))?;
    Ok(made)
}

/// Whose fault it is: a volume that is full or sick says nothing of the base.
fn blame(error: &Unmade) -> Cause {
    match error {
        Unmade::Read(Broken::Unreadable(_)) | Unmade::Write(Unwritten::Io(_)) => Cause::Request,
        Unmade::Read(Broken::NotBolt | Broken::Page { .. })
        | Unmade::Write(Unwritten::Order { .. } | Unwritten::TooLarge)
        | Unmade::Outside { .. }
        | Unmade::Row { .. }
        | Unmade::NoBucket(_) => Cause::Damaged,
    }
}

/// Reads what was written, and puts its hash behind it.
fn ended(part: &Path, url: &str) -> Result<Facts> {
    let reading = format!("read {}", part.display());
    let source = File::open(part).explain(Cause::Request, reading)?;
    let (_none, facts) = decode::write(source, Reader::without_hash(), None, url)?;
    let writing = format!("write {}", part.display());
    let file = OpenOptions::new().write(true).open(part);
    let mut file = file.explain(Cause::Request, &writing)?;
    end(&mut file, &facts).explain(Cause::Request, &writing)?;
    file.sync_all().explain(Cause::Request, &writing)?;
    Ok(facts)
}
