//! The daily copy, to go back to when the disk has damaged the database.

use std::fs::File;
use std::path::Path;

use rusqlite::params;

use super::{State, StoreError};

impl State {
    /// Writes a copy of the whole database to `path`, in place of what was there, mode 0600. It is complete and on the
    /// disk before it takes the old one's name; if the database is damaged, the old one stays.
    ///
    /// # Errors
    /// Every [`StoreError`].
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let beside = path.with_extension("new");
        match std::fs::remove_file(&beside) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::File(error)),
        }
        // SQLite takes an empty file for the target of VACUUM INTO: so it never has another mode.
        std::os::unix::fs::OpenOptionsExt::mode(File::options().write(true).create_new(true), 0o600)
            .open(&beside)
            .map_err(StoreError::File)?;
        self.connection().execute("VACUUM INTO ?1", params![beside.to_string_lossy()])?;
        let file = File::open(&beside).map_err(StoreError::File)?;
        file.sync_all().map_err(StoreError::File)?;
        std::fs::rename(&beside, path).map_err(StoreError::File)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use privacyidea_contract::wire::Verdict;

    use super::*;
    use crate::authentication::Event;

    fn event(time: u64) -> Event {
        Event {
            number: 1,
            time,
            user: Some("carla".to_owned()),
            service: "sshd".to_owned(),
            rhost: String::new(),
            tty: String::new(),
            text: "granted".to_owned(),
            verdict: Verdict::Refused,
            method: None,
            token: None,
        }
    }

    #[test]
    fn a_copy_is_a_database_of_its_own_and_replaces_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        let copy = directory.path().join("state.db.daily");
        for time in [1, 2] {
            state.audit(&event(time)).unwrap();
            state.copy_to(&copy).unwrap();
            assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        }
        state.audit(&event(3)).unwrap();
        let restored = State::open(&copy).unwrap();
        let times: Vec<_> = restored.audited(None, 0, 9).unwrap().iter().map(|record| record.time).collect();
        assert_eq!(times, [2, 1]);
    }

    #[test]
    fn a_copy_that_cannot_be_made_leaves_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let state = State::open(&path).unwrap();
        let copy = directory.path().join("copy");
        state.copy_to(&copy).unwrap();
        let before = std::fs::read(&copy).unwrap();
        std::fs::create_dir(directory.path().join("copy.new")).unwrap();
        assert!(matches!(state.copy_to(&copy), Err(StoreError::File(_))));
        assert_eq!(std::fs::read(&copy).unwrap(), before);
    }
}
