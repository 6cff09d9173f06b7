//! A daemon for one login, `privacyidea-cached --once`, where none can be reached.
//!
//! The host program may be anything: it may have threads, reap children behind our back, ignore SIGCHLD, or be
//! set-user-ID. So the child is made with posix_spawn(3), is held by a pidfd instead of a number that could soon be
//! somebody else's, and inherits nothing: no environment, no descriptors, no signal settings, no terminal.

#![expect(unsafe_code, reason = "the binding of posix_spawn and pidfd_open")]

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

use privacyidea_contract::wire::Stream;

mod spawn;

/// How long a daemon may live on after its connection ended.
const OVERSTAY: Duration = Duration::from_secs(5);

/// A running daemon, ended and reaped when dropped. Drop its stream first: that is how it learns of the end.
pub(crate) struct Once {
    process: OwnedFd,
    overstay: Duration,
}

impl Once {
    /// Starts `program --once` with one end of a socket pair as its standard input; the other end is the stream.
    ///
    /// # Errors
    /// It could not be started, or was gone at once.
    pub(crate) fn start(program: &Path) -> io::Result<(Stream, Self)> {
        let (ours, theirs) = UnixStream::pair()?;
        let program = CString::new(program.as_os_str().as_bytes())?;
        let child = spawn::with_input(&program, &[c"privacyidea-cached", c"--once"], theirs.as_raw_fd())?;
        drop(theirs);
        // Should the child have died and been reaped by the host in this instant, this fails, and so does the login.
        // That its number belongs to another process already is as good as impossible: numbers go round.
        let process = pidfd_open(child)?;
        Ok((Stream::new(ours), Self { process, overstay: OVERSTAY }))
    }

    /// Whether it ended before the deadline. This needs no reaping: a pidfd shows an end that others have reaped, too.
    fn ended_before(&self, deadline: Instant) -> bool {
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            let mut poll = libc::pollfd { fd: self.process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, which may be written to.
            let ready = unsafe { libc::poll(&mut poll, 1, c_int::try_from(left).unwrap_or(c_int::MAX)) };
            if ready > 0 {
                return true;
            }
            let interrupted = ready < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if !interrupted {
                return false;
            }
        }
    }

    fn kill(&self) {
        let no_info = ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is a pidfd; the call sends a signal to that process or fails.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.process.as_raw_fd(), libc::SIGKILL, no_info, 0)
        };
    }

    /// Takes the zombie away. That there is none, because the host reaps or ignores its children, is as well.
    fn reap(&self) {
        let process = libc::id_t::try_from(self.process.as_raw_fd()).unwrap_or(libc::id_t::MAX);
        // SAFETY: waits, without blocking, for the process of the pidfd; no place for its status is given.
        unsafe { libc::waitid(libc::P_PIDFD, process, ptr::null_mut(), libc::WEXITED | libc::WNOHANG) };
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        if !self.ended_before(Instant::now() + self.overstay) {
            self.kill();
            self.ended_before(Instant::now() + self.overstay);
        }
        self.reap();
    }
}

fn pidfd_open(process: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers; the descriptor it makes is close-on-exec.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let descriptor = RawFd::try_from(descriptor).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests;
