//! Once a day a copy of state.db, so that a damaged one is no lost one.

use std::path::Path;
use std::time::UNIX_EPOCH;

use privacyidea_contract::paths;

use super::clock::UnixSeconds;
use super::journal::Log;
use crate::store::{State, StoreError};

const DAY: UnixSeconds = 24 * HOUR;
const HOUR: UnixSeconds = 3600;

/// Where the copy is.
pub(super) fn path() -> String {
    format!("{}.daily", paths::STATE_DATABASE)
}

/// Makes the copies. What fails is tried, and said, once an hour and not at each refresh.
#[derive(Default)]
pub(super) struct DailyCopy {
    failed: Option<UnixSeconds>,
}

impl DailyCopy {
    /// Makes the copy if there is none, or one of yesterday.
    pub(super) fn make_if_due(&mut self, state: &State, now: UnixSeconds, log: &Log) {
        self.make(state, Path::new(&path()), now, log);
    }

    fn make(&mut self, state: &State, path: &Path, now: UnixSeconds, log: &Log) {
        if self.failed.is_some_and(|failed| now.abs_diff(failed) < HOUR) {
            return;
        }
        self.failed = None;
        if let Err(error) = make_if_old(state, path, now) {
            log.error(&format!("no copy of {}: {error}", paths::STATE_DATABASE));
            self.failed = Some(now);
        }
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

    #[test]
    fn a_failure_is_tried_again_after_an_hour() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        let log = Log::to_syslog(&directory.path().join("log"));
        let copy = directory.path().join("missing/state.db.daily");
        let mut daily = DailyCopy::default();
        let now = SystemClock.now();
        daily.make(&state, &copy, now, &log);
        std::fs::create_dir(directory.path().join("missing")).unwrap();
        daily.make(&state, &copy, now + HOUR - 1, &log);
        assert!(!copy.exists());
        daily.make(&state, &copy, now + HOUR, &log);
        assert!(copy.exists());
    }
}
