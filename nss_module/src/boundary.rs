//! Between C and Rust.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;
use libnss::interop::NssStatus;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The caller's structures are filled.
    Success,
    /// There is no such entry.
    NotFound,
    /// Call again with a larger buffer.
    TooSmall,
    /// realloc(3) failed.
    NoMemory,
    /// Nobody can say now.
    Unavailable,
}

/// Runs the body of an entry point: catches panics, puts a thread's cancellation off, and sets errno together with the status, because glibc looks at
/// both. "Unavailable" with errno 0 would read as "no such user", and a stale ERANGE makes glibc grow its buffer
/// until memory ends.
pub(crate) fn at_boundary(errnop: *mut c_int, body: impl FnOnce() -> Outcome) -> c_int {
    silence_panics();
    let cancellation = set_cancellation(PTHREAD_CANCEL_DISABLE);
    // A panic leaves no state behind that matters: what the body shares is atomics, which hold whole values.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "panic-in-entry-points")]
        panic_unless(errnop.is_null());
        body()
    }))
    .unwrap_or(Outcome::Unavailable);
    set_cancellation(cancellation);
    let (status, errno) = match outcome {
        Outcome::Success => (NssStatus::Success, 0),
        Outcome::NotFound => (NssStatus::NotFound, libc::ENOENT),
        Outcome::TooSmall => (NssStatus::TryAgain, libc::ERANGE),
        Outcome::NoMemory => (NssStatus::TryAgain, libc::ENOMEM),
        Outcome::Unavailable => (NssStatus::Unavail, libc::EAGAIN),
    };
    // A success leaves errno alone, as library functions do.
    if errno != 0 && !errnop.is_null() {
        // SAFETY: glibc passes the address of an int, usually the thread's errno.
        unsafe { errnop.write(errno) };
    }
    status as c_int
}

// bits/pthread.h; the crate libc has neither for Linux.
const PTHREAD_CANCEL_DISABLE: c_int = 1;
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Says whether pthread_cancel(3) may end this thread, and returns what held before. It ends a thread by unwinding its
/// stack from inside read(2) or close(2), which no Rust frame lets through: glibc would abort the program.
fn set_cancellation(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: both values are ones that the function knows, and it writes an int.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

/// The entry points without `errnop` do not fail in glibc's eyes.
#[cfg(feature = "panic-in-entry-points")]
fn panic_unless(is_quiet: bool) {
    assert!(is_quiet, "put here by a test build");
}

/// The default hook would print on the standard error of a program that is not ours. The first caller sets ours; that
/// nobody waits for it matters after a fork. This library has its own copy of std, so a Rust program keeps its hook.
fn silence_panics() {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    if !IS_SET.load(Ordering::Relaxed) && !IS_SET.swap(true, Ordering::Relaxed) {
        set_hook(Box::new(|_| {}));
    }
}

#[cfg(all(test, not(feature = "panic-in-entry-points")))]
mod tests {
    use super::*;

    #[test]
    fn status_and_errno_belong_together() {
        for (outcome, status, errno) in [
            (Outcome::Success, 1, libc::ERANGE),
            (Outcome::NotFound, 0, libc::ENOENT),
            (Outcome::TooSmall, -2, libc::ERANGE),
            (Outcome::NoMemory, -2, libc::ENOMEM),
            (Outcome::Unavailable, -1, libc::EAGAIN),
        ] {
            // Whatever an earlier call left there.
            let mut number = libc::ERANGE;
            assert_eq!(at_boundary(&raw mut number, || outcome), status);
            assert_eq!(number, errno, "{outcome:?}");
        }
    }

    #[test]
    fn a_panic_is_an_outage_and_nothing_else() {
        let mut number = 0;
        assert_eq!(at_boundary(&raw mut number, || panic!("on purpose")), NssStatus::Unavail as c_int);
        assert_eq!(number, libc::EAGAIN);
    }
}
