//! HOTP, TOTP, simple pass, recovery codes, PIN handling, offline values: pure functions, the time passed in. No I/O of any kind.

mod credential;
mod failures;
mod offline;
mod otp;
mod otpauth;
mod pin;
mod recovery;
mod token;

pub use credential::{Credential, Found, Resync, Windows};
pub use failures::{Failures, Lock};
#[cfg(test)]
pub(crate) use offline::tests::hash as offline_hash;
pub use offline::{Budget, OfflineHash, OfflineHashError, OfflineToken, OfflineValue};
pub use otp::{Algorithm, Otp, OtpError, SEED_LENGTH_MAX, SEED_LENGTH_MIN, hotp};
pub use otpauth::uri as otpauth_uri;
#[cfg(test)]
pub(crate) use pin::HASHES;
pub use pin::{PinError, PinHash, spend_the_time_of_a_check};
pub use recovery::{CodeHash, RecoveryCode};
pub use token::{PinPosition, Token};
