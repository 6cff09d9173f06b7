//! Who the daemon is: started as root it becomes its own user before it opens anything.

use std::fmt;
use std::path::Path;

use privacyidea_contract::{DaemonUser, paths};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// Why the process may not serve.
#[derive(Debug)]
pub(super) enum IdentityError {
    /// The administrator has to make the user: it is not in `/etc/passwd`.
    NoSuchUser,
    /// The administrator has to start it otherwise: neither root nor the daemon's user.
    WrongUser {
        /// Who started it.
        uid: u32,
    },
    /// The administrator has to look at the path: it is not what it has to be.
    Directory {
        /// Which one.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused what root can always do.
    System(std::io::Error),
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchUser => {
                write!(f, "the user {} is not in /etc/passwd; the package makes it", paths::DAEMON_USER)
            }
            Self::WrongUser { uid } => {
                write!(f, "started by uid {uid}; only root or {} may start it", paths::DAEMON_USER)
            }
            Self::Directory { path, reason } => write!(f, "{path} cannot be used: {reason}"),
            Self::System(error) => write!(f, "cannot become {}: {error}", paths::DAEMON_USER),
        }
    }
}

impl std::error::Error for IdentityError {}

impl From<rustix::io::Errno> for IdentityError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// The directories that the daemon owns, with their modes.
pub(super) const DIRECTORIES: [(&str, u32); 3] = [
    ("/run/privacyidea-host", 0o755),
    ("/var/lib/privacyidea-host", 0o700),
    ("/var/cache/privacyidea-host", 0o755),
];

/// Makes the process the daemon's: as root it makes the daemon's directories and becomes its user for good. No thread
/// may run yet, because the ids belong to the calling thread.
///
/// # Errors
/// Every [`IdentityError`]; the process must end then.
pub(super) fn assume() -> Result<(), IdentityError> {
    let user = DaemonUser::read().map_err(IdentityError::System)?.ok_or(IdentityError::NoSuchUser)?;
    match rustix::process::geteuid().as_raw() {
        0 => {
            for (path, mode) in DIRECTORIES {
                own_directory(Path::new(path), user, mode)?;
            }
            become_user(user)?;
        }
        uid if uid == user.uid => {}
        uid => return Err(IdentityError::WrongUser { uid }),
    }
    keep_memory_secret()?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// New files are the daemon's alone, and nothing of its memory reaches a disk or another process.
///
/// # Errors
/// The system refused.
pub(super) fn keep_memory_secret() -> Result<(), IdentityError> {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Changing the user sets this back, so it comes after.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn become_user(user: DaemonUser) -> Result<(), IdentityError> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    let regained = rustix::thread::set_thread_uid(Uid::ROOT).is_ok();
    if regained || rustix::process::geteuid() != uid || rustix::process::getegid() != gid {
        return Err(IdentityError::System(std::io::Error::other("root's rights did not go away")));
    }
    Ok(())
}

/// Makes `path`, or takes over the one that is there, without following a symbolic link: the directory's own
/// descriptor is changed, and only if it is root's or already the daemon's.
fn own_directory(path: &Path, user: DaemonUser, mode: u32) -> Result<(), IdentityError> {
    let refuse = |reason: String| IdentityError::Directory { path: path.display().to_string(), reason };
    let failed = |error: rustix::io::Errno| refuse(std::io::Error::from(error).to_string());
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refuse("it has no parent".to_owned()));
    };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    // The parents are root's: where they lead is the administrator's business.
    let parent = rustix::fs::open(parent, flags, Mode::empty()).map_err(failed)?;
    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(failed(error)),
    }
    let directory = rustix::fs::openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())
        .map_err(|error| refuse(format!("it is no directory of its own: {}", std::io::Error::from(error))))?;
    let stat = rustix::fs::fstat(&directory).map_err(failed)?;
    if stat.st_uid != 0 && stat.st_uid != user.uid {
        return Err(refuse(format!("it belongs to uid {}", stat.st_uid)));
    }
    if (stat.st_uid, stat.st_gid) != (user.uid, user.gid) {
        rustix::fs::fchown(&directory, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)))
            .map_err(failed)?;
    }
    if stat.st_mode & 0o7777 != mode {
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn myself() -> DaemonUser {
        DaemonUser { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    #[test]
    fn a_missing_directory_is_made_with_its_mode_and_a_wrong_mode_is_mended() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("own");
        for mode in [0o700, 0o755] {
            own_directory(&path, myself(), mode).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
    }

    #[test]
    fn a_symbolic_link_and_a_file_are_refused_and_not_touched() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let before = std::fs::metadata(&target).unwrap().mode();
        let link = parent.path().join("link");
        symlink(&target, &link).unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [link, file] {
            let error = own_directory(&path, myself(), 0o711).unwrap_err();
            assert!(matches!(error, IdentityError::Directory { .. }), "{error}");
        }
        assert_eq!(std::fs::metadata(&target).unwrap().mode(), before);
    }
}
