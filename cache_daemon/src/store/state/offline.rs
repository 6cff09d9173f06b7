//! Offline tokens and their values as rows.

use rusqlite::{Connection, OptionalExtension, Row, params};
use zeroize::Zeroizing;

use super::{State, StoreError, Transaction, signed, unsigned};
use crate::service::clock::UnixSeconds;
use crate::tokens::{Failures, OfflineHash, OfflineToken, OfflineValue};

const COLUMNS: &str = "serial, user, realm, code_alone, next, fetched, failcount, last_failure, last_used,
    (SELECT count(*) FROM offline_values WHERE offline_values.serial = offline_tokens.serial) AS left";

/// What a refill is asked for with.
pub struct RefillBasis {
    /// Of the newest batch.
    pub refill_token: Zeroizing<String>,
    /// A refill was asked for with it before, and no answer came: the server may have changed it since.
    pub unanswered: bool,
}

impl State {
    /// All offline tokens, or those of one user, by user and serial, each with its `window` lowest values.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Malformed`]
    pub fn offline_tokens(&self, user: Option<&str>, window: u32) -> Result<Vec<OfflineToken>, StoreError> {
        read(&self.connection(), "?1 IS NULL OR user = ?1", user, window)
    }
}

impl Transaction<'_> {
    /// The offline tokens of a user, by serial, without their values.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn offline_tokens_of(&self, user: &str) -> Result<Vec<OfflineToken>, StoreError> {
        read(&self.0, "user = ?1", Some(user), 0)
    }

    /// The offline token of a serial, without its values.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn offline_token(&self, serial: &str) -> Result<Option<OfflineToken>, StoreError> {
        Ok(read(&self.0, "serial = ?1", Some(serial), 0)?.pop())
    }

    /// Puts a batch in place of all that there was of its serial. `token` has all of its values.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn replace_offline(&self, token: &OfflineToken, refill_token: &str) -> Result<(), StoreError> {
        self.remove_offline(&token.serial)?;
        self.0.execute(
            "INSERT INTO offline_tokens (serial, user, refill_token, unanswered, code_alone, next, fetched, failcount,
                last_failure, last_used, realm)
             VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                token.serial,
                token.user,
                refill_token,
                token.code_alone,
                signed(token.next),
                signed(token.fetched),
                token.failures.count,
                token.failures.last.map(signed),
                token.last_used.map(signed),
                token.realm,
            ],
        )?;
        self.add_values(&token.serial, &token.values)
    }

    /// Writes failures and last use. A token that is gone stays so.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn put_offline(&self, token: &OfflineToken) -> Result<(), StoreError> {
        self.0
            .prepare_cached(
                "UPDATE offline_tokens SET failcount = ?2, last_failure = ?3, last_used = ?4 WHERE serial = ?1",
            )?
            .execute(params![
                token.serial,
                token.failures.count,
                token.failures.last.map(signed),
                token.last_used.map(signed),
            ])?;
        Ok(())
    }

    /// Uses a value up, and all below it. False: it was not there any more, or is another one now.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn use_offline_value(&self, serial: &str, value: &OfflineValue) -> Result<bool, StoreError> {
        let counter = signed(value.counter);
        let stored: Option<String> = self
            .0
            .prepare_cached(
                "SELECT hash FROM offline_values JOIN offline_tokens USING (serial)
                 WHERE serial = ?1 AND counter = ?2 AND counter >= next",
            )?
            .query_row(params![serial, counter], |row| row.get(0))
            .optional()?;
        if stored.as_deref() != Some(value.hash.as_str()) {
            return Ok(false);
        }
        self.0
            .prepare_cached("DELETE FROM offline_values WHERE serial = ?1 AND counter <= ?2")?
            .execute(params![serial, counter])?;
        self.0
            .prepare_cached("UPDATE offline_tokens SET next = ?2 WHERE serial = ?1")?
            .execute(params![serial, counter.saturating_add(1)])?;
        Ok(true)
    }

    /// Removes an offline token and its values. False: there was none.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn remove_offline(&self, serial: &str) -> Result<bool, StoreError> {
        let mut delete = self.0.prepare_cached("DELETE FROM offline_tokens WHERE serial = ?1")?;
        Ok(delete.execute([serial])? == 1)
    }

    /// What a refill can be asked for with; none: there is no such token, or no refill token.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn refill_basis(&self, serial: &str) -> Result<Option<RefillBasis>, StoreError> {
        let row = self
            .0
            .query_row(
                "SELECT refill_token, unanswered FROM offline_tokens WHERE serial = ?1",
                [serial],
                |row| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?)),
            )
            .optional()?;
        Ok(row.and_then(|(token, unanswered)| {
            token.map(|token| RefillBasis { refill_token: Zeroizing::new(token), unanswered })
        }))
    }

    /// Remembers that a refill is asked for, or that it was answered without a change.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn set_refill_unanswered(&self, serial: &str, unanswered: bool) -> Result<(), StoreError> {
        self.0.execute(
            "UPDATE offline_tokens SET unanswered = ?2 WHERE serial = ?1",
            params![serial, unanswered],
        )?;
        Ok(())
    }

    /// Forgets a refill token that is spent; the values stay.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn forget_refill_token(&self, serial: &str) -> Result<(), StoreError> {
        self.0.execute(
            "UPDATE offline_tokens SET refill_token = NULL, unanswered = 0 WHERE serial = ?1",
            [serial],
        )?;
        Ok(())
    }

    /// Adds refilled values above those that there are, with the refill token that came with them. None below the lowest
    /// counter that is still good is taken, and none takes another's place.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn refill_offline(
        &self,
        serial: &str,
        refill_token: &str,
        values: &[OfflineValue],
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        self.0.execute(
            "UPDATE offline_tokens SET refill_token = ?2, unanswered = 0, fetched = ?3 WHERE serial = ?1",
            params![serial, refill_token, signed(now)],
        )?;
        self.add_values(serial, values)
    }

    fn add_values(&self, serial: &str, values: &[OfflineValue]) -> Result<(), StoreError> {
        let mut insert = self.0.prepare_cached(
            "INSERT OR IGNORE INTO offline_values
             SELECT serial, ?2, ?3 FROM offline_tokens WHERE serial = ?1 AND next <= ?2",
        )?;
        for value in values {
            insert.execute(params![serial, signed(value.counter), value.hash.as_str()])?;
        }
        Ok(())
    }
}

