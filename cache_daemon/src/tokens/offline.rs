//! Offline values: hashes of what will be typed at the next logins, handed out by a privacyIDEA server
//! (`lib/applications/offline.py`).
//!
//! The server hashes PIN and code together, in the order in which they are typed, so nothing is split here.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use data_encoding::BASE64_NOPAD;
use sha2::Sha512;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::failures::Failures;
use crate::service::clock::UnixSeconds;

/// More rounds are refused when a value is stored. The server's default is 6549.
const ROUNDS_MAX: u32 = 100_000;
/// All hashes of one answer together have no more rounds: about half a second of one processor.
const ROUNDS_PER_ANSWER_MAX: u32 = 500_000;
/// Of SHA-512.
const CHECKSUM_LENGTH: usize = 64;
/// Longest salt, in bytes; the server's have 10.
const SALT_LENGTH_MAX: usize = 64;
/// Longer answers are none: the server hashes nothing longer (passlib's limit).
const ANSWER_LENGTH_MAX: usize = 4096;
/// The fewest digits of a code.
const DIGITS_MIN: usize = 6;

/// A hash as the server writes it: `$pbkdf2-sha512$ROUNDS$SALT$CHECKSUM`, in passlib's base 64 (`.` for `+`, no
/// padding). Never printed: six digits are soon guessed from it.
#[derive(Clone, PartialEq, Eq)]
pub struct OfflineHash(Zeroizing<String>);

/// Why a text is not taken as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineHashError {
    /// It has another form.
    Malformed,
    /// No rounds, or so many that checking would cost seconds.
    Rounds,
}

impl fmt::Display for OfflineHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("an offline value is no pbkdf2-sha512 hash"),
            Self::Rounds => write!(f, "an offline value has not 1 to {ROUNDS_MAX} rounds"),
        }
    }
}

impl std::error::Error for OfflineHashError {}

/// One login's worth.
#[derive(Clone, PartialEq, Eq)]
pub struct OfflineValue {
    /// Of the HOTP token.
    pub counter: u64,
    /// Of what is typed for it.
    pub hash: OfflineHash,
}

/// A token of the server's, as far as it can be checked without it.
#[derive(Clone)]
pub struct OfflineToken {
    /// The server's serial; unique among offline tokens.
    pub serial: String,
    /// Its user on this host.
    pub user: String,
    /// The realm in which the server was asked; empty: its default. The same name may be another person in another one.
    pub realm: String,
    /// Whether the values are of the code without its PIN (the batch came with the answer to a challenge): then they are
    /// half of a credential.
    pub code_alone: bool,
    /// The lowest counter that is still good.
    pub next: u64,
    /// When the server last vouched for it.
    pub fetched: UnixSeconds,
    /// Wrong answers here; the server has a count of its own.
    pub failures: Failures,
    /// When it last let somebody in here.
    pub last_used: Option<UnixSeconds>,
    /// Values left.
    pub left: u32,
    /// The lowest of them, as many as were asked for, in the order of their counters.
    pub values: Vec<OfflineValue>,
}

/// Bounds the work that one answer costs, over all tokens of a user.
pub struct Budget(u32);

impl OfflineHash {
    /// Whether this is the hash of `answer`. The comparison takes the same time for every answer.
    #[must_use]
    pub fn matches(&self, answer: &[u8]) -> bool {
        let Ok(parts) = Parts::of(&self.0) else { return false };
        let mut key = Zeroizing::new([0; CHECKSUM_LENGTH]);
        pbkdf2::pbkdf2_hmac::<Sha512>(answer, &parts.salt, parts.rounds, key.as_mut_slice());
        key.as_slice().ct_eq(&parts.checksum).into()
    }

    /// For the database.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn rounds(&self) -> u32 {
        Parts::of(&self.0).map_or(0, |parts| parts.rounds)
    }
}

impl FromStr for OfflineHash {
    type Err = OfflineHashError;

    fn from_str(text: &str) -> Result<Self, OfflineHashError> {
        Parts::of(text)?;
        Ok(Self(Zeroizing::new(text.to_owned())))
    }
}

impl fmt::Debug for OfflineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfflineHash")
    }
}

impl fmt::Debug for OfflineValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OfflineValue({})", self.counter)
    }
}

