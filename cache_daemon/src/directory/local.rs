//! The host's own users and groups, read from /etc/passwd and /etc/group themselves: getpwnam(3) here would ask our own
//! NSS module, which would ask us.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::stamp::{self, ReadError, Stamp, Writers};

/// The longest passwd or group file of the host that is read.
const LENGTH_MAX: u64 = 64 * 1024 * 1024;

/// /etc/passwd and /etc/group, read again whenever they change.
pub struct LocalFiles {
    passwd: PathBuf,
    group: PathBuf,
    cached: Mutex<Option<Arc<LocalNames>>>,
}

/// What the two files said at one time.
#[derive(Debug)]
pub struct LocalNames {
    users: HashMap<String, u32>,
    uids: HashMap<u32, String>,
    groups: HashMap<String, u32>,
    gids: HashMap<u32, String>,
    stamps: [Stamp; 2],
}

/// One of the two files cannot be read; nobody's account can be told then. `Display` is a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFilesError(String);

impl fmt::Display for LocalFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LocalFilesError {}

impl LocalFiles {
    /// The host's files.
    #[must_use]
    pub fn of_this_host() -> Self {
        Self::new("/etc/passwd".into(), "/etc/group".into())
    }

    /// Other files, for tests and for a root directory that is being built.
    #[must_use]
    pub fn new(passwd: PathBuf, group: PathBuf) -> Self {
        Self { passwd, group, cached: Mutex::new(None) }
    }

    /// What the files say now: two stat(2) calls if they have not changed.
    ///
    /// # Errors
    /// [`LocalFilesError`].
    pub fn names(&self) -> Result<Arc<LocalNames>, LocalFilesError> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let now = [self.stamp(&self.passwd)?, self.stamp(&self.group)?];
        if let Some(names) = cached.as_ref().filter(|names| names.stamps == now) {
            return Ok(Arc::clone(names));
        }
        let names = Arc::new(self.read()?);
        *cached = Some(Arc::clone(&names));
        Ok(names)
    }

    fn stamp(&self, path: &Path) -> Result<Stamp, LocalFilesError> {
        Stamp::of(path).map_err(|error| failed(path, &ReadError::Io(error)))
    }

    fn read(&self) -> Result<LocalNames, LocalFilesError> {
        let content =
            |path| stamp::read(path, LENGTH_MAX, Writers::Any).map_err(|error| failed(path, &error));
        let passwd = content(&self.passwd)?;
        let group = content(&self.group)?;
        let (users, uids) = names_and_ids(&passwd.bytes);
        let (groups, gids) = names_and_ids(&group.bytes);
        Ok(LocalNames { users, uids, groups, gids, stamps: [passwd.stamp, group.stamp] })
    }
}

impl LocalNames {
    /// The uid of a user.
    #[must_use]
    pub fn uid(&self, user: &str) -> Option<u32> {
        self.users.get(user).copied()
    }

    /// The first user with this uid.
    #[must_use]
    pub fn user(&self, uid: u32) -> Option<&str> {
        self.uids.get(&uid).map(String::as_str)
    }

    /// The gid of a group.
    #[must_use]
    pub fn gid(&self, group: &str) -> Option<u32> {
        self.groups.get(group).copied()
    }

    /// The first group with this gid.
    #[must_use]
    pub fn group(&self, gid: u32) -> Option<&str> {
        self.gids.get(&gid).map(String::as_str)
    }
}

fn failed(path: &Path, error: &ReadError) -> LocalFilesError {
    LocalFilesError(format!("{} {error}", path.display()))
}

/// Names and ids of a passwd(5) or group(5) file: the first and the third field of both. Lines that have no such fields
/// own nothing, as in glibc.
pub(super) fn names_and_ids(bytes: &[u8]) -> (HashMap<String, u32>, HashMap<u32, String>) {
    let mut ids = HashMap::new();
    let mut names = HashMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b':');
        let (Some(name), _, Some(id)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let name = String::from_utf8_lossy(name).trim_start().to_owned();
        let id = std::str::from_utf8(id).ok().and_then(|id| id.trim().parse::<u32>().ok());
        let Some(id) = id else { continue };
        if !name.is_empty() && !name.starts_with(['#', '+', '-']) {
            names.entry(id).or_insert_with(|| name.clone());
            ids.entry(name).or_insert(id);
        }
    }
    (ids, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> LocalFiles {
        LocalFiles::new(directory.join("passwd"), directory.join("group"))
    }

    #[test]
    fn names_and_ids_are_found_and_changes_are_seen() {
        let directory = tempfile::tempdir().expect("directory");
        let local = files(directory.path());
        assert!(local.names().expect_err("missing").to_string().contains("passwd cannot be read"));
        std::fs::write(directory.path().join("passwd"), "root:x:0:0::/root:/bin/sh\nbob:x:1000:1000::/:\n")
            .expect("write");
        std::fs::write(directory.path().join("group"), "root:x:0:\nstaff:x:50:bob\n").expect("write");
        let names = local.names().expect("names");
        assert_eq!((names.uid("root"), names.uid("bob"), names.uid("eve")), (Some(0), Some(1000), None));
        assert_eq!(
            (names.user(1000), names.gid("staff"), names.group(50)),
            (Some("bob"), Some(50), Some("staff"))
        );
        assert!(Arc::ptr_eq(&names, &local.names().expect("names")), "an unchanged file is not read again");
        std::fs::write(directory.path().join("passwd"), "root:x:0:0::/root:/bin/sh\n").expect("write");
        assert_eq!(local.names().expect("names").uid("bob"), None);
    }

    #[test]
    fn odd_lines_own_nothing_and_the_first_of_two_owns_the_id() {
        let (ids, names) = names_and_ids(
            b"# a comment:x:5\n\n+nis:x:7\nshort:x\nbad:x:y\nbig:x:4294967296\n\xff\xfe:x:8\none:x:9\ntwo:x:9\none:x:10",
        );
        assert_eq!(ids.len(), 3);
        assert_eq!(
            (ids.get("one"), ids.get("two"), names.get(&9).map(String::as_str)),
            (Some(&9), Some(&9), Some("one"))
        );
    }
}
