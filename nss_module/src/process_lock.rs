//! A try-lock for one process.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// A value that one thread at a time may have. Nobody ever waits for it, and a child that was forked while another
/// thread of its parent held it may take it: the holder's process id is the lock.
pub(crate) struct ProcessLock<T> {
    /// Process id of the holder, 0 if there is none. All accesses are SeqCst: whoever left a note and then finds the
    /// lock held can be sure that the holder, looking after it has let go, finds the note.
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder gets at the value.
unsafe impl<T: Send> Sync for ProcessLock<T> {}

impl<T> ProcessLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Runs `body` with the value, unless another thread has it. A value that a fork caught in the middle is
    /// forgotten and replaced by `fresh`.
    pub(crate) fn try_with<R>(&self, fresh: impl FnOnce() -> T, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let me = std::process::id();
        let held_by = self.holder.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst);
        if let Err(holder) = held_by {
            if holder == me {
                return None;
            }
            self.holder.compare_exchange(holder, me, Ordering::SeqCst, Ordering::SeqCst).ok()?;
            // SAFETY: we hold the lock. What was there is not dropped: it may be half of something.
            unsafe { self.value.get().write(fresh()) };
        }
        let _release = Release(&self.holder);
        // SAFETY: we hold the lock until `_release` goes.
        Some(body(unsafe { &mut *self.value.get() }))
    }
}

struct Release<'a>(&'a AtomicU32);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let lock = ProcessLock::new(1);
        assert_eq!(lock.try_with(|| 0, |_| lock.try_with(|| 0, |_| ())), Some(None));
        assert_eq!(lock.try_with(|| 0, |value| *value), Some(1));
    }

    #[test]
    fn another_processs_lock_is_taken_over() {
        let lock = ProcessLock::new(1);
        lock.holder.store(std::process::id() + 1, Ordering::Relaxed);
        assert_eq!(lock.try_with(|| 7, |value| *value), Some(7));
        assert_eq!(lock.try_with(|| 0, |value| *value), Some(7));
    }
}
