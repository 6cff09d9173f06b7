//! The two sockets: taken over from systemd, or made here; and the lock that lets only one daemon have them.

use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use privacyidea_contract::wire::Stream;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

/// What systemd calls the socket (FileDescriptorName=).
const ACTIVATED: &str = "auth";

/// Why the daemon has no socket.
#[derive(Debug)]
pub(super) enum SocketError {
    /// Do nothing: another process serves this host.
    Served {
        /// Who listens; 1 is systemd, which starts a daemon at the first connection.
        pid: Option<i32>,
    },
    /// The administrator has to look at the path.
    Path {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// What systemd passed cannot be used; the socket unit is not ours.
    Activation(String),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served { pid: Some(1) } => f.write_str(
                "systemd serves this host's sockets; start the daemon with `systemctl start privacyidea-cached`",
            ),
            Self::Served { pid: Some(pid) } => write!(f, "the process {pid} already serves this host's sockets"),
            Self::Served { pid: None } => f.write_str("another daemon already serves this host's sockets"),
            Self::Path { path, error } => write!(f, "{} cannot be used: {error}", path.display()),
            Self::Activation(reason) => write!(f, "the sockets that systemd passed cannot be used: {reason}"),
        }
    }
}

impl std::error::Error for SocketError {}

/// A socket that this process made, removed from its path when dropped.
pub(super) struct Published {
    path: PathBuf,
    inode: u64,
}

impl Drop for Published {
    fn drop(&mut self) {
        // Not if somebody has put another one there.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Takes the host's only place for a daemon; kept as long as the descriptor is open, whatever the process dies of.
///
/// # Errors
/// [`SocketError::Served`], [`SocketError::Path`].
pub(super) fn lock(path: &Path) -> Result<OwnedFd, SocketError> {
    let failed = |error: rustix::io::Errno| SocketError::Path { path: path.to_owned(), error: error.into() };
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(SocketError::Served { pid: None }),
        Err(error) => Err(failed(error)),
    }
}

/// The listening socket from systemd. None: the daemon was started by hand.
///
/// The descriptor is a bare number in LISTEN_FDS, which safe code cannot take over; so the kernel is asked for a second
/// descriptor of the same socket. The first one stays open, close-on-exec, and nobody uses it.
///
/// # Errors
/// [`SocketError::Activation`].
pub(super) fn activated() -> Result<Option<UnixListener>, SocketError> {
    let failed = |error: std::io::Error| SocketError::Activation(error.to_string());
    let passed: Vec<_> = sd_notify::listen_fds_with_names().map_err(failed)?.collect();
    let [(number, name)] = passed.as_slice() else {
        return match passed.len() {
            0 => Ok(None),
            count => Err(SocketError::Activation(format!("{count} sockets instead of one"))),
        };
    };
    if name != ACTIVATED {
        return Err(SocketError::Activation(format!("one named {name:?} instead of {ACTIVATED:?}")));
    }
    let socket = duplicate(*number).map_err(|error| failed(error.into()))?;
    let is_ours = sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
        && sockopt::socket_acceptconn(&socket) == Ok(true);
    if !is_ours {
        return Err(SocketError::Activation("it is not a listening UNIX stream socket".to_owned()));
    }
    Ok(Some(UnixListener::from(socket)))
}

fn duplicate(number: i32) -> rustix::io::Result<OwnedFd> {
    let myself = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    rustix::process::pidfd_getfd(myself, number, PidfdGetfdFlags::empty())
}

/// Refuses if somebody listens at `path`: systemd's socket is not to be taken away from under it.
///
/// # Errors
/// [`SocketError::Served`].
pub(super) fn refuse_if_served(path: &Path) -> Result<(), SocketError> {
    use privacyidea_contract::wire::StreamError;
    match Stream::connect(path, Duration::from_millis(200)) {
        Ok(stream) => Err(SocketError::Served { pid: stream.peer().ok().map(|peer| peer.pid) }),
        // A full backlog belongs to somebody.
        Err(StreamError::TimedOut) => Err(SocketError::Served { pid: None }),
        Err(_) => Ok(()),
    }
}

/// Makes a listening socket that everybody may connect to. It appears under its name at once, ready, and takes the
/// place of what a daemon that died has left behind.
///
/// # Errors
/// [`SocketError::Path`].
pub(super) fn publish(path: &Path) -> Result<(UnixListener, Published), SocketError> {
    let failed = |error| SocketError::Path { path: path.to_owned(), error };
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let beside = path.with_file_name(name);
    match std::fs::remove_file(&beside) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(&beside).map_err(failed)?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    let inode = std::fs::symlink_metadata(&beside).map_err(failed)?.ino();
    std::fs::rename(&beside, path).map_err(failed)?;
    Ok((listener, Published { path: path.to_owned(), inode }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_one_has_the_lock_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = lock(&path).unwrap();
        assert!(matches!(lock(&path), Err(SocketError::Served { pid: None })));
        drop(first);
        assert!(lock(&path).is_ok());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &link).unwrap();
        assert!(matches!(lock(&link), Err(SocketError::Path { .. })));
        assert!(!directory.path().join("elsewhere").exists());
    }

    #[test]
    fn a_published_socket_replaces_a_stale_one_and_goes_when_its_maker_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        refuse_if_served(&path).unwrap();
        let (listener, published) = publish(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let _guest = UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(refuse_if_served(&path), Err(SocketError::Served { pid: Some(pid) }) if pid == own));
        drop(published);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_another_has_put_in_place_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (_listener, published) = publish(&path).unwrap();
        let _others = publish(&path).unwrap();
        drop(published);
        assert!(path.exists());
    }
}
