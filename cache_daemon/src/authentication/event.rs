//! What is written down about a login: for authpriv, and for the audit table.

use std::fmt;

use privacyidea_contract::wire::Verdict;

use crate::service::clock::UnixSeconds;

/// One decision, written for its reader: who, from where, which token, verdict. Never a secret, and never the name of
/// an unknown user (people type passwords there).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Stable number, `PIH-AUTH-012`; each is in the administrator's guide.
    pub number: u16,
    /// When.
    pub time: UnixSeconds,
    /// The user; none if unknown.
    pub user: Option<String>,
    /// PAM service.
    pub service: String,
    /// PAM_RHOST, may be empty.
    pub rhost: String,
    /// PAM_TTY, may be empty.
    pub tty: String,
    /// `granted, token TOTP0001`.
    pub text: String,
    /// How it ended; none: something to know beside a login.
    pub verdict: Option<Verdict>,
    /// What has decided about the answer; none: nothing looked at it.
    pub method: Option<Method>,
    /// The serial of the token that let somebody in, where it is known.
    pub token: Option<String>,
}

/// Who decided about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The tokens of this host.
    LocalToken,
    /// What a server handed out for logins without it.
    OfflineValue,
    /// The server.
    Server,
}

impl Method {
    /// As it stands in the audit table.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::LocalToken => "local-token",
            Self::OfflineValue => "offline-value",
            Self::Server => "server",
        }
    }
}

impl Event {
    /// Whether access was given.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Granted { .. }))
    }

    /// The verdict as it stands in the audit table.
    #[must_use]
    pub fn verdict_word(&self) -> Option<&'static str> {
        Some(match self.verdict.as_ref()? {
            Verdict::Granted { .. } => "granted",
            Verdict::Refused => "refused",
            Verdict::UnknownUser => "unknown-user",
            Verdict::Locked => "locked",
            Verdict::Unavailable => "unavailable",
            Verdict::Untrusted => "untrusted",
            Verdict::Failed => "failed",
            Verdict::OutOfScope => "out-of-scope",
            Verdict::NoAnswer => "no-answer",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().unwrap_or("(unknown user)");
        write!(f, "PIH-AUTH-{:03} {user}: {} service={}", self.number, self.text, self.service)?;
        for (name, value) in [("rhost", &self.rhost), ("tty", &self.tty)] {
            if !value.is_empty() {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

/// Where events go.
pub trait Journal: Send + Sync {
    /// Writes the event down; must not fail the login.
    fn record(&self, event: &Event);
}
