//! `state.db`: tokens, counters, offline values, throttle, audit. Durable: `synchronous=FULL`, never thrown away.

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

mod audit;
mod copy;
mod file;
mod offline;
mod schema;
mod throttle;
mod token;

pub use offline::RefillBasis;
pub use throttle::Throttle;

/// How long another process may hold the database (a `--once` beside the daemon) before this is an error.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The state database. One connection: writers wait for each other anyway, and reads are short.
pub struct State(Mutex<Connection>);

/// Why the database did not do it. Nothing was changed.
#[derive(Debug)]
pub enum StoreError {
    /// Try again later: disk full, locked for too long, I/O error.
    Database(rusqlite::Error),
    /// The file cannot be made or opened.
    File(std::io::Error),
    /// Made by a newer version of this program.
    Newer {
        /// The `user_version` found.
        found: i64,
    },
    /// A row does not say what a token says: the database was changed by somebody else.
    Malformed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                f.write_str("the disk is full: nothing can be written to the state database")
            }
            Self::Database(error) => write!(f, "the state database failed: {error}"),
            Self::File(error) => write!(f, "the state database cannot be opened: {error}"),
            Self::Newer { found } => {
                write!(f, "the state database is of a newer version of this program (version {found})")
            }
            Self::Malformed(what) => write!(f, "the state database holds something wrong: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// A change under way, alone with the database (`BEGIN IMMEDIATE`): what is read in it is true until its end.
pub struct Transaction<'a>(rusqlite::Transaction<'a>);

impl State {
    /// Opens the database; makes it, mode 0600, if there is none, and brings it to this version.
    ///
    /// # Errors
    /// Every [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        file::create_private(path).map_err(StoreError::File)?;
        Self::prepare(Connection::open(path)?)
    }

    fn prepare(mut connection: Connection) -> Result<Self, StoreError> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        enter_wal(&connection, BUSY_TIMEOUT)?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        // Deleted seeds and codes are overwritten, not only unlinked.
        connection.pragma_update(None, "secure_delete", "ON")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        schema::migrate(&mut connection)?;
        Ok(Self(Mutex::new(connection)))
    }

    /// Does `work` in one transaction that is durable when this returns `Ok`. If `work` fails, or the commit, nothing
    /// has happened.
    ///
    /// # Errors
    /// What `work` says, and [`StoreError::Database`].
    pub fn change<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact("FULL", work)
    }

    /// As [`State::change`], but the change is not waited for until it is on the disk: the end of a process never costs
    /// it, a power cut may. For what nobody could win by pulling the plug.
    ///
    /// # Errors
    /// As [`State::change`].
    pub fn change_without_waiting<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact("NORMAL", work)
    }

    fn transact<T>(
        &self,
        synchronous: &str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection();
        connection.pragma_update(None, "synchronous", synchronous)?;
        let transaction = Transaction(connection.transaction_with_behavior(TransactionBehavior::Immediate)?);
        let outcome = work(&transaction)?;
        transaction.0.commit()?;
        Ok(outcome)
    }

    /// As if the disk were full: tests only.
    #[cfg(test)]
    pub(crate) fn refuse_to_grow(&self) {
        self.connection().pragma_update(None, "query_only", "ON").expect("a pragma");
    }

    /// Whether the last change was waited for until it was on the disk: tests only.
    #[cfg(test)]
    pub(crate) fn has_waited(&self) -> bool {
        let full = 2;
        let setting: i64 =
            self.connection().pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a pragma");
        setting == full
    }

    /// A panic while the lock was held left no half-done change: its transaction was rolled back.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Switches to write-ahead logging. SQLite answers "busy" at once, whatever the busy timeout, when another process does
/// the same at this moment; so the wait is here. It happens once in a database's life.
fn enter_wal(connection: &Connection, patience: Duration) -> Result<(), StoreError> {
    let deadline = Instant::now() + patience;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::yield_now();
            }
            done => return Ok(done?),
        }
    }
}

/// SQLite's integers are signed. Times and counters beyond its range are no times and counters of this world; they are
/// kept at the largest one rather than wrapped into the past, where they would be good again.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests;
