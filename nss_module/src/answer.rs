//! Who answers: the map if it is fresh, else the daemon, else the map as long as it is not too old.

use privacyidea_contract::map::{Age, Found, Snapshot};
use privacyidea_contract::wire::Reply;

use crate::boundary::Outcome;
use crate::daemon;
use crate::fill::Refusal;
use crate::question::Question;
use crate::snapshots;

/// Answers a question; `fill` puts an entry into the caller's structures, and checks it.
#[inline]
pub(crate) fn answer<Q: Question>(
    question: Q,
    mut fill: impl FnMut(Q::Entry<'_>) -> Result<(), Refusal>,
) -> Outcome {
    if !question.is_ours() {
        return Outcome::NotFound;
    }
    let now = now();
    let from_map = |snapshot: &Snapshot| take(question.find(snapshot, now), Age::Fresh, &mut fill);
    match snapshots::with_current(from_map) {
        Some(Some(outcome)) => outcome,
        _ => answer_miss(question, now, &mut fill),
    }
}

#[cold]
fn answer_miss<Q: Question>(
    question: Q,
    now: u64,
    fill: &mut impl FnMut(Q::Entry<'_>) -> Result<(), Refusal>,
) -> Outcome {
    let mut look_again = |worst: Age| {
        snapshots::with_current(|snapshot| take(question.find(snapshot, now), worst, &mut *fill)).flatten()
    };
    if snapshots::reopen_if_replaced() {
        if let Some(outcome) = look_again(Age::Fresh) {
            return outcome;
        }
    }
    // Systemd waits for the answer before it starts the daemon, so there is nobody to ask.
    if daemon::is_being_started() {
        return look_again(Age::Stale).unwrap_or(Outcome::NotFound);
    }
    let reply = daemon::ask(question.to_lookup());
    match reply {
        Some(Reply::NotFound) => Outcome::NotFound,
        // Also what the daemon says when the answer is too long for a message and is in the map by now.
        None | Some(Reply::Unavailable) => look_again(Age::Stale).unwrap_or(Outcome::Unavailable),
        Some(reply) => match question.with_reply(&reply, |entry| fill(entry)) {
            Some(Ok(())) => Outcome::Success,
            Some(Err(Refusal::TooSmall)) => Outcome::TooSmall,
            Some(Err(Refusal::NoMemory)) => Outcome::NoMemory,
            // The daemon has an entry that no host should have: for the host there is none.
            Some(Err(Refusal::Unusable)) => Outcome::NotFound,
            None => Outcome::Unavailable,
        },
    }
}

/// What the map's answer means if it is no older than `worst`; none: ask further.
#[inline]
fn take<E>(found: Found<E>, worst: Age, fill: &mut impl FnMut(E) -> Result<(), Refusal>) -> Option<Outcome> {
    match found {
        Found::Entry(entry, age) if age <= worst => match fill(entry) {
            Ok(()) => Some(Outcome::Success),
            Err(Refusal::TooSmall) => Some(Outcome::TooSmall),
            Err(Refusal::NoMemory) => Some(Outcome::NoMemory),
            // A damaged or malicious map: as if it were not there.
            Err(Refusal::Unusable) => None,
        },
        Found::Absent(age) if age <= worst => Some(Outcome::NotFound),
        _ => None,
    }
}

/// UNIX seconds, up to some milliseconds late: read without a system call.
#[inline]
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct; the clock exists on every Linux. Should it fail, the time stays 0 and no entry is fresh.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0)
}
