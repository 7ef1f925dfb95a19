//! Reads rows of buckets in their order. Holds a path of pages from the root to a leaf, and of a leaf of large values no more
//! than a megabyte and a row: how much memory is taken depends on the largest value, and not on the size of the file.

use std::io;

use crate::stream::bolt::{Bucket as Found, HEADER, Leaf, Meta, Page, Shape};

/// A page and those that continue it are read at once up to this size; the rows of a longer leaf one by one.
const AT_ONCE: u64 = 1 << 20;
/// Bytes of an element, which says where a row or a child is.
const ELEMENT: u64 = 16;
/// etcd takes requests of 1.5 MiB where it is not told otherwise, and warns beyond ten.
const LARGEST: usize = 64 << 20;
/// Bytes of a page from which its meta is read.
const META: usize = 80;

/// Bytes that can be read at any place.
pub trait Source {
    /// Fills all of `into` with what is there from byte `at` on.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for [u8] {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(at).ok();
        let end = start.and_then(|start| start.checked_add(into.len()));
        let range = start.zip(end).and_then(|(start, end)| self.get(start..end));
        into.copy_from_slice(range.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read_at(at, into)
    }
}

/// A file that cannot be read, or makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// Its bytes cannot be had.
    #[error("the database cannot be read")]
    Unreadable(#[source] io::Error),
    /// It does not begin as a file of bbolt.
    #[error("it is not a database of etcd")]
    NotBolt,
    /// A page is not what it should be.
    #[error("page {page} {what}")]
    Page {
        /// Its number.
        page: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// A database, of which nothing but the beginning was read.
pub struct Database<S> {
    source: S,
    meta: Meta,
}

/// A bucket: rows under a name.
pub struct Bucket {
    /// Its name.
    pub name: Vec<u8>,
    root: Root,
}

/// Where its rows are.
enum Root {
    At(u64),
    /// In the bucket itself, as those of small ones are.
    Inline(Vec<u8>),
}

impl<S: Source> Database<S> {
    /// Reads where its tree begins.
    pub fn open(source: S) -> Result<Self, Broken> {
        let mut page = [0; META];
        source.read_at(0, &mut page).map_err(Broken::Unreadable)?;
        let first = Meta::parse(&page).ok_or(Broken::NotBolt)?;
        let second = u64::from(first.page_size);
        source
            .read_at(second, &mut page)
            .map_err(Broken::Unreadable)?;
        let newer = Meta::parse(&page).filter(|meta| {
            meta.page_size == first.page_size && meta.transaction > first.transaction
        });
        let meta = newer.unwrap_or(first);
        Ok(Self { source, meta })
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.meta.page_size
    }

    /// Its buckets, in the order of their names.
    pub fn buckets(&self) -> Result<Vec<Bucket>, Broken> {
        let mut found = Vec::new();
        let mut rows = self.walk(Root::At(self.meta.root), true)?;
        while let Some((name, value)) = rows.read()? {
            let root = match Found::parse(value) {
                Some(Found::At(page)) => Root::At(page),
                Some(Found::Inline(_)) => Root::Inline(value.to_vec()),
                None => return Err(broken(self.meta.root, "holds a bucket without rows")),
            };
            let name = name.to_vec();
            found.push(Bucket { name, root });
        }
        Ok(found)
    }

    /// The rows of a bucket, from the first one on.
    pub fn rows(&self, bucket: &Bucket) -> Result<Rows<'_, S>, Broken> {
        let root = match &bucket.root {
            Root::At(page) => Root::At(*page),
            Root::Inline(value) => Root::Inline(value.clone()),
        };
        self.walk(root, false)
    }

    fn walk(&self, root: Root, of_buckets: bool) -> Result<Rows<'_, S>, Broken> {
        let mut rows = Rows {
            database: self,
            of_buckets,
            path: Vec::new(),
            left: self.meta.pages,
            key: Vec::new(),
            value: Vec::new(),
        };
        let loaded = match root {
            Root::At(page) => rows.load(page)?,
            Root::Inline(value) => inline(value)?,
        };
        rows.path.push(loaded);
        Ok(rows)
    }
}

fn broken(page: u64, what: &'static str) -> Broken {
    Broken::Page { page, what }
}

/// A page on the way to a row.
struct Loaded {
    number: u64,
    /// Where it begins in the file; `None` where all of it is here.
    at: Option<u64>,
    /// It, or as much of it as is read at once.
    bytes: Vec<u8>,
    /// Bytes of it before what is here begins: those of the bucket around it.
    skipped: usize,
    /// Bytes of it and of the pages that continue it.
    size: u64,
    /// The next of its elements.
    next: usize,
}

impl Loaded {
    fn page(&self) -> Result<Page<'_>, Broken> {
        let bytes = self.bytes.get(self.skipped..).unwrap_or_default();
        let page = Page::parse(bytes, self.number);
        page.ok_or_else(|| broken(self.number, "is not one of rows"))
    }
}

