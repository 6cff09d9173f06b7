//! The latest logins, for `privacyidea-host log` and `test-login`. The system's log is the lasting record.

use rusqlite::params;

use super::{State, StoreError, Transaction, signed, unsigned};
use crate::administration::AuditRecord;
use crate::authentication::Event;
use crate::service::clock::UnixSeconds;

/// So many logins are kept.
const ROWS_MAX: i64 = 10_000;

impl State {
    /// Writes an event down. It is not waited for until the row is on the disk: a power cut may cost the last ones, which
    /// the system's log has, and each login is spared half of its waiting for the disk.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn audit(&self, event: &Event) -> Result<(), StoreError> {
        self.change_without_waiting(|Transaction(connection)| {
            connection
                .prepare_cached("INSERT INTO audit (time, user, granted, text) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![signed(event.time), event.user, event.granted, event.to_string()])?;
            // Ids only grow, so this costs one step down the tree when there is nothing to delete.
            connection
                .prepare_cached("DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?1")?
                .execute([ROWS_MAX])?;
            Ok(())
        })
    }

    /// The latest events, newest first: of one user only, not before `since`, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn audited(
        &self,
        user: Option<&str>,
        since: UnixSeconds,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let connection = self.connection();
        let whose = if user.is_some() { "user = ?1" } else { "?1 IS NULL" };
        let mut select = connection.prepare_cached(&format!(
            "SELECT time, granted, text FROM audit WHERE {whose} AND time >= ?2 ORDER BY id DESC LIMIT ?3"
        ))?;
        let records = select.query_map(params![user, signed(since), limit], |row| {
            Ok(AuditRecord { time: unsigned(row.get(0)?), granted: row.get(1)?, text: row.get(2)? })
        })?;
        Ok(records.collect::<Result<_, _>>()?)
    }
}
