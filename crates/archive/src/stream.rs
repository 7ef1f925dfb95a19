//! Reads a snapshot as it passes, once, in pieces of any size: its newest revision, which no call of etcd tells, its
//! compact revision, and whether the hash at its end is that of what came before. Keeps eight bytes for each page.
//!
//! A snapshot is a bbolt file with 32 bytes of SHA-256 behind it. Streams have been seen to end early without an error, so
//! what has no such end is damaged, whatever it holds. A database file that was copied has none: it is taken on request only
//! ([`Reader::without_hash`]), and given one.

pub(crate) mod bolt;
mod notes;
mod told;
mod tree;

use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::manifest::Sum;
use tree::Tree;

/// Bytes of the hash at the end.
const TRAILER: usize = 32;
/// Enough to read the size of pages from.
const START: usize = 512;
/// Pages that a database can say it has: 64 GiB, with those of most machines. etcd recommends 8 GiB; eight bytes for each of so
/// many still fit into the memory of a Job.
const MOST: u64 = 1 << 24;
/// Bytes that a file may go on behind its last page, and behind twice its size.
const AHEAD: u64 = 1 << 30;

/// What a snapshot told while it passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Newest revision in it: that at which etcd serves once it is restored.
    pub revision: i64,
    /// Revision up to which history was compacted away; 0 before the first compaction.
    pub compact_revision: i64,
    /// All of its bytes, the hash at the end included.
    pub raw: Sum,
    /// The hash at its end, in hexadecimal digits.
    pub trailer: String,
    /// Version that an etcd must have at least to start on it, such as `3.6.0`; absent where it does not say.
    pub version: Option<String>,
    /// Authentication was on when it was made.
    pub auth: bool,
}

/// What is wrong with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not begin as a file of bbolt.
    #[error("it is not a database of etcd")]
    NotBolt,
    /// It broke off.
    #[error("it ends after {bytes} bytes, without its hash")]
    Short {
        /// How many came.
        bytes: u64,
    },
    /// All of its pages are there, and no hash behind them.
    #[error("it has no hash at its end")]
    NoHash,
    /// The hash at its end is that of something else.
    #[error("the hash at its end differs from its content")]
    Trailer,
    /// It says that it is larger than any database of etcd.
    #[error("it says that it has {said} pages, which no database of etcd has")]
    Large {
        /// How many there should be.
        said: u64,
    },
    /// It has another size than it says.
    #[error("it has {pages} pages, and says that it has {said}")]
    Pages {
        /// How many came.
        pages: u64,
        /// How many there should be.
        said: u64,
    },
    /// Its tree of pages leads nowhere.
    #[error("its newest revision cannot be found: {0}")]
    Tree(&'static str),
}

/// The reader.
pub struct Reader {
    /// The page that is being filled; at the end, the hash.
    page: Vec<u8>,
    tree: Option<Tree>,
    hash: Sha256,
    bytes: u64,
    /// What is at the end is not compared.
    hashless: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Before the first byte.
    pub fn new() -> Self {
        Self {
            page: Vec::new(),
            tree: None,
            hash: Sha256::new(),
            bytes: 0,
            hashless: false,
        }
    }

    /// The same for a file that is taken without its hash, or with one that is wrong. A file that was copied may go on behind
    /// its last page, because bbolt lets files grow ahead; whatever is there is passed over.
    pub fn without_hash() -> Self {
        Self {
            hashless: true,
            ..Self::new()
        }
    }

    /// Takes the next bytes. An error is final.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), Damage> {
        self.bytes = self.bytes.saturating_add(length(bytes));
        self.check_length()?;
        while !bytes.is_empty() {
            let size = self.tree.as_ref().map_or(START, Tree::page_size);
            let missing = size.saturating_sub(self.page.len()).min(bytes.len());
            let (now, later) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
            self.page.extend_from_slice(now);
            bytes = later;
            if self.page.len() >= size {
                self.take_page()?;
            }
        }
        Ok(())
    }

    /// bbolt lets a file grow ahead by as much as it is mapped: to twice its size, or by 1 GiB. What is longer has no end.
    fn check_length(&self) -> Result<(), Damage> {
        let Some(expected) = self.expected() else {
            return Ok(());
        };
        let longest = expected.saturating_mul(2).saturating_add(AHEAD);
        if self.bytes <= longest {
            return Ok(());
        }
        let tree = self.tree.as_ref();
        let said = tree.and_then(Tree::said).unwrap_or(0);
        let page = tree.and_then(|tree| u64::try_from(tree.page_size()).ok());
        let pages = self.bytes.checked_div(page.unwrap_or(1)).unwrap_or(0);
        Err(Damage::Pages { pages, said })
    }

    /// A page is full, or as much of the first one as its size is read from.
    fn take_page(&mut self) -> Result<(), Damage> {
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(Tree::new(&self.page).ok_or(Damage::NotBolt)?),
        };
        if self.page.len() >= tree.page_size() {
            if tree.said().is_none() || tree.check_pages().is_err() {
                self.hash.update(&self.page);
                tree.take(&self.page);
            } else if !self.hashless {
                // Nothing that comes can make it whole, and it may come without end.
                let said = tree.said().unwrap_or(0);
                let pages = said.saturating_add(1);
                return Err(Damage::Pages { pages, said });
            }
            self.page.clear();
            if let Some(said) = tree.said().filter(|said| *said >= MOST) {
                return Err(Damage::Large { said });
            }
        }
        Ok(())
    }

    /// Bytes that it will have, the hash at its end included; `None` until it has said so.
    pub fn expected(&self) -> Option<u64> {
        let tree = self.tree.as_ref()?;
        let page = u64::try_from(tree.page_size()).ok()?;
        let trailer = u64::try_from(TRAILER).ok()?;
        Some(tree.said()?.saturating_mul(page).saturating_add(trailer))
    }

    /// After the last byte. For a file that is taken without its hash the facts are those of what it becomes: of so many bytes
    /// of it, with [`Facts::trailer`] behind them.
    pub fn finish(mut self) -> Result<Facts, Damage> {
        let bytes = self.bytes;
        let tree = self.tree.ok_or(Damage::Short { bytes })?;
        // Pages are multiples of 512 bytes: what is left over is the hash, all of it or nothing that can be used.
        if !self.hashless && self.page.len() != TRAILER {
            let whole = self.page.is_empty() && tree.check_pages().is_ok();
            return Err(if whole {
                Damage::NoHash
            } else {
                Damage::Short { bytes }
            });
        }
        let hash = self.hash.clone().finalize();
        if !self.hashless && hash.as_slice() != self.page.as_slice() {
            return Err(Damage::Trailer);
        }
        self.hash.update(hash.as_slice());
        let page = u64::try_from(tree.page_size()).unwrap_or(u64::MAX);
        let pages = tree.said().unwrap_or(0).saturating_mul(page);
        let known = tree.known()?;
        Ok(Facts {
            revision: known.revision,
            compact_revision: known.compact_revision,
            raw: Sum {
                bytes: pages.saturating_add(length(&hash)),
                sha256: hex(&self.hash.finalize()),
            },
            trailer: hex(&hash),
            version: known.told.version().map(|version| version.to_string()),
            // etcd writes it when authentication is switched on for the first time.
            auth: known.told.auth == Some(true),
        })
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
