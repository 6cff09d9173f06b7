//! Speaking to privacyIDEA: requests and answers as types, one kept-alive HTTPS connection.

use privacyidea_contract::Secret;

/// Who is checked, and from where.
pub struct Check<'a> {
    /// The login name, as PAM has it.
    pub user: &'a str,
    /// What was typed, unchanged.
    pub password: &'a Secret,
    /// PAM_RHOST; sent as the client only if it is an IP address.
    pub rhost: &'a str,
}

/// What the server answered. An answer, whatever it says, is never an outage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `status` and `value` are true.
    Accepted {
        /// The token, where the server says it.
        serial: Option<String>,
    },
    /// The server says no; `reason` is its own text, for the log only, stripped of control characters.
    Rejected {
        /// For the log; may be empty.
        reason: String,
    },
    /// The server wants a second step.
    Challenge {
        /// The transaction to answer in.
        transaction_id: String,
        /// The server's text for the person.
        message: String,
    },
    /// The server does not know the user in this realm (904).
    UnknownUser,
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

/// A privacyIDEA server, or a test's.
pub trait Server: Send + Sync {
    /// `POST /validate/check`.
    ///
    /// # Errors
    /// [`Failure`]: neither yes nor no.
    fn check(&self, check: &Check<'_>) -> Result<Answer, Failure>;

    /// Whether the server answers at all, for `privacyidea-host status`.
    ///
    /// # Errors
    /// [`Failure`].
    fn reachable(&self) -> Result<(), Failure>;
}
