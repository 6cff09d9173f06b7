//! What the processes of privacyidea-host agree on, and nothing else.
//!
//! - [`wire`]: the messages on the two sockets (`docs/protocol.md`)
//! - [`map`]: the lookup map that the daemon publishes and the NSS module reads (`docs/map-format.md`)
//! - [`names`]: which names and ids may be believed
//! - [`variables`]: which variables may enter a session's environment
//! - [`DaemonUser`]: who the daemon is
//! - [`Secret`]: what was typed
//! - [`paths`]: where everything is; no environment variable moves it

// Exceptions say so: the mapping and SO_PEERCRED.
#![deny(unsafe_code)]

mod daemon_user;
pub mod map;
pub mod names;
pub mod paths;
mod secret;
pub mod variables;
pub mod wire;

pub use daemon_user::DaemonUser;
pub use secret::Secret;
