//! Recovery codes: 80 random bits each, written `k7wq-3mzd-x9fh-2btc`, stored as SHA-256.
//!
//! A plain hash is enough: nobody searches 2^80 codes, unlike PINs.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Crockford's base 32: no `i`, `l`, `o`, `u`; the first three are read as the digits they look like.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Letters of a code, hyphens not counted.
const LETTERS: usize = 16;
const GROUP: usize = 4;

/// SHA-256 of a code's letters.
pub type CodeHash = [u8; 32];

/// A code, normalised: lower case, no hyphens.
pub struct RecoveryCode(Zeroizing<[u8; LETTERS]>);

impl RecoveryCode {
    /// Makes a code of 10 random bytes.
    #[must_use]
    pub fn from_random(bytes: &[u8; 10]) -> Self {
        let mut letters = Zeroizing::new([0; LETTERS]);
        let bits = bytes.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        for (position, letter) in letters.iter_mut().enumerate() {
            *letter = ALPHABET[(bits >> (5 * position) & 31) as usize];
        }
        Self(letters)
    }

    /// Reads what was typed; case, hyphens and spaces do not matter.
    #[must_use]
    pub fn parse(typed: &[u8]) -> Option<Self> {
        let mut letters = Zeroizing::new([0; LETTERS]);
        let mut length = 0;
        for byte in typed.iter().filter(|byte| !matches!(byte, b'-' | b' ')) {
            let letter = match byte.to_ascii_lowercase() {
                b'o' => b'0',
                b'i' | b'l' => b'1',
                letter => letter,
            };
            if length == LETTERS || !ALPHABET.contains(&letter) {
                return None;
            }
            letters[length] = letter;
            length += 1;
        }
        (length == LETTERS).then_some(Self(letters))
    }

    /// For a person, in groups of four.
    #[must_use]
    pub fn to_text(&self) -> String {
        let groups: Vec<_> =
            self.0.chunks(GROUP).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
        groups.join("-")
    }

    /// For the database.
    #[must_use]
    pub fn hash(&self) -> CodeHash {
        Sha256::digest(self.0.as_slice()).into()
    }

    /// Whether this is the code of `hash`.
    #[must_use]
    pub fn has_hash(&self, hash: &CodeHash) -> bool {
        self.hash().ct_eq(hash).into()
    }

    /// The two ways in which a code's end can be cut off what was typed: with its hyphens, without.
    pub(super) const TYPED_LENGTHS: [usize; 2] = [LETTERS + LETTERS / GROUP - 1, LETTERS];
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn look_alikes_case_and_hyphens_do_not_matter() {
        let code = RecoveryCode::parse(b"0123-4567-89ab-cdef").unwrap();
        assert_eq!(code.to_text(), "0123-4567-89ab-cdef");
        for typed in ["0123456789abcdef", "O1I3 4567 89AB CDEF", "oL23456789ABCDEF"] {
            let same = RecoveryCode::parse(typed.as_bytes()).unwrap();
            assert_eq!(same.has_hash(&code.hash()), typed != "O1I3 4567 89AB CDEF", "{typed}");
        }
        for typed in ["", "0123-4567-89ab-cde", "0123-4567-89ab-cdef0", "0123-4567-89ab-cdeu"] {
            assert!(RecoveryCode::parse(typed.as_bytes()).is_none(), "{typed}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_is_checked(bytes: [u8; 10], other: [u8; 10]) {
            let code = RecoveryCode::from_random(&bytes);
            let typed = RecoveryCode::parse(code.to_text().as_bytes()).unwrap();
            prop_assert!(typed.has_hash(&code.hash()));
            prop_assert_eq!(typed.has_hash(&RecoveryCode::from_random(&other).hash()), bytes == other);
        }
    }
}
