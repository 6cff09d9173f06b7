//! The end of the service, as every thread sees it: a flag and a descriptor to wait on beside a socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

/// How long a login that has begun may go on after the service was told to stop.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Raised once, never lowered.
pub(super) struct Stop {
    bell: OwnedFd,
    raised_at: OnceLock<Instant>,
}

/// What [`Stop::wait`] saw first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The descriptor can be read, or its peer is gone.
    Ready,
    /// The time is over.
    TimedOut,
}

impl Stop {
    /// Not raised yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { bell: eventfd(0, EventfdFlags::CLOEXEC)?, raised_at: OnceLock::new() })
    }

    /// Tells every thread that the service ends.
    pub(super) fn raise(&self) {
        if self.raised_at.set(Instant::now()).is_ok() {
            // Nobody reads the counter: from now on the bell is readable for whoever waits on it. Writing 1 to a zero
            // counter cannot fail.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Whether the service ends.
    #[must_use]
    pub(super) fn is_raised(&self) -> bool {
        self.raised_at.get().is_some()
    }

    /// Readable once the service ends.
    #[must_use]
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Waits until `descriptor` can be read, `deadline` is over, or [`GRACE`] is over since the service was told to
    /// stop.
    ///
    /// # Errors
    /// poll(2) failed: no memory.
    pub(super) fn wait(&self, descriptor: impl AsFd, deadline: Instant) -> std::io::Result<Awaited> {
        loop {
            let stopping = self.raised_at.get().map(|at| *at + GRACE);
            let until = stopping.map_or(deadline, |grace| grace.min(deadline));
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Awaited::TimedOut);
            }
            let mut waiting = vec![PollFd::new(&descriptor, PollFlags::IN)];
            if stopping.is_none() {
                waiting.push(PollFd::new(&self.bell, PollFlags::IN));
            }
            poll(&mut waiting, left)?;
            if !waiting[0].revents().is_empty() {
                return Ok(Awaited::Ready);
            }
        }
    }
}

/// poll(2) that a signal does not end; returns early with nothing ready instead.
pub(super) fn poll(waiting: &mut [PollFd<'_>], timeout: Duration) -> std::io::Result<()> {
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match rustix::event::poll(waiting, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn raising_ends_every_wait_on_the_bell_and_cannot_be_taken_back() {
        let stop = Stop::new().unwrap();
        assert!(!stop.is_raised());
        let far = Instant::now() + Duration::from_secs(3600);
        std::thread::scope(|scope| {
            let waits = [0; 2].map(|_| scope.spawn(|| stop.wait(stop.bell(), far).unwrap()));
            stop.raise();
            for wait in waits {
                assert_eq!(wait.join().unwrap(), Awaited::Ready);
            }
        });
        stop.raise();
        assert!(stop.is_raised());
    }

    #[test]
    fn a_descriptor_that_is_ready_and_a_deadline_that_is_over_end_the_wait() {
        let stop = Stop::new().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(stop.wait(&ours, Instant::now()).unwrap(), Awaited::TimedOut);
        drop(theirs);
        let far = Instant::now() + Duration::from_secs(3600);
        assert_eq!(stop.wait(&ours, far).unwrap(), Awaited::Ready);
    }
}
