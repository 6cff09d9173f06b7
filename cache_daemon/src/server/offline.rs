//! Offline values: what the server hands out for logins without it (`lib/applications/offline.py`).

use std::collections::BTreeMap;
use std::fmt;

use privacyidea_contract::Secret;
use serde_json::Value;
use zeroize::Zeroizing;

use super::for_the_log;

/// More values of one batch are not read; the server's default is 100.
const VALUES_MAX: usize = 1000;
/// Longest hash, in bytes; today's are 130 long.
const HASH_LENGTH_MAX: usize = 256;
/// Longest refill token, in bytes; today's are 80 long.
const REFILL_TOKEN_LENGTH_MAX: usize = 256;

/// What new values are asked for with. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RefillToken(Zeroizing<String>);

/// Values of one HOTP token, and what its next ones are asked for with.
#[derive(Clone, PartialEq, Eq)]
pub struct OfflineBatch {
    /// The token.
    pub serial: String,
    /// The server's name of its user; none in the answer to a refill.
    pub user: Option<String>,
    /// Good for one refill.
    pub refill_token: RefillToken,
    /// By counter: `$pbkdf2-sha512$ROUNDS$SALT$CHECKSUM` of what the person types, not looked at here.
    pub values: BTreeMap<u64, String>,
}

/// Asks for new values (`POST /validate/offlinerefill`).
pub struct Refill<'a> {
    /// The token.
    pub serial: &'a str,
    /// Of its newest batch.
    pub refill_token: &'a RefillToken,
    /// What was typed at the last offline login, unchanged: the server hashes its PIN into the new values unseen.
    pub password: &'a Secret,
}

/// What became of a refill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refilled {
    /// The old refill token is dead.
    Batch(OfflineBatch),
    /// The token may not be used offline any more; `reason` is the server's text, for the log.
    Dropped {
        /// Stripped of control characters.
        reason: String,
    },
}

impl RefillToken {
    /// As the server gave it.
    #[must_use]
    pub fn new(token: String) -> Self {
        Self(Zeroizing::new(token))
    }

    /// For the server and the database.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RefillToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RefillToken")
    }
}

impl OfflineBatch {
    /// The batches in `auth_items`; entries of another shape (passkeys have no numbered values) are left out.
    pub(super) fn read(auth_items: Option<&Value>) -> Vec<Self> {
        let offline = auth_items.and_then(|items| items.get("offline")).and_then(Value::as_array);
        offline.into_iter().flatten().take(8).filter_map(Self::read_one).collect()
    }

    fn read_one(item: &Value) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let refill_token = text("refilltoken").filter(|token| token.len() <= REFILL_TOKEN_LENGTH_MAX)?;
        let values: BTreeMap<u64, String> = item
            .get("response")?
            .as_object()?
            .iter()
            .take(VALUES_MAX)
            .filter_map(|(counter, hash)| Some((counter.parse().ok()?, hash.as_str()?)))
            .filter(|(_, hash)| hash.len() <= HASH_LENGTH_MAX)
            .map(|(counter, hash)| (counter, hash.to_owned()))
            .collect();
        (!values.is_empty()).then(|| Self {
            serial: text("serial").map(for_the_log).unwrap_or_default(),
            user: text("username").or_else(|| text("user")).map(for_the_log),
            refill_token: RefillToken::new(refill_token.to_owned()),
            values,
        })
    }
}

/// Neither hashes, from which six digits are soon guessed, nor the refill token.
impl fmt::Debug for OfflineBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = self.values.keys().next().zip(self.values.keys().next_back());
        f.debug_struct("OfflineBatch")
            .field("serial", &self.serial)
            .field("counters", &counters)
            .finish_non_exhaustive()
    }
}
