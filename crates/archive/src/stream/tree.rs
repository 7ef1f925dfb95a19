//! The tree of pages, of which eight bytes are kept for each page: the last child of a branch, or the last revision of a
//! leaf. The pages that hold buckets, or what etcd says about itself, are looked at more closely as they pass ([`Notes`]).
//! However many pages a file is made to have of a kind, what is kept of them is bounded.

use std::collections::BTreeMap;

use super::Damage;
use super::bolt::{Meta, Page, Shape, revision_at};
use super::notes::{CHILDREN, Notes, Rows};
use super::told::{Of, Told};

/// The value of a page that is a branch; the rest of it is the last child.
const BRANCH: u64 = 1 << 63;
/// The value of a leaf without rows.
pub(super) const EMPTY: u64 = 1 << 62;
/// No tree of bbolt is as deep; a circle is.
const DEPTH: usize = 64;
/// Sizes of keys of the bucket `key`: a revision, and one that deletes.
pub(super) const ROW: [usize; 2] = [17, 18];
/// Pages over which a leaf of small buckets can extend.
const LONGEST: usize = 4;
/// Leaves whose last revision may be waited for at once. Within one of large values each page may look like another one.
const AWAITED: usize = 16_384;

pub(super) struct Tree {
    meta: Meta,
    size: usize,
    last: Vec<u64>,
    notes: Notes,
    /// Revisions that begin, or go on, at this offset; of which page.
    awaited: BTreeMap<(u64, u64), Partial>,
    long: Vec<Long>,
}

/// A revision of which some bytes are still to come.
#[derive(Clone, Copy)]
struct Partial {
    value: u64,
    missing: u32,
}

impl Partial {
    fn append(value: u64, byte: u8) -> u64 {
        (value << 8) | u64::from(byte)
    }
}

/// What the whole file says.
pub(super) struct Known {
    pub(super) revision: i64,
    pub(super) compact_revision: i64,
    pub(super) told: Told,
}

/// A page that continues on those behind it.
struct Long {
    number: u64,
    bytes: Vec<u8>,
    missing: usize,
}

impl Tree {
    /// From the first bytes of a file.
    pub(super) fn new(start: &[u8]) -> Option<Self> {
        let meta = Meta::parse(start)?;
        Some(Self {
            meta,
            size: usize::try_from(meta.page_size).ok()?,
            last: Vec::new(),
            notes: Notes::default(),
            awaited: BTreeMap::new(),
            long: Vec::new(),
        })
    }

    pub(super) fn page_size(&self) -> usize {
        self.size
    }