impl OfflineToken {
    /// The value that `answer`, unchanged as it was typed, is right for: among [`Self::values`], the lowest first. None
    /// also when `budget` is used up.
    #[must_use]
    pub fn find(&self, answer: &[u8], budget: &mut Budget) -> Option<&OfflineValue> {
        if answer.is_empty() || answer.len() > ANSWER_LENGTH_MAX {
            return None;
        }
        self.values
            .iter()
            .filter(|value| value.counter >= self.next)
            .find(|value| budget.spend(value.hash.rounds()) && value.hash.matches(answer))
    }

    /// Whether the server has not vouched for it for longer than `maximum_age`.
    #[must_use]
    pub fn is_too_old(&self, maximum_age: Duration, now: UnixSeconds) -> bool {
        now.saturating_sub(self.fetched) > maximum_age.as_secs()
    }

    /// Whether `typed` has the form of a code, with or without a PIN on either side of it.
    #[must_use]
    pub fn could_be_meant_by(typed: &[u8]) -> bool {
        let are_digits = |bytes: Option<&[u8]>| bytes.is_some_and(|b| b.iter().all(u8::is_ascii_digit));
        let end = typed.len().checked_sub(DIGITS_MIN).and_then(|start| typed.get(start..));
        are_digits(end) || are_digits(typed.get(..DIGITS_MIN))
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(ROUNDS_PER_ANSWER_MAX)
    }
}

