//! The database's file, before SQLite sees it.

use std::fs::{OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes an empty file of mode 0600, whatever the umask, unless there is one; takes the rights of group and others away
/// from an old one (somebody put a copy back).
///
/// The file is never opened under its own name: closing any descriptor of a file drops all the locks that this process
/// has on it (fcntl(2)), SQLite's too, and then the end of a `--once` could take the write-ahead log away from under the
/// daemon.
///
/// # Errors
/// Nothing is left behind.
pub(super) fn create_private(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.permissions().mode() & 0o077 == 0 => return Ok(()),
        Ok(_) => return std::fs::set_permissions(path, Permissions::from_mode(0o600)),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let beside = name_beside(path)?;
    let made = make(&beside).and_then(|()| std::fs::hard_link(&beside, path));
    let removed = std::fs::remove_file(&beside);
    match made {
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => removed,
        Err(error) => Err(error),
        Ok(()) => removed,
    }
}

fn make(path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))
}

fn name_beside(path: &Path) -> Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(Error::other)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{:016x}", u64::from_ne_bytes(random)));
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_copy_that_was_put_back_readable_for_others_becomes_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        drop(State::open(&path).unwrap());
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(State::open(&path).unwrap());
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn many_may_be_the_first_at_once() {
        for _ in 0..5 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("state.db");
            std::thread::scope(|scope| {
                let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| State::open(&path).map(drop))).collect();
                for state in opened {
                    state.join().unwrap().unwrap();
                }
            });
            assert_eq!(mode(&path), 0o600);
            let left: Vec<_> =
                std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
            assert_eq!(left, ["state.db"]);
        }
    }

    /// SQLite's shared lock on the file is what keeps the last process that closes it from removing the write-ahead log.
    #[test]
    fn a_second_opening_leaves_the_locks_of_the_first_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let first = State::open(&path).unwrap();
        let locks = || {
            let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
            let table = std::fs::read_to_string("/proc/locks").unwrap();
            let ours = format!(" {} ", std::process::id());
            let inode = format!(":{inode} ");
            table.lines().filter(|line| line.contains(&ours) && line.contains(&inode)).count()
        };
        first.tokens(None).unwrap();
        let held = locks();
        assert!(held > 0, "SQLite holds a lock on the file");
        create_private(&path).unwrap();
        assert_eq!(locks(), held);
    }
}
