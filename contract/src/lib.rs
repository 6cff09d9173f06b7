//! What the processes of privacyidea-host agree on, and nothing else.
//!
//! - [`wire`]: the messages on the two sockets (`docs/protocol.md`)
//! - [`map`]: the lookup map that the daemon publishes and the NSS module reads (`docs/lookup-map.md`)
//! - [`names`]: which names and ids may be believed
//! - [`paths`]: where everything is; no environment variable moves it

// Exceptions say so: the mapping and SO_PEERCRED.
#![deny(unsafe_code)]

pub mod map;
pub mod names;
pub mod paths;
mod secret;
pub mod wire;

pub use secret::Secret;
