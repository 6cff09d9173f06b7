//! Speaking to privacyIDEA: requests and answers as types, one kept-alive HTTPS connection.
//!
//! `docs/privacyidea.md` says what is sent and what each answer means.

use std::collections::BTreeMap;
use std::fmt;

use privacyidea_contract::Secret;

mod agent;
mod answer;
mod challenge;
mod client;
mod computer;
mod failure;
mod offline;

pub use challenge::{Challenge, Challenged, Enrolment, Mode, Poll, TransactionId};
pub use client::Client;
pub use computer::computer_name;
pub use offline::{OfflineBatch, Refill, RefillToken, Refilled};

/// Who is checked, and from where.
pub struct Check<'a> {
    /// The login name, as PAM has it.
    pub user: &'a str,
    /// Where the user is looked for; none: the settings' realm, else the server's default.
    pub realm: Option<&'a str>,
    /// What was typed, unchanged.
    pub password: &'a Secret,
    /// Which step of the login this is.
    pub step: Step<'a>,
    /// PAM_RHOST; sent as the client only if it is an IP address.
    pub rhost: &'a str,
}

/// A login is one check or several.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    /// A password on its own.
    First,
    /// An answer to a challenge; an empty one finishes what was answered on another device.
    In(&'a TransactionId),
    /// The person does not want to enrol a token now ([`Enrolment::Optional`]).
    DeclineEnrolment(&'a TransactionId),
}

/// What the server answered. An answer, whatever it says, is never an outage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `status` and `value` are true.
    Accepted(Accepted),
    /// The server says no; `reason` is its own text, for the log only, stripped of control characters.
    Rejected {
        /// For the log; may be empty.
        reason: String,
    },
    /// The server wants a further step.
    Challenged(Challenged),
    /// The server does not know the user in this realm (904).
    UnknownUser,
}

/// What comes with a yes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The token, where the server says it: not for `passthru` and its like, nor under `no_detail_on_success`.
    pub serial: Option<String>,
    /// The user's attributes by their names on the server (policy `add_user_in_response`), with `realm` and `resolver`
    /// of the user; those that are empty are left out. Printable.
    pub attributes: BTreeMap<String, Vec<String>>,
    /// Values for logins without the server.
    pub offline: Vec<OfflineBatch>,
}

/// Why there was no answer to the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or none in time.
    Unreachable(String),
    /// Its certificate is not the expected one.
    Untrusted(String),
    /// It answered, but not as privacyIDEA does.
    Rubbish(String),
    /// privacyIDEA says that it cannot check now (5xx, 907, 101).
    Unable(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = match self {
            Self::Unreachable(why) => ("the privacyIDEA server cannot be reached", why),
            Self::Untrusted(why) => ("the privacyIDEA server's certificate is not trusted", why),
            Self::Rubbish(why) => ("the server does not answer as privacyIDEA does", why),
            Self::Unable(why) => ("privacyIDEA cannot check now", why),
        };
        write!(f, "{what}: {why}")
    }
}

impl std::error::Error for Failure {}

/// A privacyIDEA server, or a test's.
pub trait Server: Send + Sync {
    /// `POST /validate/check`.
    ///
    /// # Errors
    /// [`Failure`]: neither yes nor no.
    fn check(&self, check: &Check<'_>) -> Result<Answer, Failure>;

    /// `GET /validate/polltransaction`: whether a challenge has been answered on another device. It never is a login.
    ///
    /// # Errors
    /// [`Failure`]: it cannot be told.
    fn poll(&self, transaction: &TransactionId) -> Result<Poll, Failure>;

    /// `POST /validate/offlinerefill`.
    ///
    /// # Errors
    /// [`Failure`]: nothing has changed, or an answer was lost, and with it the next refill.
    fn refill(&self, refill: &Refill<'_>) -> Result<Refilled, Failure>;

    /// Whether the server answers at all, for `privacyidea-host status`.
    ///
    /// # Errors
    /// [`Failure`].
    fn reachable(&self) -> Result<(), Failure>;
}

/// Longest text of a server that goes into a log line, in characters.
const LOG_LENGTH_MAX: usize = 200;

/// A text of the server, fit for one log line.
fn for_the_log(text: &str) -> String {
    printable(text, LOG_LENGTH_MAX)
}

/// `text` without control characters (and without the ones that turn the direction of writing), cut to `length`
/// characters.
fn printable(text: &str, length: usize) -> String {
    let is_harmless =
        |c: &char| !c.is_control() && !matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.trim().chars().filter(is_harmless).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_server_are_harmless_in_a_log() {
        assert_eq!(for_the_log(" wrong\r\n\x1b[31motp\u{202e}\0 "), "wrong[31motp");
        assert_eq!(for_the_log(&"ü".repeat(1000)).chars().count(), LOG_LENGTH_MAX);
    }
}
