//! Failures of one user from one source. Kept here and not in memory, because each `--once` is a process of its own.

use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::{StoreError, Transaction, signed, unsigned};
use crate::service::clock::UnixSeconds;

/// So many users and sources are remembered; the longest ago is forgotten first.
const ROWS_MAX: i64 = 10_000;

/// What is remembered of a user and a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Consecutive failures.
    pub failures: u32,
    /// The last of them.
    pub last: UnixSeconds,
    /// No attempt is looked at before this time.
    pub until: UnixSeconds,
}

impl Transaction<'_> {
    /// What is remembered of `user` from `source`.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn throttle(&self, user: &str, source: &str) -> Result<Option<Throttle>, StoreError> {
        let key = self.salted([user, source])?;
        let mut select =
            self.0.prepare_cached("SELECT failures, last, until FROM throttle WHERE key = ?1")?;
        Ok(select
            .query_row([key], |row| {
                Ok(Throttle {
                    failures: row.get(0)?,
                    last: unsigned(row.get(1)?),
                    until: unsigned(row.get(2)?),
                })
            })
            .optional()?)
    }

    /// Remembers; none: forgets.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn set_throttle(
        &self,
        user: &str,
        source: &str,
        throttle: Option<Throttle>,
    ) -> Result<(), StoreError> {
        let key = self.salted([user, source])?;
        let Some(throttle) = throttle else {
            self.0.execute("DELETE FROM throttle WHERE key = ?1", [key])?;
            return Ok(());
        };
        self.0.execute(
            "INSERT OR REPLACE INTO throttle VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                key,
                self.salted([user])?,
                throttle.failures,
                signed(throttle.last),
                signed(throttle.until)
            ],
        )?;
        self.0.execute(
            "DELETE FROM throttle WHERE key IN
                (SELECT key FROM throttle ORDER BY last DESC LIMIT -1 OFFSET ?1)",
            [ROWS_MAX],
        )?;
        Ok(())
    }

    /// Forgets what is remembered of `user`, from wherever. Says whether there was anything.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn forget_throttles(&self, user: &str) -> Result<bool, StoreError> {
        let key = self.salted([user])?;
        Ok(self.0.execute("DELETE FROM throttle WHERE user = ?1", [key])? > 0)
    }

    fn salted<const N: usize>(&self, texts: [&str; N]) -> Result<[u8; 32], StoreError> {
        let salt: Vec<u8> =
            self.0.query_row("SELECT value FROM salts WHERE name = 'throttle'", [], |row| row.get(0))?;
        let mut hash = Sha256::new_with_prefix(salt);
        for text in texts {
            hash.update(text);
            // No text has it, so none runs into the next.
            hash.update([0]);
        }
        Ok(hash.finalize().into())
    }
}
