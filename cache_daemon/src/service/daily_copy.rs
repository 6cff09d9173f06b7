//! Once a day a copy of state.db, so that a damaged one is no lost one.

use std::path::Path;
use std::time::UNIX_EPOCH;

use privacyidea_contract::paths;

use super::clock::UnixSeconds;
use super::journal::Log;
use crate::store::{State, StoreError};

const DAY: UnixSeconds = 24 * 3600;

/// Where the copy is.
pub(super) fn path() -> String {
    format!("{}.daily", paths::STATE_DATABASE)
}

/// Makes the copy if there is none, or one of yesterday.
pub(super) fn make_if_due(state: &State, now: UnixSeconds, log: &Log) {
    if let Err(error) = make_if_old(state, Path::new(&path()), now) {
        log.error(&format!("no copy of {}: {error}", paths::STATE_DATABASE));
    }
}

fn make_if_old(state: &State, path: &Path, now: UnixSeconds) -> Result<bool, StoreError> {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let made = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs());
    // A copy from the future is one of a wrong clock.
    if made.is_some_and(|made| now.abs_diff(made) < DAY) {
        return Ok(false);
    }
    state.copy_to(path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::clock::{Clock, SystemClock};

    #[test]
    fn a_copy_is_made_once_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        let copy = directory.path().join("state.db.daily");
        let now = SystemClock.now();
        assert!(make_if_old(&state, &copy, now).unwrap());
        assert!(!make_if_old(&state, &copy, now + DAY / 2).unwrap());
        assert!(make_if_old(&state, &copy, now + 2 * DAY).unwrap());
        assert!(make_if_old(&state, &copy, now - 2 * DAY).unwrap());
    }
}
