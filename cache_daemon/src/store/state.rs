//! `state.db`: tokens, counters, throttle, audit. Durable: `synchronous=FULL`, never thrown away.

/// The state database.
pub struct State;

/// Why the database did not do it.
#[derive(Debug)]
pub enum StoreError {
    /// Try again later: disk full, locked for too long, I/O error.
    Database(rusqlite::Error),
    /// Made by a newer version of this program.
    Newer {
        /// The `user_version` found.
        found: i64,
    },
}
