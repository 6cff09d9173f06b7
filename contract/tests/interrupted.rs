//! Signals in the middle, as the modules meet them: whose handlers they are is the host program's business.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use privacyidea_contract::wire::{Stream, StreamError};

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn a_signal_does_not_end_the_wait_for_a_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // SAFETY: an open socket; a shorter queue from now on.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let queued = Stream::connect(&path, Duration::from_secs(10)).unwrap();
    let full = Stream::connect(&path, Duration::from_millis(10));
    assert!(matches!(full, Err(StreamError::TimedOut)));
    let handler: extern "C" fn(libc::c_int) = count;
    // SAFETY: the handler only counts.
    assert_ne!(unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) }, libc::SIG_ERR);
    let (ready, is_ready) = channel();
    let waiting = thread::spawn(move || {
        // SAFETY: no arguments.
        ready.send(unsafe { libc::pthread_self() }).unwrap();
        Stream::connect(&path, Duration::from_secs(60)).map(drop)
    });
    let thread = is_ready.recv().unwrap();
    // Some come before it waits; the others cannot all.
    for number in 1..=1000 {
        if waiting.is_finished() {
            break;
        }
        // SAFETY: the thread was not joined yet.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
        while SIGNALS.load(Ordering::SeqCst) < number && !waiting.is_finished() {
            thread::yield_now();
        }
    }
    drop(listener.accept().unwrap());
    drop(queued);
    waiting.join().unwrap().unwrap();
}
