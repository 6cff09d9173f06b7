//! Which state of a file was read, and reading one as a whole.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::settings::distrust;

/// A state of a file: another one is very likely another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The file's state now.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::from(&metadata))
    }
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Why a file was not read. `Display` is the end of a sentence that begins with the file's name.
#[derive(Debug)]
pub(super) enum ReadError {
    /// Cannot be opened or read.
    Io(io::Error),
    /// No regular file, or one that others than root and the daemon's user may write.
    Untrusted(String),
    /// Longer than the limit in bytes.
    TooLong(u64),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Untrusted(reason) => write!(f, "is not used: {reason}"),
            Self::TooLong(limit) => write!(f, "is not used: it is longer than {limit} bytes"),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A file's content.
pub(super) struct Content {
    /// All of it.
    pub(super) bytes: Vec<u8>,
    /// The state that was read.
    pub(super) stamp: Stamp,
    /// Whether the file was changed in place meanwhile, so that `bytes` may be half old, half new.
    pub(super) changed_meanwhile: bool,
}

/// Who may have written a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writers {
    /// The host's own file: whoever may write it owns the host anyway.
    Any,
    /// Root and the daemon's own user only.
    Trusted,
}

/// Reads a regular file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64, writers: Writers) -> Result<Content, ReadError> {
    // Without O_NONBLOCK a named pipe in the file's place would stop the daemon here for ever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ReadError::Untrusted("it is no regular file".to_owned()));
    }
    if writers == Writers::Trusted {
        distrust(&metadata).map_or(Ok(()), |reason| Err(ReadError::Untrusted(reason)))?;
    }
    let stamp = Stamp::from(&metadata);
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size.min(limit)).unwrap_or(0) + 1);
    file.by_ref().take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLong(limit));
    }
    let changed_meanwhile = Stamp::from(&file.metadata()?) != stamp;
    Ok(Content { bytes, stamp, changed_meanwhile })
}
