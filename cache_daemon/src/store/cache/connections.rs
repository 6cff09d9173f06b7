//! Two connections to cache.db, one to write and one to read beside a long write, and the file under them: it may be
//! deleted or damaged at any moment, and is made anew then.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{CacheError, SCHEMA, SCHEMA_VERSION};

/// Device and inode: which file a connection is to. The number of a file that is open is not given to another one.
type Identity = (u64, u64);

struct Opened {
    connection: Connection,
    file: Identity,
}

/// The connections. Locked in the order writer, reader.
pub(super) struct Connections {
    path: PathBuf,
    writer: Mutex<Option<Opened>>,
    reader: Mutex<Option<Opened>>,
    generation: AtomicU64,
}

impl Connections {
    /// Opens the database, makes it anew if it is not one or another version's.
    pub(super) fn open(path: &Path) -> Result<Self, CacheError> {
        let connections = Self {
            path: path.to_owned(),
            writer: Mutex::new(None),
            reader: Mutex::new(None),
            generation: AtomicU64::new(0),
        };
        connections.reopen(None)?;
        Ok(connections)
    }

    /// Changes each time that an empty database was put in the place of one that had been deleted or was damaged.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Runs `query`, once more if it found a damaged database.
    pub(super) fn read<T>(
        &self,
        mut query: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CacheError> {
        self.run(&self.reader, |connection| query(connection))
    }

    /// Runs `change` in one transaction, once more if it found a damaged database.
    pub(super) fn write<T>(
        &self,
        mut change: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CacheError> {
        self.run(&self.writer, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    fn run<T>(
        &self,
        slot: &Mutex<Option<Opened>>,
        mut query: impl FnMut(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CacheError> {
        for last_try in [false, true] {
            let mut guard = lock(slot);
            let there = identity(&self.path).map_err(|error| self.unusable(&error))?;
            let damaged = match guard.as_mut().filter(|opened| Some(opened.file) == there) {
                None => None,
                Some(opened) => match query(&mut opened.connection) {
                    Err(error) if is_damage(&error) && !last_try => Some(opened.file),
                    result => return result.map_err(CacheError::Database),
                },
            };
            drop(guard);
            self.reopen(damaged)?;
        }
        let sentence = format!("{} is deleted again and again", self.path.display());
        Err(CacheError::Unusable(sentence))
    }

    /// Brings both connections to the file that is there, which is made if there is none or if it is `damaged`.
    fn reopen(&self, damaged: Option<Identity>) -> Result<(), CacheError> {
        let mut writer = lock(&self.writer);
        let mut reader = lock(&self.reader);
        let there = identity(&self.path).map_err(|error| self.unusable(&error))?;
        if damaged.is_some() && damaged == there {
            (*writer, *reader) = (None, None);
            self.remove()?;
        }
        for attempt in [1, 2] {
            match self.open_both() {
                Ok((to_write, to_read)) => {
                    (*writer, *reader) = (Some(to_write), Some(to_read));
                    return Ok(());
                }
                Err(OpenError::NoDatabase) if attempt == 1 => self.remove()?,
                Err(OpenError::NoDatabase) => break,
                Err(OpenError::Database(error)) => return Err(CacheError::Database(error)),
                Err(OpenError::Io(error)) => return Err(self.unusable(&error)),
            }
        }
        Err(CacheError::Unusable(format!("{} cannot be made", self.path.display())))
    }

    fn open_both(&self) -> Result<(Opened, Opened), OpenError> {
        let is_new = self.create_if_missing()?;
        let opened = (self.connect()?, self.connect()?);
        if is_new {
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
        Ok(opened)
    }

    /// Makes an empty file for the daemon's user alone.
    fn create_if_missing(&self) -> Result<bool, OpenError> {
        if identity(&self.path)?.is_some() {
            return Ok(false);
        }
        // What belonged to a deleted database.
        self.remove_files(&["-wal", "-shm"])?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path) {
            Ok(_) => Ok(true),
            // A --once was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn connect(&self) -> Result<Opened, OpenError> {
        let file = identity(&self.path)?.ok_or(OpenError::NoDatabase)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        // SQLite removes the log by its name when the last connection closes; after a deletion that would be the log of
        // the database that took the place.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match transaction.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
            SCHEMA_VERSION => {}
            0 => {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            _ => return Err(OpenError::NoDatabase),
        }
        transaction.commit()?;
        Ok(Opened { connection, file })
    }

    fn remove(&self) -> Result<(), CacheError> {
        self.remove_files(&["", "-wal", "-shm"]).map_err(|error| self.unusable(&error))
    }

    fn remove_files(&self, endings: &[&str]) -> io::Result<()> {
        for ending in endings {
            let mut path = self.path.clone().into_os_string();
            path.push(ending);
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn unusable(&self, error: &io::Error) -> CacheError {
        CacheError::Unusable(format!("{}: {error}", self.path.display()))
    }
}

enum OpenError {
    /// The file is none of ours: make it anew.
    NoDatabase,
    Database(rusqlite::Error),
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::NoDatabase } else { Self::Database(error) }
    }
}

/// A panic elsewhere leaves no half-changed state behind this lock: SQLite rolls back.
fn lock(slot: &Mutex<Option<Opened>>) -> MutexGuard<'_, Option<Opened>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error says that the file is no database of ours: bad pages, missing tables, columns or types.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        }
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => true,
        _ => false,
    }
}
