//! Pages of bbolt, as bytes. Every read says that it may find nothing: a page may be one that is free, with whatever it
//! held before, or the inside of a large value.

/// Bytes before the elements of a page.
pub(crate) const HEADER: usize = 16;
const ELEMENT: usize = 16;
pub(crate) const BRANCH: u16 = 0x01;
pub(crate) const LEAF: u16 = 0x02;
/// The flag of an element that is a bucket.
pub(crate) const BUCKET: u32 = 0x01;
pub(crate) const MAGIC: u32 = 0xED0C_DAED;
/// Bytes of a bucket's header, before the page that lies in it where it is small.
const BUCKET_HEADER: usize = 16;

/// One of the two first pages: where the tree begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) page_size: u32,
    pub(crate) root: u64,
    /// Pages of the file.
    pub(crate) pages: u64,
    pub(crate) transaction: u64,
}

impl Meta {
    pub(crate) fn parse(page: &[u8]) -> Option<Self> {
        let checked = page.get(HEADER..72)?;
        let is_whole = u64_at(page, 72)? == fnv(checked) && u32_at(page, 16)? == MAGIC;
        let page_size = u32_at(page, 24)?;
        let is_size = page_size.is_power_of_two() && (512..=65_536).contains(&page_size);
        (is_whole && is_size).then_some(Self {
            page_size,
            root: u64_at(page, 32)?,
            pages: u64_at(page, 56)?,
            transaction: u64_at(page, 64)?,
        })
    }
}

/// 64-bit FNV-1a, by which bbolt knows a torn meta page.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(start, step)
}

/// What kind of page it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Branch,
    Leaf,
}

/// A page with elements, or as much of it as is there.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    bytes: &'a [u8],
    pub(crate) shape: Shape,
    pub(crate) count: usize,
    /// Further pages that belong to it.
    pub(crate) overflow: u32,
}

/// An element of a leaf: where its key is, and what it is.
#[derive(Clone, Copy)]
pub(crate) struct Leaf {
    pub(crate) is_bucket: bool,
    /// From the beginning of the page.
    pub(crate) key_at: usize,
    pub(crate) key_size: usize,
    value_size: usize,
}

impl Leaf {
    /// Bytes of the key, and of key and value.
    pub(crate) fn sizes(&self) -> Option<(usize, usize)> {
        let all = self.key_size.checked_add(self.value_size)?;
        Some((self.key_size, all))
    }
}

impl<'a> Page<'a> {
    /// A page of the file; `None` if it does not carry its own number, or has no elements.
    pub(crate) fn parse(bytes: &'a [u8], number: u64) -> Option<Self> {
        (u64_at(bytes, 0)? == number).then_some(())?;
        let flags = u16_at(bytes, 8)?;
        let shape = match flags {
            BRANCH => Shape::Branch,
            LEAF => Shape::Leaf,
            _other => return None,
        };
        Some(Self {
            bytes,
            shape,
            count: usize::from(u16_at(bytes, 10)?),
            overflow: u32_at(bytes, 12)?,
        })
    }

    /// The page below an element of a branch, and the size of its key.
    pub(crate) fn child(&self, index: usize) -> Option<(u64, usize)> {
        let at = HEADER + ELEMENT * index;
        let size = usize::try_from(u32_at(self.bytes, at + 4)?).ok()?;
        Some((u64_at(self.bytes, at + 8)?, size))
    }

    /// An element of a leaf.
    pub(crate) fn leaf(&self, index: usize) -> Option<Leaf> {
        let at = HEADER + ELEMENT * index;
        let number = |at| usize::try_from(u32_at(self.bytes, at)?).ok();
        Some(Leaf {
            is_bucket: u32_at(self.bytes, at)? & BUCKET != 0,
            key_at: at.checked_add(number(at + 4)?)?,
            key_size: number(at + 8)?,
            value_size: number(at + 12)?,
        })
    }

    /// Key and value of an element.
    pub(crate) fn entry(&self, leaf: Leaf) -> Option<(&'a [u8], &'a [u8])> {
        let value_at = leaf.key_at.checked_add(leaf.key_size)?;
        let key = self.bytes.get(leaf.key_at..value_at)?;
        let value = self
            .bytes
            .get(value_at..value_at.checked_add(leaf.value_size)?)?;
        Some((key, value))
    }
}

/// Where the rows of a bucket are.
#[derive(Clone, Copy)]
pub(crate) enum Bucket<'a> {
    /// In a tree that begins at a page.
    At(u64),
    /// In a leaf within the bucket itself, as small ones are.
    Inline(Page<'a>),
}

impl<'a> Bucket<'a> {
    pub(crate) fn parse(value: &'a [u8]) -> Option<Self> {
        match u64_at(value, 0)? {
            0 => {
                let page = Page::parse(value.get(BUCKET_HEADER..)?, 0)?;
                (page.shape == Shape::Leaf).then_some(Self::Inline(page))
            }
            root => Some(Self::At(root)),
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// A revision at the beginning of a key or of a value of etcd.
pub(crate) fn revision_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_be_bytes)
}
