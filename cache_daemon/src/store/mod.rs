//! The two SQLite databases, their migrations and transactions. No policy.

mod state;

pub use state::{State, StoreError, Throttle, Transaction};
