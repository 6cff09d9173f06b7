//! The only place that reads the real clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01T00:00:00Z.
pub type UnixSeconds = u64;

/// Where code that needs the time of day, more than once, gets it from.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> UnixSeconds;
}

/// The host's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn now(&self) -> UnixSeconds {
        // A clock before 1970 is a dead battery; 0 makes every TOTP check fail, which is right then.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

/// A clock that tests set.
#[derive(Debug, Default)]
pub struct FixedClock(pub std::sync::atomic::AtomicU64);

impl FixedClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: UnixSeconds) -> Self {
        Self(now.into())
    }

    /// Moves the clock, forward or back.
    pub fn set(&self, now: UnixSeconds) {
        self.0.store(now, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> UnixSeconds {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}
