//! A byte string that is wiped when dropped and that nothing can print.

use zeroize::Zeroizing;

/// A password, PIN or one-time password as typed.
///
/// It has neither `Debug` nor `Display` nor `PartialEq`: it cannot reach a log, and comparing secrets is the business
/// of the code that does it in constant time.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over; the vector must not have been reallocated while it held a secret.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for as short as possible.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether nothing was typed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes().to_vec())
    }
}
