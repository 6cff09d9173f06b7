//! The messages on the sockets (`docs/protocol.md`).
//!
//! A frame is `u32 length of what follows, u16 version, u16 kind, fields`, little endian. Text and byte fields are
//! `u32 length, bytes`; an optional field is `u8 0` or `u8 1, field`. Bytes left over in a frame are an error.

mod codec;
mod login;
mod message;
mod stream;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use codec::{FRAME_LENGTH_MAX, Version, WireError};
pub use login::{EXPORTS_MAX, FirstStep, Login, Overrides};
pub use message::{GroupEntry, Lookup, PasswdEntry, Reply, Request, Verdict};
pub use stream::{PeerCredentials, Stream, StreamError};

/// How long the module waits for each step of the daemon in a login. What the daemon allows itself is less, and hosts
/// wait longer (sshd two minutes).
pub const STEP: Duration = Duration::from_secs(45);
