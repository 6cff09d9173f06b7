//! The mapped files, shared by all threads of the process.
//!
//! A few slots, one of them current. A reader counts itself in, looks whether the slot is still current, reads, counts
//! itself out. Whoever sees that something newer was published maps it into a slot that nobody reads and makes that
//! one current; old mappings go when their last reader has gone. Nobody waits for anybody.
//!
//! A child that was forked while other threads were inside keeps their counts and loses those slots for ever. When it
//! has lost them all, it maps the files for each lookup: slower, not wrong.

use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use privacyidea_contract::map::Snapshot;
use privacyidea_contract::paths::MAP_DIRECTORY;

use crate::process_lock::ProcessLock;

struct Slot {
    readers: AtomicU32,
    /// From `Box::into_raw`, or null. Changed by the holder of `REFRESH` only, and only while the slot is not current
    /// and has no readers.
    snapshot: AtomicPtr<Snapshot>,
}

const NONE: usize = usize::MAX;

static SLOTS: [Slot; 4] =
    [const { Slot { readers: AtomicU32::new(0), snapshot: AtomicPtr::new(ptr::null_mut()) } }; 4];
/// Index of the current slot, or `NONE`. All accesses to it and to the counts that decide about freeing are SeqCst: a
/// reader that saw its slot current after it had counted itself in is seen by everybody who made another one current.
static CURRENT: AtomicUsize = AtomicUsize::new(NONE);
static REFRESH: ProcessLock<()> = ProcessLock::new(());
/// Somebody left a slot that is no longer current.
static SWEEP_WANTED: AtomicBool = AtomicBool::new(false);

/// Runs `body` with what is published now; none if there is no map that can be opened.
#[inline]
pub(crate) fn with_current<R>(body: impl FnOnce(&Snapshot) -> R) -> Option<R> {
    if let Some(reader) = Reader::enter() {
        if reader.snapshot().is_current() {
            return Some(body(reader.snapshot()));
        }
    }
    open_anew(body)
}

/// Whether the files were replaced without notice; if so they are opened again. For answers that are not fresh.
#[cold]
pub(crate) fn reopen_if_replaced() -> bool {
    let is_in_place = Reader::enter().is_some_and(|reader| reader.snapshot().is_in(Path::new(MAP_DIRECTORY)));
    !is_in_place && open_anew(|_| ()).is_some()
}

/// A snapshot for the caller alone.
pub(crate) fn open() -> Option<Snapshot> {
    Snapshot::open(Path::new(MAP_DIRECTORY)).ok()
}

#[cold]
fn open_anew<R>(body: impl FnOnce(&Snapshot) -> R) -> Option<R> {
    let Some(new) = open() else {
        // Gone, or no descriptor left: what is mapped is still good for as long as its entries say.
        return Reader::enter().map(|reader| body(reader.snapshot()));
    };
    let result = body(&new);
    // Not if another thread is at it.
    REFRESH.try_with(|| (), |()| install(new));
    sweep_if_wanted();
    Some(result)
}

/// Makes `new` current, unless it is that already or outdated by now, or no slot is free. The caller holds `REFRESH`.
fn install(new: Snapshot) {
    let current = CURRENT.load(Ordering::SeqCst);
    let is_known = SLOTS.get(current).is_some_and(|slot| {
        // SAFETY: a current slot has a snapshot, which only the holder of `REFRESH` could take away.
        let known = unsafe { &*slot.snapshot.load(Ordering::SeqCst) };
        known.is_same(&new)
    });
    if is_known || !new.is_current() {
        return;
    }
    let is_free =
        |(index, slot): &(usize, &Slot)| *index != current && slot.readers.load(Ordering::SeqCst) == 0;
    let Some((index, slot)) = SLOTS.iter().enumerate().find(is_free) else { return };
    discard(slot.snapshot.swap(Box::into_raw(Box::new(new)), Ordering::SeqCst));
    CURRENT.store(index, Ordering::SeqCst);
    sweep();
}

/// Unmaps what is neither current nor read. The caller holds `REFRESH`.
fn sweep() {
    let current = CURRENT.load(Ordering::SeqCst);
    for (index, slot) in SLOTS.iter().enumerate() {
        if index != current && slot.readers.load(Ordering::SeqCst) == 0 {
            discard(slot.snapshot.swap(ptr::null_mut(), Ordering::SeqCst));
        }
    }
}

fn discard(snapshot: *mut Snapshot) {
    if !snapshot.is_null() {
        // SAFETY: it came from `Box::into_raw`, was swapped out of its slot by the one holder of `REFRESH`, and the
        // slot had no reader: one that counts itself in later finds another slot current and does not look.
        drop(unsafe { Box::from_raw(snapshot) });
    }
}

/// A thread inside a slot.
struct Reader {
    index: usize,
    snapshot: *const Snapshot,
}

impl Reader {
    #[inline]
    fn enter() -> Option<Self> {
        loop {
            let index = CURRENT.load(Ordering::SeqCst);
            let slot = SLOTS.get(index)?;
            slot.readers.fetch_add(1, Ordering::SeqCst);
            if CURRENT.load(Ordering::SeqCst) == index {
                return Some(Self { index, snapshot: slot.snapshot.load(Ordering::SeqCst) });
            }
            // Replaced in between: the next turn finds the new one. Who swept meanwhile saw a reader here.
            slot.readers.fetch_sub(1, Ordering::SeqCst);
            leave_old_slot();
        }
    }

    #[inline]
    fn snapshot(&self) -> &Snapshot {
        // SAFETY: a current slot has a snapshot, and one with a reader keeps it; see the statics above.
        unsafe { &*self.snapshot }
    }
}

impl Drop for Reader {
    #[inline]
    fn drop(&mut self) {
        SLOTS[self.index].readers.fetch_sub(1, Ordering::SeqCst);
        if CURRENT.load(Ordering::SeqCst) != self.index {
            leave_old_slot();
        }
    }
}

#[cold]
fn leave_old_slot() {
    SWEEP_WANTED.store(true, Ordering::SeqCst);
    sweep_if_wanted();
}

/// Called by everybody who has held `REFRESH`, so that the wish of one who could not get it is not lost.
fn sweep_if_wanted() {
    let sweep_once = |(): &mut ()| {
        SWEEP_WANTED.store(false, Ordering::SeqCst);
        sweep();
    };
    while SWEEP_WANTED.load(Ordering::SeqCst) {
        if REFRESH.try_with(|| (), sweep_once).is_none() {
            // Its holder will look at the wish when it has let go.
            return;
        }
    }
}
