//! The two SQLite databases, their migrations and transactions. No policy.

mod cache;
mod state;

pub use cache::{Absent, Cache, CacheError, Cached, Changes, ResolverListing, Times};
pub use state::{RefillBasis, State, StoreError, Throttle, Transaction};
