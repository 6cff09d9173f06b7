//! The daily copy, to go back to when the disk has damaged the database.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::{State, StoreError};

/// Of a backup at once: it holds nobody up.
const ALL_PAGES: i32 = -1;

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
        // SQLite takes an empty file for a database: so it never has another mode.
        std::os::unix::fs::OpenOptionsExt::mode(File::options().write(true).create_new(true), 0o600)
            .open(&beside)
            .map_err(StoreError::File)?;
        self.back_up(&beside)?;
        let file = File::open(&beside).map_err(StoreError::File)?;
        file.sync_all().map_err(StoreError::File)?;
        std::fs::rename(&beside, path).map_err(StoreError::File)
    }

    /// SQLite's online backup, on a connection of its own: logins neither wait nor disturb it. It takes damaged pages as
    /// they are, so the copy is looked at.
    fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        let source = Connection::open(self.connection().path().unwrap_or_default())?;
        let snapshot = source.unchecked_transaction()?;
        snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        let mut copy = Connection::open(to)?;
        Backup::new(&snapshot, &mut copy)?.step(ALL_PAGES)?;
        // Else looking at it would leave a log beside it.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        match copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0))?.as_str() {
            "ok" => Ok(()),
            damage => {
                Err(StoreError::Malformed(format!("the copy is damaged, as it must be itself: {damage}")))
            }
        }
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
            verdict: Some(Verdict::Refused),
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

    #[test]
    fn a_copy_is_made_while_a_login_is_written_down() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        state.audit(&event(1)).unwrap();
        let copy = directory.path().join("copy");
        let other = State::open(&directory.path().join("state.db")).unwrap();
        other.change(|_| state.copy_to(&copy)).unwrap();
        assert_eq!(State::open(&copy).unwrap().audited(None, 0, 9).unwrap().len(), 1);
        let mut files: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.retain(|name| name.to_string_lossy().contains("new"));
        assert!(files.is_empty(), "{files:?}");
    }

    #[test]
    fn a_damaged_database_replaces_no_good_copy() {
        use std::os::unix::fs::FileExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let state = State::open(&path).unwrap();
        for time in 0..500 {
            state.audit(&event(time)).unwrap();
        }
        let copy = directory.path().join("copy");
        state.copy_to(&copy).unwrap();
        let before = std::fs::read(&copy).unwrap();
        // Closed, so that no page is in its log or in memory.
        drop(state);
        let pages = std::fs::metadata(&path).unwrap().len() / 4096;
        let file = File::options().write(true).open(&path).unwrap();
        for page in pages / 2..pages {
            file.write_all_at(&[0x5a; 4096], page * 4096).unwrap();
        }
        let error = State::open(&path).unwrap().copy_to(&copy).unwrap_err();
        assert!(matches!(error, StoreError::Malformed(_) | StoreError::Database(_)), "{error}");
        assert_eq!(std::fs::read(&copy).unwrap(), before);
    }
}