impl Budget {
    fn spend(&mut self, rounds: u32) -> bool {
        match self.0.checked_sub(rounds) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

struct Parts {
    rounds: u32,
    salt: Vec<u8>,
    checksum: Vec<u8>,
}

impl Parts {
    fn of(text: &str) -> Result<Self, OfflineHashError> {
        let malformed = OfflineHashError::Malformed;
        let mut fields = text.strip_prefix("$pbkdf2-sha512$").ok_or(malformed)?.split('$');
        let (Some(rounds), Some(salt), Some(checksum), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(malformed);
        };
        if rounds.is_empty() || !rounds.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed);
        }
        let rounds = rounds.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
        let rounds = rounds.ok_or(OfflineHashError::Rounds)?;
        let (salt, checksum) = (decoded(salt)?, decoded(checksum)?);
        if salt.is_empty() || salt.len() > SALT_LENGTH_MAX || checksum.len() != CHECKSUM_LENGTH {
            return Err(malformed);
        }
        Ok(Self { rounds, salt, checksum })
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, OfflineHashError> {
    if text.contains('+') {
        return Err(OfflineHashError::Malformed);
    }
    BASE64_NOPAD.decode(text.replace('.', "+").as_bytes()).map_err(|_| OfflineHashError::Malformed)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Made by privacyIDEA 3.14 for `dorapin232394`.
    const VECTOR: &str = "$pbkdf2-sha512$1000$jxEiBGDsfQ9BaA$Uex6CT87/Ls/eved09gDIkYUCV181JEXmIERdFTPwJUtrWmpDKfYpAQZ4/\
                          wcHSwLwZUZuCUrSIG1M7Q4eVSLpA";

    /// As the server would make it, with few rounds.
    pub(crate) fn hash(answer: &[u8], rounds: u32) -> OfflineHash {
        let mut checksum = [0; CHECKSUM_LENGTH];
        pbkdf2::pbkdf2_hmac::<Sha512>(answer, b"0123456789", rounds, &mut checksum);
        let coded = |bytes: &[u8]| BASE64_NOPAD.encode(bytes).replace('+', ".");
        format!("$pbkdf2-sha512${rounds}${}${}", coded(b"0123456789"), coded(&checksum)).parse().unwrap()
    }

    fn token(next: u64, values: impl IntoIterator<Item = (u64, OfflineHash)>) -> OfflineToken {
        let values: Vec<_> =
            values.into_iter().map(|(counter, hash)| OfflineValue { counter, hash }).collect();
        OfflineToken {
            serial: "PI1".into(),
            user: "carla".into(),
            realm: String::new(),
            code_alone: false,
            next,
            fetched: 1000,
            failures: Failures::default(),
            last_used: None,
            left: u32::try_from(values.len()).unwrap(),
            values,
        }
    }

    #[test]
    fn a_value_of_a_real_server_fits_its_password_and_no_other() {
        let hash: OfflineHash = VECTOR.parse().unwrap();
        assert!(hash.matches(b"dorapin232394"));
        for wrong in ["dorapin232395", "dorapin232394 ", "Dorapin232394", "232394", ""] {
            assert!(!hash.matches(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn other_forms_and_absurd_work_are_refused() {
        let of = |rounds: &str| VECTOR.replace("$1000$", &format!("${rounds}$")).parse::<OfflineHash>();
        for rounds in ["0", "100001", "4294967297", "99999999999999999999"] {
            assert_eq!(of(rounds), Err(OfflineHashError::Rounds), "{rounds}");
        }
        assert!(of("100000").is_ok());
        let cut = &VECTOR[..VECTOR.len() - 2];
        let longer = format!("{VECTOR}AAAA");
        let salt = VECTOR.replace("jxEiBGDsfQ9BaA", &"A".repeat(88));
        let further = format!("{VECTOR}$");
        let plus = VECTOR.replace("Uex6", "U+x6");
        let unsalted = VECTOR.replace("jxEiBGDsfQ9BaA", "");
        for text in
            ["", "$pbkdf2-sha512$", "$pbkdf2-sha256$1$AA$AA", cut, &longer, &salt, &further, &plus, &unsalted]
        {
            assert_eq!(text.parse::<OfflineHash>(), Err(OfflineHashError::Malformed), "{text}");
        }
        for rounds in ["", "+1", "-1", "1e3", " 1"] {
            assert_eq!(of(rounds), Err(OfflineHashError::Malformed), "{rounds}");
        }
    }

    #[test]
    fn the_lowest_value_that_fits_is_found_and_none_below_the_next_one() {
        let token =
            token(5, [(4, hash(b"four", 1)), (5, hash(b"x", 1)), (6, hash(b"x", 2)), (7, hash(b"y", 1))]);
        let counter = |answer: &[u8]| token.find(answer, &mut Budget::default()).map(|value| value.counter);
        assert_eq!(counter(b"x"), Some(5));
        assert_eq!(counter(b"y"), Some(7));
        assert_eq!(counter(b"four"), None);
        assert_eq!(counter(b""), None);
    }

    #[test]
    fn what_one_answer_may_cost_is_bounded() {
        let long = vec![b'a'; ANSWER_LENGTH_MAX + 1];
        let token = token(0, [(0, hash(&long, 1)), (1, hash(&long[1..], 1)), (2, hash(b"last", 1))]);
        assert!(token.find(&long, &mut Budget::default()).is_none());
        assert_eq!(token.find(&long[1..], &mut Budget::default()).map(|value| value.counter), Some(1));
        let mut budget = Budget(2);
        assert!(token.find(b"last", &mut budget).is_none());
        assert_eq!(budget.0, 0);
    }

    #[test]
    fn the_age_counts_from_when_the_server_vouched() {
        let (token, day) = (token(0, []), Duration::from_secs(86_400));
        assert!(!token.is_too_old(day, 1000 + 86_400) && token.is_too_old(day, 1000 + 86_401));
        assert!(!token.is_too_old(day, 5), "the clock was set back");
    }

    #[test]
    fn a_system_password_is_no_code() {
        for code in ["123456", "pin123456", "123456pin", "12345678"] {
            assert!(OfflineToken::could_be_meant_by(code.as_bytes()), "{code}");
        }
        for other in ["", "12345", "correct horse", "pass12345", "12345x6"] {
            assert!(!OfflineToken::could_be_meant_by(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn nothing_of_a_hash_is_printed() {
        let value = OfflineValue { counter: 7, hash: VECTOR.parse().unwrap() };
        assert_eq!(format!("{value:?} {:?}", value.hash), "OfflineValue(7) OfflineHash");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(\\$|pbkdf2-sha512|[0-9]{1,12}|[A-Za-z./+]{0,90}|\\PC){0,8}") {
            if let Ok(hash) = text.parse::<OfflineHash>() {
                prop_assert!(hash.rounds() >= 1 && hash.rounds() <= ROUNDS_MAX);
            }
        }

        #[test]
        fn a_hash_fits_its_own_answer_only(answer in prop::collection::vec(any::<u8>(), 0..200), other: Vec<u8>) {
            let hash = hash(&answer, 3);
            prop_assert!(hash.matches(&answer));
            // A key shorter than a block is padded with zeros (RFC 2104): such answers are one to every HMAC.
            let trimmed = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |end| end + 1);
            prop_assert_eq!(hash.matches(&other), answer[..trimmed(&answer)] == other[..trimmed(&other)]);
        }
    }
}
