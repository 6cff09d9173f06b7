//! The latest logins, for `privacyidea-host log` and `test-login`. The system's log is the lasting record.

use rusqlite::params;

use super::{State, StoreError, Transaction, signed, unsigned};
use crate::administration::AuditRecord;
use crate::authentication::{Event, Method};
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
                .prepare_cached(
                    "INSERT INTO audit
                        (time, number, user, service, rhost, tty, verdict, method, token, granted, text)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                )?
                .execute(params![
                    signed(event.time),
                    event.number,
                    event.user,
                    event.service,
                    event.rhost,
                    event.tty,
                    event.verdict_word(),
                    event.method.map(Method::word),
                    event.token,
                    event.is_granted(),
                    event.to_string(),
                ])?;
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
        let whose = if user.is_some() { "user = ?1" } else { "?1 IS NULL" };
        self.select(&format!("{whose} AND time >= ?2 ORDER BY id DESC"), user, signed(since), limit)
    }

    /// The events after the one of that id, oldest first: of one user only, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn audited_after(
        &self,
        id: u64,
        user: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        // The ids are few: those since the last question.
        self.select("(?1 IS NULL OR user = ?1) AND id > ?2 ORDER BY id", user, signed(id), limit)
    }

    fn select(
        &self,
        which: &str,
        user: Option<&str>,
        bound: i64,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let connection = self.connection();
        let mut select = connection.prepare_cached(&format!(
            "SELECT id, time, number, user, service, rhost, tty, verdict, method, token, granted, text
             FROM audit WHERE {which} LIMIT ?3"
        ))?;
        let records = select.query_map(params![user, bound, limit], |row| {
            Ok(AuditRecord {
                id: unsigned(row.get("id")?),
                time: unsigned(row.get("time")?),
                number: row.get("number")?,
                user: row.get("user")?,
                service: row.get("service")?,
                rhost: row.get("rhost")?,
                tty: row.get("tty")?,
                verdict: row.get("verdict")?,
                method: row.get("method")?,
                token: row.get("token")?,
                granted: row.get("granted")?,
                text: row.get("text")?,
            })
        })?;
        Ok(records.collect::<Result<_, _>>()?)
    }
}
