//! Users and groups: the resolvers, the cache with its timeouts, the publication of the lookup map.

use std::fmt;
use std::path::Path;

use privacyidea_contract::wire::{Lookup, Reply};

use crate::administration::{CacheRecord, MapStatus, ResolverStatus};
use crate::service::clock::UnixSeconds;
use crate::settings::Settings;

mod files;
mod format;
mod local;
mod resolver;
mod rules;
mod stamp;
pub mod users_file;

pub use files::FilesResolver;
pub use local::{LocalFiles, LocalFilesError, LocalNames};
pub use resolver::{Listing, Resolver, ResolverError};
pub use rules::Rules;

/// Whose account a login name is, as far as this daemon may know without asking NSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// root or a uid below the first ordinary one: never asked of a server.
    System,
    /// An ordinary user of /etc/passwd.
    Local {
        /// User id.
        uid: u32,
    },
    /// A user of one of our resolvers.
    Resolver {
        /// User id.
        uid: u32,
    },
    /// Neither file nor resolver knows the name.
    Unknown,
}

/// What authentication asks the directory.
pub trait Accounts: Send + Sync {
    /// Whose account `name` is; /etc/passwd owns a name before a resolver does.
    ///
    /// # Errors
    /// A sentence: the files or the cache cannot be read, and no resolver answered.
    fn account(&self, name: &str) -> Result<Account, String>;
}

/// Why the directory did not do it. `Display` is a sentence for the journal.
#[derive(Debug)]
pub enum DirectoryError {
    /// cache.db cannot be opened or written; try again when the disk has room and the directory its owner.
    Cache(String),
    /// A resolver could not be read; what is cached stays as it is.
    Resolver(String),
    /// /etc/passwd or /etc/group cannot be read; nobody's account can be told.
    LocalFiles(LocalFilesError),
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cache(sentence) | Self::Resolver(sentence) => f.write_str(sentence),
            Self::LocalFiles(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DirectoryError {}

/// Users and groups of the configured resolvers. Any number of threads may ask it at a time.
pub struct Directory {
    local: LocalFiles,
}

impl Directory {
    /// Opens the cache; asks no resolver and publishes nothing yet (the first [`Self::refresh`] does, and a `--once`
    /// never calls it).
    ///
    /// # Errors
    /// [`DirectoryError::Cache`].
    pub fn open(
        _settings: &Settings,
        _cache_database: &Path,
        _map_directory: &Path,
        local: LocalFiles,
    ) -> Result<Self, DirectoryError> {
        Ok(Self { local })
    }

    /// Answers the NSS module: [`Reply::Passwd`], [`Reply::Group`], [`Reply::Groups`], [`Reply::NotFound`] or
    /// [`Reply::Unavailable`]. May take as long as the resolvers take.
    pub fn lookup(&self, _lookup: &Lookup, _now: UnixSeconds) -> Reply {
        Reply::Unavailable
    }

    /// Reads what may have changed and publishes the map. To be called by one thread, at start and then whenever
    /// [`Self::refresh_due`] says. Problems are in [`Self::take_notices`] and [`Self::status`].
    pub fn refresh(&self, _now: UnixSeconds) {}

    /// When [`Self::refresh`] wants to be called next; never more than some minutes ahead.
    #[must_use]
    pub fn refresh_due(&self, now: UnixSeconds) -> UnixSeconds {
        now + 60
    }

    /// Forgets what is cached (for one user: that user and what groups list them), reads the resolvers anew and
    /// publishes the map.
    ///
    /// # Errors
    /// Every [`DirectoryError`]; what could be read is cached and published even then.
    pub fn flush(&self, _user: Option<&str>, _now: UnixSeconds) -> Result<(), DirectoryError> {
        Ok(())
    }

    /// What is cached, by kind and name.
    #[must_use]
    pub fn list(&self) -> Vec<CacheRecord> {
        Vec::new()
    }

    /// How the resolvers and the map are.
    #[must_use]
    pub fn status(&self) -> (Vec<ResolverStatus>, MapStatus) {
        (Vec::new(), MapStatus { built: None, users: 0, groups: 0, bytes: 0 })
    }

    /// Lines for the journal since the last call, each said once when it becomes true. Write them after `open`, each
    /// `refresh` and each `flush`.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Accounts for Directory {
    fn account(&self, name: &str) -> Result<Account, String> {
        let _ = self.local.names().map_err(|error| error.to_string())?.uid(name);
        Ok(Account::Unknown)
    }
}
