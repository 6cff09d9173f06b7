//! Changing the two files as a whole, one editor at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::UsersFileError;
use crate::directory::stamp::{self, ReadError, Writers};

/// The longest file that is edited.
const LENGTH_MAX: u64 = 64 * 1024 * 1024;

/// Both files, locked for other editors until dropped.
pub(super) struct Files {
    pub(super) passwd: Edited,
    pub(super) group: Edited,
    _lock: File,
}

impl Files {
    pub(super) fn open(passwd: &Path, group: &Path) -> Result<Self, UsersFileError> {
        let directory = passwd.parent().unwrap_or(Path::new("/"));
        let path = directory.join(".lock");
        let failed = |error: io::Error| UsersFileError::Io { path: path.clone(), error };
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(nofollow())
            .open(&path)
            .map_err(failed)?;
        // Waits for another editor; it holds the lock only as long as it writes.
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        Ok(Self { passwd: Edited::read(passwd)?, group: Edited::read(group)?, _lock: lock })
    }
}

/// A file that is changed as a whole.
pub(super) struct Edited {
    path: PathBuf,
    pub(super) bytes: Vec<u8>,
    is_changed: bool,
}

impl Edited {
    fn read(path: &Path) -> Result<Self, UsersFileError> {
        let failed = |error| UsersFileError::Io { path: path.to_owned(), error };
        // Behind a symbolic link the file is changed, not the link.
        let path = match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            other => other.map_err(failed)?,
        };
        let bytes = match stamp::read(&path, LENGTH_MAX, Writers::Trusted) {
            Ok(content) => content.bytes,
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(ReadError::Io(error)) => return Err(UsersFileError::Io { path, error }),
            Err(other) => return Err(UsersFileError::Refused(format!("{} {other}", path.display()))),
        };
        Ok(Self { path, bytes, is_changed: false })
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes).split(|byte| *byte == b'\n');
        lines.filter(|_| !self.bytes.is_empty())
    }

    /// Replaces or drops lines; all others, comments too, stay byte by byte.
    pub(super) fn keep_lines(&mut self, keep: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for line in self.lines().filter_map(keep) {
            bytes.extend_from_slice(&line);
            bytes.push(b'\n');
        }
        self.is_changed |= bytes != self.bytes;
        self.bytes = bytes;
    }

    pub(super) fn append(&mut self, line: &str) {
        if self.bytes.last().is_some_and(|byte| *byte != b'\n') {
            self.bytes.push(b'\n');
        }
        self.bytes.extend_from_slice(line.as_bytes());
        self.is_changed = true;
    }

    /// Writes the new content beside the old one and puts it in its place: a reader sees one or the other.
    pub(super) fn write(&self) -> Result<(), UsersFileError> {
        if !self.is_changed {
            return Ok(());
        }
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = directory.join(format!(".{name}.new"));
        let put = || -> io::Result<()> {
            let old = std::fs::metadata(&self.path).ok();
            // Left over from an editor that was killed; the lock is ours, so nobody is writing it.
            let _ = std::fs::remove_file(&beside);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(&self.bytes)?;
            let mode = old.as_ref().map_or(0o644, |old| old.mode() & 0o7777);
            if let Some(old) = old {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(PermissionsExt::from_mode(mode))?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)?;
            File::open(directory)?.sync_all()
        };
        put().map_err(|error| {
            let _ = std::fs::remove_file(&beside);
            UsersFileError::Io { path: self.path.clone(), error }
        })
    }
}

fn nofollow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}
