//! One-time password values: RFC 4226 (HOTP), RFC 6238 (TOTP).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use privacyidea_contract::Secret;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;

pub use crate::administration::Algorithm;

/// The shortest seed that is taken, in bytes (RFC 4226 R6 demands 128 bits).
pub const SEED_LENGTH_MIN: usize = 16;
/// The longest; an HMAC hashes longer keys first, so they are not stronger.
pub const SEED_LENGTH_MAX: usize = 128;

/// What is wrong with the parameters of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtpError {
    /// Fewer than 6 or more than 8 digits.
    Digits(u32),
    /// Shorter or longer than a seed may be.
    SeedLength(usize),
}

impl fmt::Display for OtpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digits(digits) => write!(f, "a code has 6 to 8 digits, not {digits}"),
            Self::SeedLength(length) => {
                write!(f, "a seed has {SEED_LENGTH_MIN} to {SEED_LENGTH_MAX} bytes, not {length}")
            }
        }
    }
}

impl std::error::Error for OtpError {}

/// What makes one-time passwords out of counters.
#[derive(Clone)]
pub struct Otp {
    seed: Secret,
    algorithm: Algorithm,
    digits: u32,
}

impl Otp {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`OtpError`]
    pub fn new(seed: Secret, algorithm: Algorithm, digits: u32) -> Result<Self, OtpError> {
        let length = seed.expose().len();
        if !(6..=8).contains(&digits) {
            return Err(OtpError::Digits(digits));
        }
        if !(SEED_LENGTH_MIN..=SEED_LENGTH_MAX).contains(&length) {
            return Err(OtpError::SeedLength(length));
        }
        Ok(Self { seed, algorithm, digits })
    }

    /// The shared secret.
    #[must_use]
    pub fn seed(&self) -> &Secret {
        &self.seed
    }

    /// The HMAC's hash.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The length of a value, 6 to 8.
    #[must_use]
    pub fn digits(&self) -> u32 {
        self.digits
    }

    /// Whether `code` is the value of `counter`; the time it takes does not depend on how many digits are right.
    #[must_use]
    pub fn is_value(&self, code: &[u8], counter: u64) -> bool {
        hotp(self.seed.expose(), counter, self.algorithm, self.digits).as_bytes().ct_eq(code).into()
    }

    /// The first counter of `counters` whose value is `code`.
    #[must_use]
    pub fn find(&self, code: &[u8], mut counters: impl Iterator<Item = u64>) -> Option<u64> {
        if !self.has_the_form(code) {
            return None;
        }
        counters.find(|counter| self.is_value(code, *counter))
    }

    /// Whether `code` could be a value at all.
    #[must_use]
    pub fn has_the_form(&self, code: &[u8]) -> bool {
        code.len() == self.digits as usize && code.iter().all(u8::is_ascii_digit)
    }
}

/// HOTP value of `counter` (RFC 4226 §5.3, with the other hashes as in RFC 6238 §1.2), `digits` characters long.
#[must_use]
pub fn hotp(seed: &[u8], counter: u64, algorithm: Algorithm, digits: u32) -> String {
    let counter = counter.to_be_bytes();
    let code = match algorithm {
        Algorithm::Sha1 => truncate(&mac::<Hmac<Sha1>>(seed, &counter)),
        Algorithm::Sha256 => truncate(&mac::<Hmac<Sha256>>(seed, &counter)),
        Algorithm::Sha512 => truncate(&mac::<Hmac<Sha512>>(seed, &counter)),
    };
    format!("{:0width$}", code % 10_u32.pow(digits), width = digits as usize)
}

fn mac<M: Mac + KeyInit>(seed: &[u8], message: &[u8]) -> hmac::digest::Output<M> {
    let mut mac = <M as KeyInit>::new_from_slice(seed).expect("an HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes()
}

/// Dynamic truncation (RFC 4226 §5.3): 31 bits at the offset that the last four bits name.
fn truncate(hash: &[u8]) -> u32 {
    let offset = usize::from(hash[hash.len() - 1] & 0xf);
    let bytes =
        hash[offset..offset + 4].try_into().expect("the offset is at most 15, the hash at least 20 bytes");
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4226, appendix D.
    #[test]
    fn hotp_vectors_of_rfc_4226() {
        let values = [
            "755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871",
            "520489",
        ];
        for (counter, value) in (0..).zip(values) {
            assert_eq!(hotp(b"12345678901234567890", counter, Algorithm::Sha1, 6), value);
        }
    }

    /// RFC 6238, appendix B (with the seeds of its erratum 2866: as long as the hash's output).
    #[test]
    fn totp_vectors_of_rfc_6238() {
        let seed = "1234567890".repeat(7);
        let table = [
            (59, "94287082", "46119246", "90693936"),
            (1_111_111_109, "07081804", "68084774", "25091201"),
            (1_111_111_111, "14050471", "67062674", "99943326"),
            (1_234_567_890, "89005924", "91819424", "93441116"),
            (2_000_000_000, "69279037", "90698825", "38618901"),
            (20_000_000_000, "65353130", "77737706", "47863826"),
        ];
        for (time, sha1, sha256, sha512) in table {
            let value = |algorithm, length: usize| hotp(&seed.as_bytes()[..length], time / 30, algorithm, 8);
            assert_eq!(value(Algorithm::Sha1, 20), sha1);
            assert_eq!(value(Algorithm::Sha256, 32), sha256);
            assert_eq!(value(Algorithm::Sha512, 64), sha512);
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let seed = || Secret::new(vec![7; 20]);
        assert_eq!(Otp::new(seed(), Algorithm::Sha1, 5).err(), Some(OtpError::Digits(5)));
        assert_eq!(Otp::new(seed(), Algorithm::Sha1, 9).err(), Some(OtpError::Digits(9)));
        assert_eq!(
            Otp::new(Secret::new(vec![7; 15]), Algorithm::Sha1, 6).err(),
            Some(OtpError::SeedLength(15))
        );
        assert!(Otp::new(seed(), Algorithm::Sha512, 8).is_ok());
    }

    #[test]
    fn only_the_exact_digits_are_a_value() {
        let otp = Otp::new(Secret::from("12345678901234567890"), Algorithm::Sha1, 6).unwrap();
        assert_eq!(otp.find(b"755224", 0..10), Some(0));
        for code in [&b""[..], b"75522", b"7552244", b"755225", b" 755224", "７５５２２４".as_bytes()] {
            assert_eq!(otp.find(code, 0..10), None);
        }
    }
}
