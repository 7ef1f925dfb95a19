//! What is kept of pages that could be of the root, or of a bucket in which etcd speaks of itself. Which of them counts is known
//! only at the end: bbolt writes in no order, and leaves old pages where they were, in an idle cluster more of these than of
//! any other kind. So little is kept of each, and nothing more than what the root names once that has passed.

use super::Damage;
use super::bolt::{Bucket, Page, revision_at};
use super::told::{Of, Told};
use super::tree::{EMPTY, ROW};

/// Children of a branch above leaves of buckets. etcd has about a dozen buckets.
pub(super) const CHILDREN: usize = 32;
/// Pages of which something is kept: some 40 MiB at most. In a database of 8 GiB that is empty but for what it was, and whose
/// root lies at its end, there may be as many.
const MOST: usize = 500_000;
/// To one branch of which something is kept, which may have [`CHILDREN`] numbers. Only those of leases are many, and they do
/// not count.
const FOR_A_BRANCH: usize = 8;

/// Where the rows of the bucket `key` are.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    At(u64),
    /// In the leaf of buckets; the last revision.
    Here(u64),
}

/// A leaf of buckets.
#[derive(Clone, Copy, Default)]
pub(super) struct Buckets {
    pub(super) rows: Option<Rows>,
    /// Where those of [`Of::ALL`] begin; 0 where they are in it, or are not.
    at: [u64; 3],
    /// What small buckets say that lie in it.
    pub(super) within: Told,
}

impl Buckets {
    fn parse(page: Page<'_>) -> Self {
        let mut buckets = Self::default();
        for leaf in (0..page.count).map_while(|index| page.leaf(index)) {
            let Some((key, value)) = page.entry(leaf).filter(|_| leaf.is_bucket) else {
                continue;
            };
            if key == b"key" {
                buckets.rows = Bucket::parse(value).and_then(rows);
            }
            let Some(of) = Of::named(key) else {
                continue;
            };
            let places = Of::ALL.iter().zip(&mut buckets.at);
            match Bucket::parse(value) {
                Some(Bucket::At(page)) => places
                    .filter(|(place, _)| **place == of)
                    .for_each(|(_, at)| *at = page),
                Some(Bucket::Inline(page)) => {
                    buckets.within = buckets.within.and(Told::read(page).only(of));
                }
                None => {}
            }
        }
        buckets
    }

    /// The page at which a bucket begins.
    pub(super) fn at(&self, of: Of) -> Option<u64> {
        let mut places = Of::ALL.iter().zip(self.at);
        let (_, at) = places.find(|(place, _)| **place == of)?;
        (at != 0).then_some(at)
    }

    fn says(&self) -> bool {
        self.rows.is_some() || self.at != [0; 3] || self.within != Told::default()
    }
}

fn rows(bucket: Bucket<'_>) -> Option<Rows> {
    let page = match bucket {
        Bucket::At(page) => return Some(Rows::At(page)),
        Bucket::Inline(page) => page,
    };
    let Some(last) = page.count.checked_sub(1) else {
        return Some(Rows::Here(0));
    };
    let (key, _) = page.entry(page.leaf(last)?)?;
    let revision = revision_at(key, 0).filter(|revision| *revision < EMPTY)?;
    ROW.contains(&key.len()).then_some(Rows::Here(revision))
}

/// What is kept, in the order of pages.
pub(super) struct Notes {
    /// Pages of each kind.
    most: usize,
    branches: Vec<(u64, Box<[u64]>)>,
    buckets: Vec<(u64, Buckets)>,
    told: Vec<(u64, Told)>,
    /// The pages that a root has named which is a leaf: no other one counts.
    named: Option<[u64; 3]>,
    /// Something was left out, because there was too much of it.
    is_full: bool,
}

impl Default for Notes {
    fn default() -> Self {
        Self {
            most: MOST,
            branches: Vec::new(),
            buckets: Vec::new(),
            told: Vec::new(),
            named: None,
            is_full: false,
        }
    }
}

impl Notes {
    /// A branch that is not of rows.
    pub(super) fn branch(&mut self, number: u64, page: Page<'_>, root: u64) {
        if !self.may_count(number) {
            return;
        }
        let most = if number == root {
            usize::MAX
        } else {
            self.most / FOR_A_BRANCH
        };
        let children = (0..page.count).filter_map(|index| page.child(index));
        let children = children.map(|(child, _)| child).collect();
        self.is_full |= !keep(&mut self.branches, most, number, children);
    }

    /// A leaf that is not of rows.
    pub(super) fn leaf(&mut self, number: u64, page: Page<'_>, root: u64) {
        if !self.may_count(number) {
            return;
        }
        let buckets = Buckets::parse(page);
        if number == root {
            self.named = Some(buckets.at);
        }
        let most = if number == root {
            usize::MAX
        } else {
            self.most
        };
        let mut kept = true;
        if number == root || buckets.says() {
            kept &= keep(&mut self.buckets, most, number, buckets);
        }
        let told = Told::read(page);
        if told != Told::default() {
            kept &= keep(&mut self.told, self.most, number, told);
        }
        self.is_full |= !kept;
    }

