//! The tables, and how older ones become today's.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// One step a version; a database of version n has had the first n. Never change one that was released.
pub(super) const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE tokens (
        serial TEXT PRIMARY KEY,
        user TEXT NOT NULL,
        kind TEXT NOT NULL,
        description TEXT NOT NULL,
        -- HOTP and TOTP.
        seed BLOB, algorithm TEXT, digits INTEGER, period INTEGER,
        -- The lowest counter or time step that is still good; only ever grows.
        next INTEGER NOT NULL,
        drift INTEGER NOT NULL,
        -- A right value outside the window, waiting for the one after it.
        resync_counter INTEGER, resync_drift INTEGER,
        -- argon2id, PHC string.
        pin TEXT, pin_position TEXT NOT NULL,
        active INTEGER NOT NULL,
        failcount INTEGER NOT NULL, last_failure INTEGER,
        enrolled INTEGER NOT NULL, last_used INTEGER
    ) STRICT;
    CREATE INDEX tokens_by_user ON tokens (user);
    -- SHA-256 of unused codes.
    CREATE TABLE recovery_codes (
        serial TEXT NOT NULL REFERENCES tokens ON DELETE CASCADE,
        hash BLOB NOT NULL,
        PRIMARY KEY (serial, hash)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE serials (kind TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    -- The key is a salted hash: people type passwords where names belong.
    CREATE TABLE throttle (
        key BLOB PRIMARY KEY, failures INTEGER NOT NULL, last INTEGER NOT NULL, until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX throttle_by_age ON throttle (last);
    CREATE TABLE salts (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO salts VALUES ('throttle', randomblob(32));
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY, time INTEGER NOT NULL, user TEXT, granted INTEGER NOT NULL, text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX audit_by_user ON audit (user, time);
",
    "
    ALTER TABLE audit ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE audit ADD COLUMN service TEXT NOT NULL DEFAULT '';
    ALTER TABLE audit ADD COLUMN rhost TEXT NOT NULL DEFAULT '';
    ALTER TABLE audit ADD COLUMN tty TEXT NOT NULL DEFAULT '';
    ALTER TABLE audit ADD COLUMN verdict TEXT;
    ALTER TABLE audit ADD COLUMN method TEXT;
    ALTER TABLE audit ADD COLUMN token TEXT;
    -- What it held is worth a minute's wait. Both keys are salted hashes: of user and source, and of the user.
    DROP TABLE throttle;
    CREATE TABLE throttle (
        key BLOB PRIMARY KEY, user BLOB NOT NULL,
        failures INTEGER NOT NULL, last INTEGER NOT NULL, until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX throttle_by_age ON throttle (last);
    CREATE INDEX throttle_by_user ON throttle (user);
",
    "
    -- Tokens of the server's, with what it handed out for logins without it.
    CREATE TABLE offline_tokens (
        serial TEXT PRIMARY KEY,
        user TEXT NOT NULL,
        realm TEXT NOT NULL,
        -- None: it is spent, and no other came.
        refill_token TEXT,
        -- A refill was asked for with it, and no answer has come.
        unanswered INTEGER NOT NULL,
        -- The values cover the code without its PIN.
        code_alone INTEGER NOT NULL,
        -- The lowest counter that is still good.
        next INTEGER NOT NULL,
        fetched INTEGER NOT NULL,
        failcount INTEGER NOT NULL, last_failure INTEGER,
        last_used INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX offline_tokens_by_user ON offline_tokens (user);
    -- $pbkdf2-sha512$...; a used one is deleted, and all below it.
    CREATE TABLE offline_values (
        serial TEXT NOT NULL REFERENCES offline_tokens ON DELETE CASCADE,
        counter INTEGER NOT NULL,
        hash TEXT NOT NULL,
        PRIMARY KEY (serial, counter)
    ) STRICT, WITHOUT ROWID;
",
];

pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    // The daemon and a --once may both be the first: the lock decides before either looks at the version.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let Some(missing) = usize::try_from(found).ok().and_then(|done| MIGRATIONS.get(done..)) else {
        return Err(StoreError::Newer { found });
    };
    for step in missing {
        transaction.execute_batch(step)?;
    }
    if found != known {
        transaction.pragma_update(None, "user_version", known)?;
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_version_1_keeps_its_tokens() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(MIGRATIONS[0]).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        let token = "INSERT INTO tokens VALUES ('SPASS0001', 'carla', 'simple-pass', '', NULL, NULL, NULL, NULL, 0, 0,
            NULL, NULL, 'pin', 'before', 1, 0, NULL, 0, NULL)";
        connection.execute_batch(token).unwrap();
        for _ in 0..2 {
            migrate(&mut connection).unwrap();
        }
        let count = |table: &str| -> i64 {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!([count("tokens"), count("offline_tokens"), count("offline_values")], [1, 0, 0]);
        let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version as usize, MIGRATIONS.len());
    }
}
