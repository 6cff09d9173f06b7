//! Tokens as rows.

use privacyidea_contract::Secret;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, params};
use zeroize::Zeroizing;

use super::{State, StoreError, Transaction, signed, unsigned};
use crate::administration::{Algorithm, PinPosition, TokenKind};
use crate::tokens::{CodeHash, Credential, Otp, Resync, Token};

const COLUMNS: &str =
    "serial, user, kind, description, seed, algorithm, digits, period, next, drift, resync_counter,
    resync_drift, pin, pin_position, active, failcount, last_failure, enrolled, last_used";

/// Words of the enums; also what an administrator reads who opens the database.
macro_rules! stored_as_word {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(match self { $(Self::$variant => $word),+ }.into())
            }
        }

        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                match value.as_str()? {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(FromSqlError::InvalidType),
                }
            }
        }
    };
}

stored_as_word!(TokenKind { Hotp = "hotp", Totp = "totp", SimplePass = "simple-pass", RecoveryCodes = "recovery-codes" });
stored_as_word!(Algorithm { Sha1 = "sha1", Sha256 = "sha256", Sha512 = "sha512" });
stored_as_word!(PinPosition { Before = "before", After = "after" });

impl State {
    /// All tokens, or those of one user, by user and serial.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Malformed`]
    pub fn tokens(&self, user: Option<&str>) -> Result<Vec<Token>, StoreError> {
        read(&self.connection(), whose(user), user)
    }
}

impl Transaction<'_> {
    /// The tokens of a user, by serial.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Malformed`]
    pub fn tokens_of(&self, user: &str) -> Result<Vec<Token>, StoreError> {
        read(&self.0, "user = ?1", Some(user))
    }

    /// The token of a serial.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::Malformed`]
    pub fn token(&self, serial: &str) -> Result<Option<Token>, StoreError> {
        Ok(read(&self.0, "serial = ?1", Some(serial))?.pop())
    }

    /// The next serial of a kind: `TOTP0001`. One that was given out never comes again, so that a log line names one
    /// token for ever.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn next_serial(&self, kind: TokenKind) -> Result<String, StoreError> {
        let number: i64 = self.0.query_row(
            "INSERT INTO serials VALUES (?1, 1) ON CONFLICT DO UPDATE SET last = last + 1 RETURNING last",
            [kind],
            |row| row.get(0),
        )?;
        let prefix = match kind {
            TokenKind::Hotp => "HOTP",
            TokenKind::Totp => "TOTP",
            TokenKind::SimplePass => "SPASS",
            TokenKind::RecoveryCodes => "RECOVERY",
        };
        Ok(format!("{prefix}{number:04}"))
    }

    /// Writes a token, new or changed, whole.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn put(&self, token: &Token) -> Result<(), StoreError> {
        let row = Columns::of(&token.credential);
        self.0.prepare_cached(&format!(
            "INSERT INTO tokens ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
             ON CONFLICT (serial) DO UPDATE SET description = ?4, next = ?9, drift = ?10, resync_counter = ?11,
                resync_drift = ?12, pin = ?13, pin_position = ?14, active = ?15, failcount = ?16, last_failure = ?17,
                last_used = ?19"
        ))?
        .execute(params![
            token.serial,
            token.user,
            token.kind(),
            token.description,
            row.otp.map(|otp| otp.seed().expose()),
            row.otp.map(Otp::algorithm),
            row.otp.map(Otp::digits),
            row.period,
            signed(row.next),
            row.drift,
            row.resync.map(|resync| signed(resync.counter)),
            row.resync.map(|resync| resync.drift),
            token.pin.as_ref().map(|pin| pin.as_str()),
            token.pin_position,
            token.active,
            token.failcount,
            token.last_failure.map(signed),
            signed(token.enrolled),
            token.last_used.map(signed),
        ])?;
        if let Credential::RecoveryCodes { unused } = &token.credential {
            self.put_codes(&token.serial, unused)?;
        }
        Ok(())
    }

    /// Removes a token and everything that belongs to it. False: there was none.
    ///
    /// # Errors
    /// [`StoreError::Database`]
    pub fn remove(&self, serial: &str) -> Result<bool, StoreError> {
        Ok(self.0.execute("DELETE FROM tokens WHERE serial = ?1", [serial])? == 1)
    }

    fn put_codes(&self, serial: &str, unused: &[CodeHash]) -> Result<(), StoreError> {
        self.0.execute("DELETE FROM recovery_codes WHERE serial = ?1", [serial])?;
        let mut insert = self.0.prepare_cached("INSERT INTO recovery_codes VALUES (?1, ?2)")?;
        for hash in unused {
            insert.execute(params![serial, hash])?;
        }
        Ok(())
    }
}