fn inline(value: Vec<u8>) -> Result<Loaded, Broken> {
    let loaded = Loaded {
        number: 0,
        at: None,
        size: length(&value),
        bytes: value,
        skipped: HEADER,
        next: 0,
    };
    loaded.page()?;
    Ok(loaded)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Rows of a bucket.
pub struct Rows<'a, S> {
    database: &'a Database<S>,
    /// These are the buckets themselves.
    of_buckets: bool,
    path: Vec<Loaded>,
    /// Pages that may still be read: a tree has no page twice.
    left: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Key and value of a row.
pub type Row<'a> = (&'a [u8], &'a [u8]);

/// The next thing on the path.
enum Next {
    Up,
    Down(u64),
    Row(Leaf),
}

impl<S: Source> Rows<'_, S> {
    /// Key and value of the next row; `None` behind the last one. An error is final.
    pub fn read(&mut self) -> Result<Option<Row<'_>>, Broken> {
        loop {
            let Some(top) = self.path.last_mut() else {
                return Ok(None);
            };
            match next(top)? {
                Next::Up => drop(self.path.pop()),
                Next::Down(page) => {
                    let loaded = self.load(page)?;
                    self.path.push(loaded);
                }
                Next::Row(leaf) => {
                    self.take(leaf)?;
                    return Ok(Some((&self.key, &self.value)));
                }
            }
        }
    }

    /// Reads a page, and as much of those that continue it as is wanted at once.
    fn load(&mut self, number: u64) -> Result<Loaded, Broken> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| broken(number, "is one of a circle"))?;
        let Database { source, meta } = self.database;
        let size = u64::from(meta.page_size);
        let at = number.checked_mul(size).filter(|_| number < meta.pages);
        let at = at.ok_or_else(|| broken(number, "is behind the last one"))?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        source.read_at(at, &mut bytes).map_err(Broken::Unreadable)?;
        let page = Page::parse(&bytes, number);
        let page = page.ok_or_else(|| broken(number, "is not one of rows"))?;
        let (shape, pages) = (page.shape, u64::from(page.overflow) + 1);
        let end = number.checked_add(pages).filter(|end| *end <= meta.pages);
        end.ok_or_else(|| broken(number, "goes on behind the last one"))?;
        let elements = u64::try_from(HEADER).unwrap_or(0)
            + ELEMENT * u64::try_from(page.count).unwrap_or(u64::from(u16::MAX));
        let whole = size.saturating_mul(pages);
        let wanted = whole.min(AT_ONCE.max(elements)).max(size);
        if shape == Shape::Branch && wanted < whole {
            return Err(broken(number, "is longer than any branch"));
        }
        if wanted > size {
            bytes.resize(usize::try_from(wanted).unwrap_or(0), 0);
            source.read_at(at, &mut bytes).map_err(Broken::Unreadable)?;
        }
        Ok(Loaded {
            number,
            at: Some(at).filter(|_| wanted < whole),
            bytes,
            skipped: 0,
            size: whole,
            next: 0,
        })
    }

    /// Reads the row of an element of the page at the end of the path.
    fn take(&mut self, leaf: Leaf) -> Result<(), Broken> {
        let Some(top) = self.path.last() else {
            return Ok(());
        };
        let number = top.number;
        if leaf.is_bucket != self.of_buckets {
            return Err(broken(number, "holds buckets and rows"));
        }
        let outside = || broken(number, "has a row that lies outside of it");
        let (key, all) = leaf.sizes().ok_or_else(outside)?;
        if all > LARGEST {
            return Err(broken(number, "has a row that is larger than any of etcd"));
        }
        let start = leaf.key_at.checked_add(top.skipped).ok_or_else(outside)?;
        let end = start.checked_add(all).ok_or_else(outside)?;
        if u64::try_from(end).is_ok_and(|end| end > top.size) {
            return Err(outside());
        }
        self.value.clear();
        match (top.bytes.get(start..end), top.at) {
            (Some(row), _) => self.value.extend_from_slice(row),
            (None, Some(at)) => {
                self.value.resize(all, 0);
                let at = at.saturating_add(u64::try_from(start).unwrap_or(u64::MAX));
                let source = &self.database.source;
                source
                    .read_at(at, &mut self.value)
                    .map_err(Broken::Unreadable)?;
            }
            (None, None) => return Err(outside()),
        }
        self.key.clear();
        self.key.extend(self.value.drain(..key));
        Ok(())
    }
}

fn next(top: &mut Loaded) -> Result<Next, Broken> {
    let (number, index) = (top.number, top.next);
    let page = top.page()?;
    if index >= page.count {
        return Ok(Next::Up);
    }
    let found = match page.shape {
        Shape::Branch => page.child(index).map(|(child, _)| Next::Down(child)),
        Shape::Leaf => page.leaf(index).map(Next::Row),
    };
    top.next += 1;
    found.ok_or_else(|| broken(number, "ends before its elements do"))
}
