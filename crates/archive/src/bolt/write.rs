//! Writes a database from the first page to the last: rows come in order, each page is written once, and at the end the two
//! first ones, which say where the tree begins. Holds two pages of each level, and of large values two rows.
//!
//! The pages are as bbolt would leave them, because etcd goes on with them. A branch has two children at least: bbolt asserts
//! that when it removes rows below it, and etcd would panic at its next compaction. A leaf has two rows, unless it is the last
//! one, so that of values a little larger than a page not half of the space is lost. There is no list of free pages: etcd
//! keeps none in its files.

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

use crate::stream::bolt::{BRANCH, BUCKET, HEADER, LEAF, MAGIC, fnv};

/// Bytes of an element.
const ELEMENT: usize = 16;
/// Rows and children that stay together, however large they are.
const LEAST: usize = 2;
/// No page of bbolt is smaller.
const LEAST_PAGE: u32 = 512;
const META: u16 = 0x04;
/// The format of bbolt, which never changed.
const VERSION: u32 = 2;
/// In the place of a page: that there is no list of free pages.
const NO_FREELIST: u64 = u64::MAX;

/// A database that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// Its bytes cannot be written.
    #[error("the database cannot be written")]
    Io(#[source] io::Error),
    /// A row does not come behind the one before it.
    #[error("a row of {bucket} is out of order")]
    Order {
        /// Name of the bucket.
        bucket: String,
    },
    /// A number does not fit into a page.
    #[error("a row is larger than bbolt can hold")]
    TooLarge,
}

/// The writer.
pub struct Writer<W> {
    to: W,
    page_size: usize,
    /// Number of the next page.
    next: u64,
    /// What stands for each bucket in the tree of all.
    buckets: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<W: Write + Seek> Writer<W> {
    /// Leaves room for the two first pages.
    pub fn new(to: W, page_size: u32) -> Result<Self, Unwritten> {
        let mut writer = Self {
            to,
            page_size: usize::try_from(page_size.max(LEAST_PAGE))
                .map_err(|_large| Unwritten::TooLarge)?,
            next: 0,
            buckets: BTreeMap::new(),
        };
        for _ in 0..2 {
            writer.put(&[])?;
        }
        Ok(writer)
    }

    /// Begins a bucket. Each has one name.
    pub fn bucket(&mut self, name: &[u8]) -> Filling<'_, W> {
        Filling {
            name: name.to_vec(),
            tree: Tree::new(0),
            writer: self,
        }
    }

    /// Writes what stands for the buckets, and the two first pages.
    pub fn finish(mut self) -> Result<W, Unwritten> {
        let mut tree = Tree::new(BUCKET);
        for (name, value) in std::mem::take(&mut self.buckets) {
            tree.row(&mut self, &name, &value)?;
        }
        let root = tree.finish(&mut self)?;
        self.to.seek(SeekFrom::Start(0)).map_err(Unwritten::Io)?;
        let pages = self.next;
        for number in [0, 1] {
            self.next = number;
            self.put(&self.meta(number, root, pages)?)?;
        }
        self.to.flush().map_err(Unwritten::Io)?;
        Ok(self.to)
    }

    /// One of the two first pages; the second one counts.
    fn meta(&self, number: u64, root: u64, pages: u64) -> Result<Vec<u8>, Unwritten> {
        let page_size = u32::try_from(self.page_size).map_err(|_large| Unwritten::TooLarge)?;
        let mut page = header(number, META, 0, 0)?;
        for part in [MAGIC, VERSION, page_size, 0] {
            page.extend(part.to_le_bytes());
        }
        let transaction = number;
        for part in [root, 0, NO_FREELIST, pages, transaction] {
            page.extend(part.to_le_bytes());
        }
        let sum = fnv(page.get(HEADER..).unwrap_or_default());
        page.extend(sum.to_le_bytes());
        Ok(page)
    }

    /// Writes a page, and those that it continues on; its number.
    fn put(&mut self, bytes: &[u8]) -> Result<u64, Unwritten> {
        let number = self.next;
        let size = bytes.len().max(1).next_multiple_of(self.page_size);
        self.to.write_all(bytes).map_err(Unwritten::Io)?;
        let mut missing = size.saturating_sub(bytes.len());
        while missing > 0 {
            let zeros = [0; 4096];
            let zeros = zeros.get(..missing).unwrap_or(&zeros);
            self.to.write_all(zeros).map_err(Unwritten::Io)?;
            missing -= zeros.len();
        }
        let pages = u64::try_from(size / self.page_size).unwrap_or(u64::MAX);
        self.next = self.next.saturating_add(pages);
        Ok(number)
    }
}