/// A credential, spread over the columns.
struct Columns<'a> {
    otp: Option<&'a Otp>,
    period: Option<u32>,
    next: u64,
    drift: i64,
    resync: Option<Resync>,
}

impl<'a> Columns<'a> {
    fn of(credential: &'a Credential) -> Self {
        match credential {
            Credential::Hotp { otp, next, resync } => {
                Self { otp: Some(otp), period: None, next: *next, drift: 0, resync: *resync }
            }
            Credential::Totp { otp, period, next, drift, resync } => {
                Self { otp: Some(otp), period: Some(*period), next: *next, drift: *drift, resync: *resync }
            }
            Credential::SimplePass | Credential::RecoveryCodes { .. } => {
                Self { otp: None, period: None, next: 0, drift: 0, resync: None }
            }
        }
    }
}

/// One condition for both cases would read the whole table for one user.
fn whose(user: Option<&str>) -> &'static str {
    if user.is_some() { "user = ?1" } else { "?1 IS NULL" }
}

fn select(which: &str) -> String {
    format!("SELECT {COLUMNS} FROM tokens WHERE {which} ORDER BY user, serial")
}

fn read(
    connection: &rusqlite::Connection,
    which: &str,
    argument: Option<&str>,
) -> Result<Vec<Token>, StoreError> {
    let mut select = connection.prepare_cached(&select(which))?;
    let mut rows = select.query([argument])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(token_of(connection, row)?);
    }
    Ok(tokens)
}

fn token_of(connection: &rusqlite::Connection, row: &Row<'_>) -> Result<Token, StoreError> {
    let serial: String = row.get("serial")?;
    let malformed = |what: &dyn std::fmt::Display| StoreError::Malformed(format!("token {serial}: {what}"));
    let resync = match (row.get::<_, Option<i64>>("resync_counter")?, row.get("resync_drift")?) {
        (Some(counter), Some(drift)) => Some(Resync { counter: unsigned(counter), drift }),
        _ => None,
    };
    let next = unsigned(row.get("next")?);
    let otp = || -> Result<Otp, StoreError> {
        let seed = Zeroizing::new(row.get::<_, Vec<u8>>("seed")?);
        Otp::new(Secret::new(seed.to_vec()), row.get("algorithm")?, row.get("digits")?)
            .map_err(|error| malformed(&error))
    };
    let credential = match row.get("kind")? {
        TokenKind::Hotp => Credential::Hotp { otp: otp()?, next, resync },
        TokenKind::Totp => {
            let period = row.get("period")?;
            if period == 0 {
                return Err(malformed(&"its time step has no length"));
            }
            Credential::Totp { otp: otp()?, period, next, drift: row.get("drift")?, resync }
        }
        TokenKind::SimplePass => Credential::SimplePass,
        TokenKind::RecoveryCodes => Credential::RecoveryCodes { unused: codes_of(connection, &serial)? },
    };
    let pin: Option<String> = row.get("pin")?;
    let pin =
        pin.map(|pin| pin.parse()).transpose().map_err(|error: crate::tokens::PinError| malformed(&error))?;
    Ok(Token {
        user: row.get("user")?,
        description: row.get("description")?,
        credential,
        pin,
        pin_position: row.get("pin_position")?,
        active: row.get("active")?,
        failcount: row.get("failcount")?,
        last_failure: row.get::<_, Option<i64>>("last_failure")?.map(unsigned),
        enrolled: unsigned(row.get("enrolled")?),
        last_used: row.get::<_, Option<i64>>("last_used")?.map(unsigned),
        serial,
    })
}

fn codes_of(connection: &rusqlite::Connection, serial: &str) -> Result<Vec<CodeHash>, StoreError> {
    let mut select = connection.prepare_cached("SELECT hash FROM recovery_codes WHERE serial = ?1")?;
    let codes = select.query_map([serial], |row| row.get(0))?;
    Ok(codes.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_users_tokens_are_found_by_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        for which in [whose(Some("alice")), "serial = ?1"] {
            let plan: String = state
                .connection()
                .query_row(&format!("EXPLAIN QUERY PLAN {}", select(which)), ["alice"], |row| {
                    row.get("detail")
                })
                .unwrap();
            assert!(plan.starts_with("SEARCH tokens USING INDEX"), "{which}: {plan}");
        }
    }
}
