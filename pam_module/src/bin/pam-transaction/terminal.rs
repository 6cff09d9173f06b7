//! Reading from a terminal without showing what is typed.
//!
//! While nothing is shown, the signals that a terminal sends are held back and seen through a descriptor: so the
//! terminal is put right before one of them ends or stops the program, and again made silent when it goes on.

#![expect(unsafe_code, reason = "the binding of termios, sigprocmask and signalfd")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

const SIGNALS: [libc::c_int; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP];

/// Calls `show`, waits for input, and calls `read`, all with the terminal's echo off. After a stop everything begins
/// again with `show`.
///
/// # Errors
/// The terminal cannot be set.
pub(crate) fn without_echo<R>(
    terminal: &mut File,
    show: impl Fn(&File) -> io::Result<()>,
    read: impl FnOnce(&mut File) -> R,
) -> io::Result<R> {
    loop {
        let silent = Silence::begin(terminal.as_raw_fd())?;
        show(terminal)?;
        if silent.wait()? {
            return Ok(read(terminal));
        }
        // A signal waits; it takes its course when the silence ends.
        drop(silent);
    }
}

/// The time in which nothing is shown.
struct Silence {
    terminal: RawFd,
    before: libc::termios,
    mask: libc::sigset_t,
    signals: OwnedFd,
}

impl Silence {
    fn begin(terminal: RawFd) -> io::Result<Self> {
        let signals = signals();
        let before = attributes(terminal)?;
        let mut mask = MaybeUninit::uninit();
        // SAFETY: reads one set, writes the other.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &signals, mask.as_mut_ptr()) })?;
        // SAFETY: the function has written it.
        let mask = unsafe { mask.assume_init() };
        // SAFETY: reads the set; makes a descriptor.
        let descriptor = unsafe { libc::signalfd(-1, &signals, libc::SFD_CLOEXEC) };
        check(descriptor)?;
        // SAFETY: the call has just made it, and nobody else has it.
        let silence = Self { terminal, before, mask, signals: unsafe { OwnedFd::from_raw_fd(descriptor) } };
        let mut silent = before;
        silent.c_lflag &= !(libc::ECHO | libc::ECHONL);
        // SAFETY: reads the attributes. What was typed ahead is thrown away.
        check(unsafe { libc::tcsetattr(terminal, libc::TCSAFLUSH, &silent) })?;
        Ok(silence)
    }

    /// Waits. True: a line can be read. False: a signal has come.
    fn wait(&self) -> io::Result<bool> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut both = [entry(self.signals.as_raw_fd()), entry(self.terminal)];
        loop {
            // SAFETY: two entries, which may be written to.
            let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
            match check(ready) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(both[0].revents == 0),
            }
        }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // SAFETY: reads the attributes.
        unsafe { libc::tcsetattr(self.terminal, libc::TCSADRAIN, &self.before) };
        // SAFETY: reads the set. Signals that waited take their course in here.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.mask, ptr::null_mut()) };
    }
}

fn attributes(terminal: RawFd) -> io::Result<libc::termios> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: writes the attributes.
    check(unsafe { libc::tcgetattr(terminal, attributes.as_mut_ptr()) })?;
    // SAFETY: the function has written them.
    Ok(unsafe { attributes.assume_init() })
}

fn signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set may be written to.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in SIGNALS {
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: the set is initialised.
    unsafe { set.assume_init() }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
