//! Failures in a row, and the lock that they end in.

use crate::service::clock::UnixSeconds;
use crate::settings::{LockPeriod, Lockout};

/// Whether a token takes answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It does.
    Open,
    /// Not before this time.
    Until(UnixSeconds),
    /// Not before somebody unlocks it.
    UntilUnlocked,
}

/// What a token remembers of wrong answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Consecutive ones.
    pub count: u32,
    /// The last of them.
    pub last: Option<UnixSeconds>,
}

impl Failures {
    /// Whether they lock at `now`.
    #[must_use]
    pub fn lock(&self, lockout: &Lockout, now: UnixSeconds) -> Lock {
        if lockout.after == 0 || self.count < lockout.after {
            return Lock::Open;
        }
        match lockout.period {
            LockPeriod::UntilUnlocked => Lock::UntilUnlocked,
            LockPeriod::For(period) => {
                // A failure in the future is a clock that was set back since: see `are_after`.
                let last = self.last.unwrap_or(0).min(now);
                let end = last.saturating_add(period.as_secs());
                if now < end { Lock::Until(end) } else { Lock::Open }
            }
        }
    }

    /// Whether the last one lies after `now`: the clock was set back since. Who finds that stores another time, or the
    /// lock would end only when the clock is there again.
    #[must_use]
    pub fn are_after(&self, now: UnixSeconds) -> bool {
        self.last.is_some_and(|last| last > now)
    }

    /// Counts one; after a lock has passed the count starts anew.
    pub fn count_one(&mut self, lockout: &Lockout, now: UnixSeconds) {
        let passed =
            lockout.after > 0 && self.count >= lockout.after && self.lock(lockout, now) == Lock::Open;
        self.count = if passed { 1 } else { self.count.saturating_add(1) };
        self.last = Some(now);
    }
}