    /// Takes the next page.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let number = self.pages();
        if number < 2 {
            let newer = Meta::parse(bytes).filter(|meta| {
                meta.page_size == self.meta.page_size && meta.transaction > self.meta.transaction
            });
            self.meta = newer.unwrap_or(self.meta);
            self.last.push(0);
            self.reserve();
            return;
        }
        self.take_awaited(bytes, number);
        self.take_long(bytes);
        let value = Page::parse(bytes, number).and_then(|page| self.value(page, number, bytes));
        self.last.push(value.unwrap_or(0));
    }

    /// Takes the place for all pages at once, where that can be had: memory that is not written to is not used, and a list that
    /// grows is copied.
    fn reserve(&mut self) {
        let pages = self.said().unwrap_or(0).min(super::MOST);
        let pages = usize::try_from(pages).unwrap_or(0);
        drop(
            self.last
                .try_reserve_exact(pages.saturating_sub(self.last.len())),
        );
    }

    fn pages(&self) -> u64 {
        u64::try_from(self.last.len()).unwrap_or(u64::MAX)
    }

    /// What is kept of a page.
    fn value(&mut self, page: Page<'_>, number: u64, bytes: &[u8]) -> Option<u64> {
        let Some(last) = page.count.checked_sub(1) else {
            return (page.shape == Shape::Leaf).then_some(EMPTY);
        };
        match page.shape {
            Shape::Branch => {
                let (_, first_key) = page.child(0)?;
                if !ROW.contains(&first_key) && page.count <= CHILDREN {
                    self.notes.branch(number, page, self.meta.root);
                }
                let (child, _) = page.child(last)?;
                (child < EMPTY).then_some(BRANCH | child)
            }
            Shape::Leaf => {
                let first = page.leaf(0)?;
                if first.is_bucket || !ROW.contains(&first.key_size) {
                    self.look_closer(page, number, bytes);
                    return None;
                }
                let last = page.leaf(last)?;
                ROW.contains(&last.key_size).then_some(())?;
                match revision_at(bytes, last.key_at) {
                    Some(revision) => (revision < EMPTY).then_some(revision),
                    None => self.await_key(number, last.key_at, page.overflow, bytes),
                }
            }
        }
    }

    /// The last key of a leaf of large values lies on a later page, or begins on this one and goes on there.
    fn await_key(
        &mut self,
        number: u64,
        key_at: usize,
        overflow: u32,
        bytes: &[u8],
    ) -> Option<u64> {
        let here = bytes.get(key_at..).unwrap_or_default();
        let begun = Partial {
            value: here.iter().copied().fold(0, Partial::append),
            missing: 8_u32.checked_sub(u32::try_from(here.len()).ok()?)?,
        };
        let size = u64::try_from(self.size).ok()?;
        let key_at = u64::try_from(key_at).ok()?;
        let end = size.checked_mul(u64::from(overflow).checked_add(1)?)?;
        if key_at < end {
            let at = number.checked_mul(size)?.checked_add(key_at.max(size))?;
            self.awaited.insert((at, number), begun);
        }
        // The farthest is the least likely one. Without its revision its leaf is none, which is noticed if it counts.
        if self.awaited.len() > AWAITED {
            self.awaited.pop_last();
        }
        None
    }

    fn take_awaited(&mut self, bytes: &[u8], number: u64) {
        let size = u64::try_from(self.size).unwrap_or(u64::MAX);
        let start = number.saturating_mul(size);
        let end = start.saturating_add(size);
        let later = self.awaited.split_off(&(end, 0));
        let now = std::mem::replace(&mut self.awaited, later);
        for ((at, page), mut partial) in now {
            let from = usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
            for byte in bytes.iter().skip(from) {
                if partial.missing == 0 {
                    break;
                }
                partial.value = Partial::append(partial.value, *byte);
                partial.missing -= 1;
            }
            if partial.missing > 0 {
                self.awaited.insert((end, page), partial);
                continue;
            }
            let place = usize::try_from(page).ok();
            if let Some(last) = place.and_then(|place| self.last.get_mut(place)) {
                *last = if partial.value < EMPTY {
                    partial.value
                } else {
                    0
                };
            }
        }
    }

    /// A leaf that is not of rows: now, or once the pages are there over which it extends.
    fn look_closer(&mut self, page: Page<'_>, number: u64, bytes: &[u8]) {
        let longer = usize::try_from(page.overflow).unwrap_or(usize::MAX);
        match longer.min(LONGEST - 1) {
            0 => self.note(number, bytes),
            missing => self.long.push(Long {
                number,
                bytes: bytes.to_vec(),
                missing,
            }),
        }
    }

    fn take_long(&mut self, bytes: &[u8]) {
        for mut long in std::mem::take(&mut self.long) {
            long.bytes.extend_from_slice(bytes);
            long.missing = long.missing.saturating_sub(1);
            if long.missing == 0 {
                self.note(long.number, &long.bytes);
            } else {
                self.long.push(long);
            }
        }
    }

    fn note(&mut self, number: u64, bytes: &[u8]) {
        if let Some(page) = Page::parse(bytes, number) {
            self.notes.leaf(number, page, self.meta.root);
        }
    }

    /// Pages that the file says it has, once its two first ones have passed. What is behind them is of no use.
    pub(super) fn said(&self) -> Option<u64> {
        (self.pages() >= 2).then_some(self.meta.pages)
    }

    /// Whether so many pages are all that the file says it has.
    pub(super) fn check_pages(&self) -> Result<(), Damage> {
        let (pages, said) = (self.pages(), self.meta.pages);
        if pages == said {
            return Ok(());
        }
        Err(Damage::Pages { pages, said })
    }

    /// What it all says, once all pages have passed.
    pub(super) fn known(mut self) -> Result<Known, Damage> {
        for long in std::mem::take(&mut self.long) {
            self.note(long.number, &long.bytes);
        }
        self.check_pages()?;
        let root = self.notes.below(self.meta.root)?;
        let rows = root.iter().find_map(|leaf| leaf.rows);
        let newest = match rows.ok_or(Damage::Tree("it has no bucket for keys"))? {
            Rows::Here(newest) => newest,
            Rows::At(page) => self.newest(page)?,
        };
        let mut told = Told::default();
        for of in Of::ALL {
            let within = root.iter().map(|leaf| leaf.within.only(of));
            told = match root.iter().find_map(|leaf| leaf.at(of)) {
                Some(page) => told.and(self.notes.told(page)?.only(of)),
                None => within.fold(told, Told::and),
            };
        }
        // An etcd without any key is at revision 1. Where a compaction removed the newest rows, which were deletions, etcd
        // goes on from the revision of the compaction.
        let number = |revision| {
            i64::try_from(revision).map_err(|_large| Damage::Tree("a revision is too large"))
        };
        Ok(Known {
            revision: number(newest.max(told.compacted).max(1))?,
            compact_revision: number(told.compacted)?,
            told,
        })
    }

    /// The last revision below a page.
    fn newest(&self, mut page: u64) -> Result<u64, Damage> {
        for _ in 0..DEPTH {
            let value = usize::try_from(page)
                .ok()
                .and_then(|page| self.last.get(page));
            match value.copied().unwrap_or(0) {
                0 => return Err(Damage::Tree("a page of keys is not one")),
                EMPTY => return Ok(0),
                branch if branch & BRANCH != 0 => page = branch & !BRANCH,
                revision => return Ok(revision),
            }
        }
        Err(Damage::Tree("its pages form a circle"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_leaves_wait_for_their_last_revision_they_are_bounded() {
        let mut tree = Tree {
            meta: Meta {
                page_size: 4096,
                root: 2,
                pages: 1 << 20,
                transaction: 1,
            },
            size: 4096,
            last: vec![0, 0],
            notes: Notes::default(),
            awaited: BTreeMap::new(),
            long: Vec::new(),
        };
        // A leaf of one row that says to lie a gigabyte further on, over as many pages as there can be.
        let mut page = vec![0; 4096];
        page[8..12].copy_from_slice(&[2, 0, 1, 0]);
        page[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        page[20..24].copy_from_slice(&(1_u32 << 30).to_le_bytes());
        page[24..28].copy_from_slice(&17_u32.to_le_bytes());
        for number in 2..20_000_u64 {
            page[..8].copy_from_slice(&number.to_le_bytes());
            tree.take(&page);
        }
        assert_eq!(tree.awaited.len(), AWAITED);
        // Those that come first stay.
        assert!(tree.awaited.keys().any(|(_, page)| *page == 2));
        assert!(tree.newest(19_999).is_err());
    }
}
