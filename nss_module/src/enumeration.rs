//! getpwent and getgrent: a walk through the map, where the settings allow it. The daemon is not asked.
//!
//! The walk has a snapshot of its own, so that its cursor means the same from the first call to the last. It belongs
//! to the process, as POSIX has it; glibc lets one thread at a time in.

use privacyidea_contract::map::{Cursor, Snapshot};

use crate::answer::now;
use crate::boundary::Outcome;
use crate::fill::Refusal;
use crate::process_lock::ProcessLock;
use crate::snapshots;

/// One of the two walks.
pub(crate) struct Walk(ProcessLock<Option<State>>);

struct State {
    snapshot: Snapshot,
    cursor: Cursor,
}

pub(crate) static PASSWD: Walk = Walk::new();
pub(crate) static GROUP: Walk = Walk::new();

impl Walk {
    const fn new() -> Self {
        Self(ProcessLock::new(None))
    }

    /// Starts at the beginning.
    pub(crate) fn rewind(&self) -> Outcome {
        self.with(|state| {
            *state = None;
            Outcome::Success
        })
    }

    /// The next entry; `step` takes one off the snapshot and puts it into the caller's structures.
    pub(crate) fn next(
        &self,
        mut step: impl FnMut(&Snapshot, &mut Cursor, u64) -> Option<Result<(), Refusal>>,
    ) -> Outcome {
        self.with(|state| {
            if state.is_none() {
                *state = snapshots::open().map(|snapshot| State { snapshot, cursor: Cursor::default() });
            }
            let Some(State { snapshot, cursor }) = state else { return Outcome::Unavailable };
            if !snapshot.base().may_enumerate() {
                return Outcome::NotFound;
            }
            loop {
                let mut next = *cursor;
                match step(snapshot, &mut next, now()) {
                    None => return Outcome::NotFound,
                    // The same entry again when the caller comes back with more room.
                    Some(Err(Refusal::TooSmall)) => return Outcome::TooSmall,
                    Some(Err(Refusal::NoMemory)) => return Outcome::NoMemory,
                    Some(Err(Refusal::Unusable)) => *cursor = next,
                    Some(Ok(())) => {
                        *cursor = next;
                        return Outcome::Success;
                    }
                }
            }
        })
    }

    fn with(&self, body: impl FnOnce(&mut Option<State>) -> Outcome) -> Outcome {
        self.0.try_with(|| None, body).unwrap_or(Outcome::Unavailable)
    }
}