    fn may_count(&self, number: u64) -> bool {
        self.named.is_none_or(|named| named.contains(&number))
    }

    /// The leaves of buckets below a page.
    pub(super) fn below(&self, page: u64) -> Result<Vec<&Buckets>, Damage> {
        let pages = self.leaves(page)?;
        let leaves = pages
            .into_iter()
            .filter_map(|page| find(&self.buckets, page));
        Ok(leaves.collect())
    }

    /// What the leaves below a page say.
    pub(super) fn told(&self, page: u64) -> Result<Told, Damage> {
        let pages = self.leaves(page)?;
        let leaves = pages.into_iter().filter_map(|page| find(&self.told, page));
        Ok(leaves.fold(Told::default(), |told, leaf| told.and(*leaf)))
    }

    /// The leaves below a page, whether or not anything is kept of them.
    fn leaves(&self, page: u64) -> Result<Vec<u64>, Damage> {
        let mut leaves = Vec::new();
        let mut below = vec![page];
        for _ in 0..CHILDREN * CHILDREN {
            let Some(page) = below.pop() else {
                return Ok(leaves);
            };
            match find(&self.branches, page) {
                // Which pages it needs was not known when they passed. etcd has a few small keys in such a bucket.
                Some(_) if self.named.is_some_and(|named| named.contains(&page)) => {
                    return Err(Damage::Tree("a bucket of etcd's own is too large"));
                }
                Some(children) => below.extend(children),
                None if self.is_full && !self.is_kept(page) => {
                    return Err(Damage::Tree(
                        "more of its pages are of buckets than etcd leaves",
                    ));
                }
                None => leaves.push(page),
            }
        }
        Err(Damage::Tree("its pages form a circle"))
    }

    fn is_kept(&self, page: u64) -> bool {
        find(&self.buckets, page).is_some() || find(&self.told, page).is_some()
    }
}

fn find<T>(all: &[(u64, T)], page: u64) -> Option<&T> {
    let at = all
        .binary_search_by_key(&page, |(number, _)| *number)
        .ok()?;
    all.get(at).map(|(_, found)| found)
}

/// Keeps it at its place, which is the last one but for a page that took several more to be read; false if it is too much.
fn keep<T>(all: &mut Vec<(u64, T)>, most: usize, number: u64, value: T) -> bool {
    if all.len() >= most {
        return false;
    }
    let at = all.partition_point(|(page, _)| *page < number);
    all.insert(at, (number, value));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u64 = 40;

    /// A leaf with one element.
    fn leaf(number: u64, flag: u32, key: &[u8], value: &[u8]) -> Vec<u8> {
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let mut page = number.to_le_bytes().to_vec();
        page.extend([2, 0, 1, 0, 0, 0, 0, 0]);
        for part in [flag, 16, size(key), size(value)] {
            page.extend(part.to_le_bytes());
        }
        page.extend(key);
        page.extend(value);
        page
    }

    fn note(notes: &mut Notes, number: u64, page: &[u8]) {
        notes.leaf(number, Page::parse(page, number).unwrap(), ROOT);
    }

    /// The bucket `meta`, at a page.
    fn root(number: u64, at: u64) -> Vec<u8> {
        let mut bucket = at.to_le_bytes().to_vec();
        bucket.extend([0; 8]);
        leaf(number, 1, b"meta", &bucket)
    }

    fn version(number: u64) -> Vec<u8> {
        leaf(number, 0, b"storageVersion", b"3.6.0")
    }

    #[test]
    fn what_passes_behind_the_root_is_kept_only_if_the_root_names_it() {
        let mut notes = Notes::default();
        for number in (2..90).filter(|number| *number != ROOT) {
            note(&mut notes, number, &version(number));
            if number == ROOT - 1 {
                note(&mut notes, ROOT, &root(ROOT, 70));
            }
        }
        let kept: Vec<u64> = notes.told.iter().map(|(number, _)| *number).collect();
        assert_eq!(kept, (2..ROOT).chain([70]).collect::<Vec<u64>>());
        let found = notes.below(ROOT).unwrap();
        assert_eq!(found.first().and_then(|leaf| leaf.at(Of::Meta)), Some(70));
        assert!(notes.told(70).unwrap().version().is_some());
    }

    #[test]
    fn however_many_pages_are_of_buckets_what_is_kept_is_bounded() {
        let mut notes = Notes {
            most: 10,
            ..Notes::default()
        };
        for number in 2..ROOT {
            note(&mut notes, number, &version(number));
            note(&mut notes, 100 + number, &root(100 + number, 7));
        }
        note(&mut notes, ROOT, &root(ROOT, 5));
        assert_eq!((notes.told.len(), notes.buckets.len()), (10, 11));
        // What was kept counts; what may have been left out is not taken for one that says nothing.
        assert_eq!(notes.below(ROOT).unwrap().len(), 1);
        assert!(notes.told(5).unwrap().version().is_some());
        assert!(matches!(notes.told(30), Err(Damage::Tree(_))));
    }
}
