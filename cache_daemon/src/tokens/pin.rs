//! PINs, as argon2id hashes.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

/// 19 MiB, two passes: RFC 9106 is about servers with more memory; these are the smallest parameters that OWASP's
/// password storage advice has for argon2id, because a login host may be small and several people log in at once.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
/// Longer ones are refused when they are set, and wrong when they are typed.
const PIN_LENGTH_MAX: usize = 256;

/// A PIN that can be checked but not read: a PHC string (`$argon2id$v=19$…`).
#[derive(Clone, PartialEq, Eq)]
pub struct PinHash(String);

/// Why there is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinError {
    /// No PIN, or a very long one.
    Length,
    /// The stored text is no PHC string.
    Malformed,
    /// Out of memory.
    Argon2,
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => write!(f, "a PIN has 1 to {PIN_LENGTH_MAX} bytes"),
            Self::Malformed => f.write_str("the stored PIN hash cannot be read"),
            Self::Argon2 => f.write_str("the PIN cannot be hashed: not enough memory"),
        }
    }
}

impl std::error::Error for PinError {}

impl PinHash {
    /// Hashes a PIN under a salt from the system's random source.
    ///
    /// # Errors
    /// [`PinError::Length`], [`PinError::Argon2`]
    pub fn new(pin: &[u8], salt: &[u8; 16]) -> Result<Self, PinError> {
        if pin.is_empty() || pin.len() > PIN_LENGTH_MAX {
            return Err(PinError::Length);
        }
        let hash = argon2().hash_password_with_salt(pin, salt).map_err(|_| PinError::Argon2)?;
        Ok(Self(hash.to_string()))
    }

    /// Whether this is the PIN. Takes the same time for every answer.
    #[must_use]
    pub fn matches(&self, pin: &[u8]) -> bool {
        let Ok(hash) = PasswordHash::new(&self.0) else { return false };
        // Hashed also if it is too long: the refusal must not be quicker.
        argon2().verify_password(pin, &hash).is_ok() && pin.len() <= PIN_LENGTH_MAX
    }

    /// The PHC string, for the database.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PinHash {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        PasswordHash::new(text).map_err(|_| PinError::Malformed)?;
        Ok(Self(text.to_owned()))
    }
}

/// Takes as long as checking a PIN, so that a refusal does not tell by its speed whether there was one to check.
pub fn spend_the_time_of_a_check() {
    let mut unused = [0; 32];
    // Out of memory: a real check would have failed as fast.
    let _ = argon2().hash_password_into(b"nobody's PIN", b"nobody's salt", &mut unused);
}

fn argon2() -> Argon2<'static> {
    #[cfg(test)]
    HASHES.set(HASHES.get() + 1);
    let parameters = Params::new(MEMORY_KIB, PASSES, 1, None).expect("constants within argon2's limits");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters)
}

#[cfg(test)]
thread_local! {
    /// How many PINs this thread has hashed, for tests of what a refusal costs.
    pub(crate) static HASHES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pin_matches() {
        let hash = PinHash::new("geheim ü%+".as_bytes(), &[7; 16]).unwrap();
        assert!(hash.matches("geheim ü%+".as_bytes()));
        assert!(!hash.matches(b"") && !hash.matches("geheim ü%+ ".as_bytes()) && !hash.matches(b"x"));
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        let stored: PinHash = hash.as_str().parse().unwrap();
        assert!(stored.matches("geheim ü%+".as_bytes()));
    }

    #[test]
    fn salts_make_equal_pins_different() {
        assert!(PinHash::new(b"1234", &[1; 16]).unwrap() != PinHash::new(b"1234", &[2; 16]).unwrap());
    }

    #[test]
    fn no_pin_and_rubbish_are_refused() {
        assert_eq!(PinHash::new(b"", &[0; 16]).err(), Some(PinError::Length));
        assert_eq!(PinHash::new(&[b'x'; 257], &[0; 16]).err(), Some(PinError::Length));
        assert_eq!("plain".parse::<PinHash>().err(), Some(PinError::Malformed));
    }
}