fn read(
    connection: &Connection,
    which: &str,
    argument: Option<&str>,
    window: u32,
) -> Result<Vec<OfflineToken>, StoreError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM offline_tokens WHERE {which} ORDER BY user, serial"
    ))?;
    let tokens = select.query_map([argument], token_of)?.collect::<Result<Vec<_>, _>>()?;
    tokens
        .into_iter()
        .map(|token| {
            let values = if window == 0 { Vec::new() } else { values_of(connection, &token.serial, window)? };
            Ok(OfflineToken { values, ..token })
        })
        .collect()
}

fn token_of(row: &Row<'_>) -> rusqlite::Result<OfflineToken> {
    Ok(OfflineToken {
        serial: row.get("serial")?,
        user: row.get("user")?,
        realm: row.get("realm")?,
        code_alone: row.get("code_alone")?,
        next: unsigned(row.get("next")?),
        fetched: unsigned(row.get("fetched")?),
        failures: Failures {
            count: row.get("failcount")?,
            last: row.get::<_, Option<i64>>("last_failure")?.map(unsigned),
        },
        last_used: row.get::<_, Option<i64>>("last_used")?.map(unsigned),
        left: row.get("left")?,
        values: Vec::new(),
    })
}

fn values_of(connection: &Connection, serial: &str, window: u32) -> Result<Vec<OfflineValue>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT counter, hash FROM offline_values WHERE serial = ?1 ORDER BY counter LIMIT ?2",
    )?;
    let mut rows = select.query(params![serial, window])?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get("hash")?;
        let hash: OfflineHash =
            text.parse().map_err(|error| StoreError::Malformed(format!("token {serial}: {error}")))?;
        values.push(OfflineValue { counter: unsigned(row.get("counter")?), hash });
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::offline_hash as hash;

    fn batch(serial: &str, counters: std::ops::Range<u64>) -> OfflineToken {
        let values: Vec<_> = counters
            .map(|counter| OfflineValue { counter, hash: hash(counter.to_string().as_bytes(), 1) })
            .collect();
        OfflineToken {
            serial: serial.into(),
            user: "carla".into(),
            realm: String::new(),
            code_alone: false,
            next: values[0].counter,
            fetched: 1000,
            failures: Failures::default(),
            last_used: None,
            left: u32::try_from(values.len()).unwrap(),
            values,
        }
    }

    fn state() -> (tempfile::TempDir, State) {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        (directory, state)
    }

    fn store(state: &State, token: &OfflineToken, text: &str) {
        state.change(|transaction| transaction.replace_offline(token, text)).unwrap();
    }

    fn counters(state: &State, window: u32) -> Vec<u64> {
        let tokens = state.offline_tokens(Some("carla"), window).unwrap();
        tokens.iter().flat_map(|token| token.values.iter().map(|value| value.counter)).collect()
    }

    #[test]
    fn the_lowest_values_come_first_in_the_order_of_numbers() {
        let (_directory, state) = state();
        store(&state, &batch("PI1", 8..103), "one");
        assert_eq!(counters(&state, 5), [8, 9, 10, 11, 12]);
        let token = state.offline_tokens(Some("carla"), 1).unwrap().pop().unwrap();
        assert_eq!((token.left, token.fetched, token.user.as_str()), (95, 1000, "carla"));
        assert!(state.offline_tokens(Some("lena"), 5).unwrap().is_empty());
    }

    #[test]
    fn a_new_batch_replaces_the_old_one_of_its_serial_only() {
        let (_directory, state) = state();
        store(&state, &batch("PI1", 1..6), "one");
        store(&state, &batch("PI2", 1..3), "other");
        store(&state, &batch("PI1", 50..52), "two");
        assert_eq!(counters(&state, 100), [50, 51, 1, 2]);
        let basis = state.change(|transaction| transaction.refill_basis("PI1")).unwrap().unwrap();
        assert_eq!(basis.refill_token.as_str(), "two");
    }

    #[test]
    fn a_value_is_used_once_and_takes_those_below_with_it() {
        let (_directory, state) = state();
        let token = batch("PI1", 1..6);
        store(&state, &token, "one");
        let using = |index: usize| {
            state.change(|transaction| transaction.use_offline_value("PI1", &token.values[index])).unwrap()
        };
        assert!(using(2));
        assert_eq!(counters(&state, 100), [4, 5]);
        for used in 0..=2 {
            assert!(!using(used), "{used}");
        }
        let other = OfflineValue { counter: 4, hash: hash(b"another", 1) };
        let used = state.change(|transaction| transaction.use_offline_value("PI1", &other)).unwrap();
        assert!(!used, "replaced since it was compared");
        assert!(using(3));
    }

    #[test]
    fn a_refill_adds_above_and_revives_nothing() {
        let (_directory, state) = state();
        let token = batch("PI1", 1..6);
        store(&state, &token, "one");
        let values = batch("PI1", 1..9).values;
        state
            .change(|transaction| {
                assert!(transaction.use_offline_value("PI1", &token.values[2])?);
                transaction.set_refill_unanswered("PI1", true)?;
                assert!(transaction.refill_basis("PI1")?.is_some_and(|basis| basis.unanswered));
                transaction.refill_offline("PI1", "two", &values, 2000)
            })
            .unwrap();
        assert_eq!(counters(&state, 100), [4, 5, 6, 7, 8]);
        let basis = state.change(|transaction| transaction.refill_basis("PI1")).unwrap().unwrap();
        assert_eq!((basis.refill_token.as_str(), basis.unanswered), ("two", false));
        assert_eq!(state.offline_tokens(None, 1).unwrap()[0].fetched, 2000);
    }

    #[test]
    fn nothing_is_left_of_what_is_removed() {
        let (_directory, state) = state();
        store(&state, &batch("PI1", 1..6), "one");
        assert!(state.change(|transaction| transaction.remove_offline("PI1")).unwrap());
        assert!(!state.change(|transaction| transaction.remove_offline("PI1")).unwrap());
        let values: i64 = state
            .connection()
            .query_row("SELECT count(*) FROM offline_values", [], |row| row.get(0))
            .unwrap();
        assert_eq!(values, 0);
        let refilled = state
            .change(|transaction| transaction.refill_offline("PI1", "two", &batch("PI1", 6..9).values, 1));
        assert!(refilled.is_ok() && counters(&state, 9).is_empty(), "a late refill brings nothing back");
    }

    #[test]
    fn a_spent_refill_token_is_forgotten_and_the_values_stay() {
        let (_directory, state) = state();
        store(&state, &batch("PI1", 1..6), "one");
        state.change(|transaction| transaction.forget_refill_token("PI1")).unwrap();
        assert!(state.change(|transaction| transaction.refill_basis("PI1")).unwrap().is_none());
        assert_eq!(counters(&state, 100).len(), 5);
    }
}