/// A bucket that is being written.
pub struct Filling<'a, W> {
    writer: &'a mut Writer<W>,
    name: Vec<u8>,
    tree: Tree,
}

impl<W: Write + Seek> Filling<'_, W> {
    /// Writes the next row, whose key is larger than all before it.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unwritten> {
        if key <= self.tree.last.as_slice() {
            let bucket = String::from_utf8_lossy(&self.name).into_owned();
            return Err(Unwritten::Order { bucket });
        }
        self.tree.row(self.writer, key, value)
    }

    /// Ends the bucket. A small one has no page of its own.
    pub fn finish(self) -> Result<(), Unwritten> {
        let Self { writer, name, tree } = self;
        let mut value = Vec::new();
        let inline = tree.inline(writer.page_size)?;
        let root = match inline {
            Some(_) => 0,
            None => tree.finish(writer)?,
        };
        value.extend(root.to_le_bytes());
        // The sequence of the bucket, which etcd does not use.
        value.extend(0_u64.to_le_bytes());
        value.extend(inline.unwrap_or_default());
        writer.buckets.insert(name, value);
        Ok(())
    }
}

/// The pages of one bucket, leaves first.
struct Tree {
    /// Of each row.
    flag: u32,
    leaf: Node,
    /// Above the leaves.
    branches: Vec<Level>,
    /// Key of the last row.
    last: Vec<u8>,
}

/// Branches of one height. One that is full waits for the one behind it, which must not have a single child.
#[derive(Default)]
struct Level {
    full: Option<Node>,
    node: Node,
}

/// What is on a page.
#[derive(Default)]
struct Node {
    elements: Vec<Element>,
    /// Keys and values, one behind the other.
    data: Vec<u8>,
}

struct Element {
    key: usize,
    value: usize,
    /// The page below, in a branch.
    child: u64,
}

impl Node {
    fn size(&self) -> usize {
        HEADER + ELEMENT * self.elements.len() + self.data.len()
    }

    /// Whether another one of so many bytes goes onto the same page.
    fn takes(&self, bytes: usize, page_size: usize) -> bool {
        self.elements.len() < LEAST || self.size() + ELEMENT + bytes <= page_size
    }

    fn push(&mut self, key: &[u8], value: &[u8], child: u64) {
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
        self.elements.push(Element {
            key: key.len(),
            value: value.len(),
            child,
        });
    }

    fn first_key(&self) -> Vec<u8> {
        let size = self.elements.first().map_or(0, |element| element.key);
        self.data.get(..size).unwrap_or_default().to_vec()
    }

    /// Moves what is behind the first so many elements to another one.
    fn split_off(&mut self, at: usize) -> Self {
        let elements = self.elements.split_off(at.min(self.elements.len()));
        let moved: usize = elements.iter().map(|it| it.key + it.value).sum();
        let data = self.data.split_off(self.data.len().saturating_sub(moved));
        Self { elements, data }
    }

    fn append(&mut self, other: Self) {
        self.elements.extend(other.elements);
        self.data.extend(other.data);
    }

    /// The page, as bytes. `flag` is that of each row.
    fn leaf(&self, number: u64, page_size: usize, flag: u32) -> Result<Vec<u8>, Unwritten> {
        let mut page = header(number, LEAF, self.elements.len(), self.overflow(page_size))?;
        let mut left = ELEMENT * self.elements.len();
        let mut data = 0;
        for element in &self.elements {
            page.extend(flag.to_le_bytes());
            page.extend(number32(left + data)?);
            page.extend(number32(element.key)?);
            page.extend(number32(element.value)?);
            left -= ELEMENT;
            data += element.key + element.value;
        }
        page.extend_from_slice(&self.data);
        Ok(page)
    }

    fn branch(&self, number: u64, page_size: usize) -> Result<Vec<u8>, Unwritten> {
        let count = self.elements.len();
        let mut page = header(number, BRANCH, count, self.overflow(page_size))?;
        let mut left = ELEMENT * self.elements.len();
        let mut data = 0;
        for element in &self.elements {
            page.extend(number32(left + data)?);
            page.extend(number32(element.key)?);
            page.extend(element.child.to_le_bytes());
            left -= ELEMENT;
            data += element.key;
        }
        page.extend_from_slice(&self.data);
        Ok(page)
    }

