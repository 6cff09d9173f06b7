//! How others wake the refresher.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Why the refresher is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// It is not: the time is over.
    #[default]
    None,
    /// The next refresh may be due earlier than it was.
    Sooner,
    /// Somebody wants a refresh now.
    Now,
}

/// What one thread waits for and any other may cause. What is caused while nobody waits is not lost.
#[derive(Default)]
pub(super) struct Wake {
    reason: Mutex<Reason>,
    caused: Condvar,
}

impl Wake {
    /// Wakes whoever waits, or will.
    pub(super) fn cause(&self, reason: Reason) {
        let mut strongest = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        *strongest = reason.max(*strongest);
        self.caused.notify_all();
    }

    /// The strongest reason since the last call, at the latest after `patience`.
    pub(super) fn wait(&self, patience: Duration) -> Reason {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.caused.wait_timeout_while(reason, patience, |reason| *reason == Reason::None);
        let (mut reason, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn the_strongest_reason_counts_once() {
        let wake = Wake::default();
        assert_eq!(wake.wait(Duration::ZERO), Reason::None);
        for reason in [Reason::Sooner, Reason::Now, Reason::Sooner] {
            wake.cause(reason);
        }
        assert_eq!(wake.wait(LONG), Reason::Now);
        assert_eq!(wake.wait(Duration::ZERO), Reason::None);
    }

    #[test]
    fn a_waiting_thread_is_woken() {
        let wake = Wake::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wake.wait(LONG));
            wake.cause(Reason::Sooner);
            assert_eq!(waiting.join().unwrap(), Reason::Sooner);
        });
    }
}
