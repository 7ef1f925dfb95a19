//! Bytes of a snapshot become bytes of the store: compressed, then encrypted, then summed. A standard file of zstd within a
//! standard file of age, so that both tools bring it back by hand.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use age::stream::StreamWriter;
use age::x25519;
use archive::hex;
use archive::manifest::Sum;
use archive::work::Cause;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::fault::{Explain as _, Fault, Result};

/// The level of zstd. Three costs a third more time than one, and a snapshot must not wait.
const LEVEL: i32 = 1;

/// The public keys of those who may read; none: it is not encrypted.
pub(crate) struct Recipients(Vec<x25519::Recipient>);

impl Recipients {
    pub(crate) fn parse(texts: &[String]) -> Result<Self> {
        let parse = |text: &String| {
            text.parse::<x25519::Recipient>().map_err(|reason| {
                let message = format!("{text:?} is no public key of age: {reason}");
                Fault::new(Cause::Request, message)
            })
        };
        texts.iter().map(parse).collect::<Result<_>>().map(Self)
    }

    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }
}

/// What encoders write into, and the store's parts are taken from.
#[derive(Clone, Default)]
struct Out(Arc<Mutex<Vec<u8>>>);

impl Out {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Encrypted {
    Plain(Out),
    Age(StreamWriter<Out>),
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Age(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Age(out) => out.flush(),
        }
    }
}

impl Encrypted {
    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Age(out) => out.finish().map(drop),
        }
    }
}

enum Compressed {
    Raw(Encrypted),
    Zstd(zstd::Encoder<'static, Encrypted>),
}

/// The way from a snapshot to the store.
pub(crate) struct Encoder {
    chain: Compressed,
    out: Out,
    hash: Sha256,
    bytes: u64,
}

const WHAT: &str = "compress and encrypt";
/// Bytes for the store that are handed over at once.
const BLOCK: usize = 256 << 10;

/// Bytes for the store, and how many of the snapshot they are made of.
#[derive(Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) raw: usize,
}

impl Encoder {
    pub(crate) fn new(compress: bool, recipients: &Recipients) -> Result<Self> {
        let out = Out::default();
        let encrypted = if recipients.0.is_empty() {
            Encrypted::Plain(out.clone())
        } else {
            let keys = recipients
                .0
                .iter()
                .map(|key| -> &dyn age::Recipient { key });
            let age = age::Encryptor::with_recipients(keys).explain(Cause::Request, WHAT)?;
            Encrypted::Age(age.wrap_output(out.clone()).explain(Cause::Request, WHAT)?)
        };
        let chain = if compress {
            let zstd = zstd::Encoder::new(encrypted, LEVEL).explain(Cause::Request, WHAT)?;
            Compressed::Zstd(zstd)
        } else {
            Compressed::Raw(encrypted)
        };
        Ok(Self {
            chain,
            out,
            hash: Sha256::new(),
            bytes: 0,
        })
    }

    /// Takes bytes of the snapshot; what there is for the store by now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let written = match &mut self.chain {
            Compressed::Raw(chain) => chain.write_all(bytes),
            Compressed::Zstd(chain) => chain.write_all(bytes),
        };
        written.explain(Cause::Request, WHAT)?;
        let stored = self.out.take();
        self.sum(&stored);
        Ok(stored)
    }

    /// The rest for the store, and the sum of all.
    pub(crate) fn finish(mut self) -> Result<(Vec<u8>, Sum)> {
        let chain = std::mem::replace(
            &mut self.chain,
            Compressed::Raw(Encrypted::Plain(Out::default())),
        );
        let ended = match chain {
            Compressed::Raw(chain) => chain.finish(),
            Compressed::Zstd(chain) => chain.finish().and_then(Encrypted::finish),
        };
        ended.explain(Cause::Request, WHAT)?;
        let stored = self.out.take();
        self.sum(&stored);
        let sum = Sum {
            bytes: self.bytes,
            sha256: hex(&self.hash.finalize()),
        };
        Ok((stored, sum))
    }

    /// Encodes on a thread of its own what comes, so that the member is read and the store written meanwhile. That nothing takes
    /// it any more has a reason, which is told elsewhere.
    pub(crate) fn run(
        mut self,
        mut raw: mpsc::Receiver<Bytes>,
        to: &mpsc::Sender<Encoded>,
    ) -> Result<Sum> {
        let mut ready = Encoded::default();
        while let Some(piece) = raw.blocking_recv() {
            ready.bytes.extend(self.push(&piece)?);
            ready.raw = ready.raw.saturating_add(piece.len());
            if ready.bytes.len() >= BLOCK {
                drop(to.blocking_send(std::mem::take(&mut ready)));
            }
        }
        let (rest, sum) = self.finish()?;
        ready.bytes.extend(rest);
        drop(to.blocking_send(ready));
        Ok(sum)
    }

    fn sum(&mut self, stored: &[u8]) {
        self.hash.update(stored);
        let length = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
    }
}