    fn overflow(&self, page_size: usize) -> usize {
        self.size().div_ceil(page_size).saturating_sub(1)
    }
}

impl Tree {
    fn new(flag: u32) -> Self {
        Self {
            flag,
            leaf: Node::default(),
            branches: Vec::new(),
            last: Vec::new(),
        }
    }

    fn row<W: Write + Seek>(
        &mut self,
        to: &mut Writer<W>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Unwritten> {
        if !self.leaf.takes(key.len() + value.len(), to.page_size) {
            self.put_leaf(to)?;
        }
        self.leaf.push(key, value, 0);
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    fn put_leaf<W: Write + Seek>(&mut self, to: &mut Writer<W>) -> Result<(), Unwritten> {
        let leaf = std::mem::take(&mut self.leaf);
        let page = to.put(&leaf.leaf(to.next, to.page_size, self.flag)?)?;
        self.add(to, 0, &leaf.first_key(), page)
    }

    /// Adds a page to the branches of a height.
    fn add<W: Write + Seek>(
        &mut self,
        to: &mut Writer<W>,
        height: usize,
        key: &[u8],
        page: u64,
    ) -> Result<(), Unwritten> {
        if self.branches.len() <= height {
            self.branches.push(Level::default());
        }
        let Some(level) = self.branches.get_mut(height) else {
            return Ok(());
        };
        let mut ready = None;
        if !level.node.takes(key.len(), to.page_size) {
            ready = level.full.replace(std::mem::take(&mut level.node));
        }
        level.node.push(key, &[], page);
        match ready {
            Some(node) => self.put_branch(to, height, &node),
            None => Ok(()),
        }
    }

    fn put_branch<W: Write + Seek>(
        &mut self,
        to: &mut Writer<W>,
        height: usize,
        node: &Node,
    ) -> Result<(), Unwritten> {
        let page = to.put(&node.branch(to.next, to.page_size)?)?;
        self.add(to, height + 1, &node.first_key(), page)
    }

    /// All of it as one leaf within its bucket, if it is as small as bbolt has those.
    fn inline(&self, page_size: usize) -> Result<Option<Vec<u8>>, Unwritten> {
        if !self.branches.is_empty() || self.leaf.size() > page_size / 4 {
            return Ok(None);
        }
        self.leaf.leaf(0, page_size, self.flag).map(Some)
    }

    /// Writes what is left; the page at which it begins.
    fn finish<W: Write + Seek>(mut self, to: &mut Writer<W>) -> Result<u64, Unwritten> {
        if self.branches.is_empty() {
            return to.put(&self.leaf.leaf(to.next, to.page_size, self.flag)?);
        }
        self.put_leaf(to)?;
        let mut height = 0;
        loop {
            let level = self.branches.get_mut(height).map(std::mem::take);
            let Level { full, mut node } = level.unwrap_or_default();
            if let Some(mut full) = full {
                let missing = LEAST.saturating_sub(node.elements.len());
                let kept = full.elements.len().saturating_sub(missing);
                let mut moved = full.split_off(if kept < LEAST { 0 } else { kept });
                moved.append(node);
                node = moved;
                if !full.elements.is_empty() {
                    self.put_branch(to, height, &full)?;
                }
            }
            if height + 1 == self.branches.len() {
                return match node.elements.as_slice() {
                    // A tree of one page has no branch.
                    [only] => Ok(only.child),
                    _several => to.put(&node.branch(to.next, to.page_size)?),
                };
            }
            self.put_branch(to, height, &node)?;
            height += 1;
        }
    }
}

fn header(number: u64, flags: u16, count: usize, overflow: usize) -> Result<Vec<u8>, Unwritten> {
    let count = u16::try_from(count).map_err(|_large| Unwritten::TooLarge)?;
    let mut page = number.to_le_bytes().to_vec();
    page.extend(flags.to_le_bytes());
    page.extend(count.to_le_bytes());
    page.extend(number32(overflow)?);
    Ok(page)
}

fn number32(number: usize) -> Result<[u8; 4], Unwritten> {
    let number = u32::try_from(number).map_err(|_large| Unwritten::TooLarge)?;
    Ok(number.to_le_bytes())
}
