//! Challenges: what the server wants to see in a further step.

use std::fmt;

use serde_json::Value;

use super::answer::Detail;
use super::{for_the_log, printable};

/// More challenges of one answer than a person could tell apart are not shown.
const CHALLENGES_MAX: usize = 16;
/// Longer texts for the person are cut, in characters.
const MESSAGE_LENGTH_MAX: usize = 1000;
/// Longer links are left out: a QR code of that many bytes fits no terminal. In bytes.
const LINK_LENGTH_MAX: usize = 800;

/// Names a transaction: 20 digits today; nothing that could be more than an identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionId(String);

/// The server's answer "tell me more".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenged {
    /// One for all challenges of the answer.
    pub transaction: TransactionId,
    /// The server's text for the person, of all challenges together; may be empty.
    pub message: String,
    /// At least one.
    pub challenges: Vec<Challenge>,
    /// Whether it asks the person to enrol a token.
    pub enrolment: Enrolment,
}

/// What one token can do in this transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The token's type: `hotp`, `push`, `tiqr`, `indexedsecret`, ...
    pub kind: String,
    /// How it is answered.
    pub mode: Mode,
    /// The server's text for the person; may be empty.
    pub message: String,
    /// For the log.
    pub serial: Option<String>,
    /// What the phone will ask the person to press (policy `push_require_presence`).
    pub presence: Option<String>,
    /// What its QR code says: an otpauth or tiqr link.
    pub link: Option<String>,
}

/// How a challenge is answered (`client_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By typing.
    Interactive,
    /// On another device; the server is asked now and then.
    Poll,
    /// In a way that a terminal has not: webauthn, u2f.
    Other,
}

/// Whether a challenge enrols a token (policy `enroll_via_multichallenge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enrolment {
    /// It does not.
    No,
    /// It does, and there is no login without.
    Required,
    /// It does, and the person may decline.
    Optional,
}

/// How far a challenge is that is answered elsewhere (`challenge_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Not answered. Unknown and expired transactions say this too.
    Pending,
    /// Answered with yes: the login still has to be finished by a check in the transaction.
    Accepted,
    /// Answered with no.
    Declined,
    /// Withdrawn.
    Cancelled,
}

impl TransactionId {
    /// None: it is not one.
    #[must_use]
    pub fn new(id: &str) -> Option<Self> {
        let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        ((1..=64).contains(&id.len()) && id.bytes().all(is_harmless)).then(|| Self(id.to_owned()))
    }

    /// As it is sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Challenged {
    /// None: without a transaction it cannot be answered (policies that hide `detail` make it so).
    pub(super) fn read(detail: &Detail<'_>) -> Option<Self> {
        let transaction = TransactionId::new(detail.optional("transaction_id")?)?;
        let several =
            detail.field("multi_challenge").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut challenges: Vec<_> =
            several.iter().take(CHALLENGES_MAX).map(|one| Challenge::read(&Detail(Some(one)))).collect();
        if challenges.is_empty() {
            // As servers before 3.0 say it: `detail` itself is the challenge.
            challenges.push(Challenge::read(detail));
        }
        let is_set = |name| detail.field(name).and_then(Value::as_bool) == Some(true);
        let enrolment =
            match (is_set("enroll_via_multichallenge"), is_set("enroll_via_multichallenge_optional")) {
                (false, _) => Enrolment::No,
                (true, false) => Enrolment::Required,
                (true, true) => Enrolment::Optional,
            };
        Some(Self { transaction, message: person_text(detail.text("message")), challenges, enrolment })
    }

    /// Whether typing something can answer it.
    #[must_use]
    pub fn is_interactive(&self) -> bool {
        self.challenges.iter().any(|challenge| challenge.mode == Mode::Interactive)
    }

    /// Whether it can be answered on another device.
    #[must_use]
    pub fn is_polled(&self) -> bool {
        self.challenges.iter().any(|challenge| challenge.mode == Mode::Poll)
    }
}

impl Challenge {
    fn read(one: &Detail<'_>) -> Self {
        let attribute = |name| one.field("attributes").and_then(|attributes| attributes.get(name)?.as_str());
        let link = one.optional("link").or_else(|| attribute("value"));
        Self {
            kind: for_the_log(one.text("type")),
            mode: match one.optional("client_mode") {
                // Servers before 3.6 do not say it.
                None | Some("interactive") => Mode::Interactive,
                Some("poll") => Mode::Poll,
                Some(_) => Mode::Other,
            },
            message: person_text(one.text("message")),
            serial: one.optional("serial").map(for_the_log),
            presence: one.optional("presence_answer").map(|text| printable(text, 16)),
            link: link.filter(|link| is_link(link)).map(str::to_owned),
        }
    }
}

fn person_text(text: &str) -> String {
    printable(text, MESSAGE_LENGTH_MAX)
}

/// Only what a terminal shows as it is.
fn is_link(link: &str) -> bool {
    (1..=LINK_LENGTH_MAX).contains(&link.len())
        && link.contains("://")
        && link.bytes().all(|byte| byte.is_ascii_graphic())
}
