//! Rings of PSRDADA, shared memory through which programs of an observatory pass recordings on: `dada:KEY`.
//!
//! A recording is a header under `KEY + 1` and samples under `KEY`, in memory of the same kind: blocks in turn, which one
//! writer fills and each of up to eight readers clears. A transfer goes from a start of data to an end of data; a ring
//! of samples has one for each recording, a ring of headers goes on for ever.
//!
//! Source: PSRDADA Distributed Data Acquisition, W. van Straten and others, `ipcbuf.h` and `ipcbuf.c` of commit 182aead
//! (2023), whose memory has been laid out so since 2017.

#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod reader;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod writer;

use std::path::Path;

#[cfg(target_os = "linux")]
use corrust_host::{Error, Result};

#[cfg(target_os = "linux")]
use self::ring::Ring;
#[cfg(target_os = "linux")]
pub(super) use self::{reader::RingReader, writer::RingWriter};
use super::number::whole;

/// Start of the name of a ring; its key follows, in hexadecimal.
const SCHEME: &str = "dada:";

/// Returns whether a path names a ring of PSRDADA (`dada:KEY`) in place of a file.
pub fn is_ring(path: impl AsRef<Path>) -> bool {
    path.as_ref().to_str().is_some_and(|name| name.starts_with(SCHEME))
}

/// `HDR_SIZE` of a header, which may be longer than `start`.
pub(super) fn header_size(start: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(start);
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next()? == "HDR_SIZE").then(|| whole(words.next()?))?)
}

/// The rings of headers and of samples of a name.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> Result<[Ring; 2]> {
    let text = path.to_str().and_then(|name| name.strip_prefix(SCHEME)).unwrap_or_default();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let key = u32::from_str_radix(digits, 16).ok().filter(|key| (1..u32::MAX).contains(key));
    let key = key.ok_or_else(|| {
        let reason = format!("key {text:?}: expected hexadecimal digits, as in {SCHEME}4a4a");
        Error::file(path, reason)
    })?;
    let ring = |key: u32| Ring::connect(key).map_err(|reason| Error::file(path, reason));
    let samples = ring(key)?;
    Ok([ring(key + 1)?, samples])
}

/// Stand-ins for rings where there are none, which no name opens.
#[cfg(not(target_os = "linux"))]
mod nowhere {
    use std::{
        convert::Infallible,
        io::{self, Read},
        path::Path,
    };

    use corrust_host::{Error, Result};

    /// Reader of a ring.
    #[derive(Debug)]
    pub struct RingReader(Infallible);

    /// Writer to a ring.
    #[derive(Debug)]
    pub struct RingWriter(Infallible);

    fn refusal(path: &Path) -> Error {
        Error::file(path, "a ring of PSRDADA, which only Linux has: expected a file")
    }

    impl RingReader {
        pub fn open(path: &Path) -> Result<Self> {
            Err(refusal(path))
        }
    }

    impl Read for RingReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match self.0 {}
        }
    }

    impl RingWriter {
        pub fn create(path: &Path, _: impl FnOnce(usize) -> Result<Vec<u8>>) -> Result<Self> {
            Err(refusal(path))
        }

        pub fn append(&mut self, _: &[u8]) -> Result<()> {
            match self.0 {}
        }

        pub fn finish(self) -> Result<()> {
            match self.0 {}
        }
    }
}
#[cfg(not(target_os = "linux"))]
pub(super) use nowhere::{RingReader, RingWriter};
