//! One question over the socket.
//!
//! A connection per question: a descriptor that is kept is closed, reused or inherited by programs that do not know of
//! it. The peer's credentials are not asked for: only root and the daemon's user can put a socket at the path (its
//! directory is theirs), no secret is sent, and what comes back is checked as strictly as if it came from anybody. A
//! comparison would need the uid of the daemon's user, and fail where user namespaces show it as 65534.

use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use privacyidea_contract::paths::LOOKUP_SOCKET;
use privacyidea_contract::wire::{Lookup, Reply, Request, Stream, StreamError};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);
const TOTAL_TIMEOUT: Duration = Duration::from_millis(500);
const PAUSE_FIRST_MS: u64 = 250;
const PAUSE_LAST_MS: u64 = 4000;

/// Milliseconds of the monotonic clock before which the daemon is not asked.
static ASK_AFTER: AtomicU64 = AtomicU64::new(0);
static FAILURES: AtomicU32 = AtomicU32::new(0);

/// Asks; none if there is no answer within half a second. A daemon that let this process wait in vain is left alone
/// for a while, which doubles each time up to four seconds. One that is not there costs no time and is tried always,
/// so that it is found as soon as it is back.
pub(crate) fn ask(lookup: Lookup) -> Option<Reply> {
    let now = monotonic_milliseconds();
    if now < ASK_AFTER.load(Ordering::Relaxed) {
        return None;
    }
    match exchange(lookup) {
        Ok(reply) => {
            FAILURES.store(0, Ordering::Relaxed);
            Some(reply)
        }
        Err(StreamError::Socket(_)) => None,
        Err(StreamError::TimedOut | StreamError::Closed | StreamError::Wire(_)) => {
            let failures = FAILURES.fetch_add(1, Ordering::Relaxed).min(8);
            let pause = (PAUSE_FIRST_MS << failures).min(PAUSE_LAST_MS);
            ASK_AFTER.store(monotonic_milliseconds() + pause, Ordering::Relaxed);
            None
        }
    }
}

fn exchange(lookup: Lookup) -> Result<Reply, StreamError> {
    let deadline = Instant::now() + TOTAL_TIMEOUT;
    let mut stream = Stream::connect(Path::new(LOOKUP_SOCKET), CONNECT_TIMEOUT)?;
    stream.send_request(&Request::Lookup(lookup), deadline)?;
    stream.receive_reply(deadline)
}

/// Whether this process is systemd on its way to start our daemon.
///
/// The variable is ignored in setuid programs: it would let their caller hide users and groups that are not in the
/// map, and there are sudo rules that forbid by group.
pub(crate) fn is_being_started() -> bool {
    unsafe extern "C" {
        fn secure_getenv(name: *const libc::c_char) -> *mut libc::c_char;
    }
    // SAFETY: a NUL-terminated name. As with every getenv, the program must not call setenv at the same time.
    let value = unsafe { secure_getenv(c"SYSTEMD_ACTIVATION_UNIT".as_ptr()) };
    if value.is_null() {
        return false;
    }
    // SAFETY: what secure_getenv returns is a NUL-terminated string.
    let value = unsafe { std::ffi::CStr::from_ptr(value) };
    matches!(value.to_bytes(), b"privacyidea-cached.service" | b"privacyidea-cached.socket")
}

fn monotonic_milliseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}
