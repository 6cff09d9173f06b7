//! What a login needs next and when it is granted.
//!
//! [`run`] reads as the policy. It knows no socket, no thread and no SQL.

use privacyidea_contract::Secret;
use privacyidea_contract::wire::{Login, Verdict};

use crate::directory::Accounts;
use crate::server::Server;
use crate::service::clock::Clock;
use crate::settings::Settings;
use crate::store::State;

mod event;

pub use event::{Event, Journal};

/// The person, as far as a login can reach them.
pub trait Conversation {
    /// Shows `text`, reads an answer.
    ///
    /// # Errors
    /// The person went away, cannot be asked, or took too long.
    fn ask(&mut self, text: &str, echo: bool) -> Result<Secret, ConversationEnded>;

    /// Shows `text`.
    ///
    /// # Errors
    /// The person went away.
    fn tell(&mut self, text: &str, error: bool) -> Result<(), ConversationEnded>;
}

/// There is nobody to talk to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationEnded;

/// Everything that a decision may look at.
pub struct Host<'a> {
    /// The administrator's settings.
    pub settings: &'a Settings,
    /// Tokens, failcounts, throttle.
    pub state: &'a State,
    /// Whose account a name is.
    pub accounts: &'a dyn Accounts,
    /// The server, if one is configured.
    pub server: Option<&'a dyn Server>,
    /// The time of day.
    pub clock: &'a dyn Clock,
    /// Where decisions are written down.
    pub journal: &'a dyn Journal,
}

/// Authenticates.
pub fn run(_login: &Login, _host: &Host<'_>, _conversation: &mut dyn Conversation) -> Verdict {
    Verdict::Failed
}

/// PAM's account phase.
pub fn account(_login: &Login, _host: &Host<'_>) -> Verdict {
    Verdict::Failed
}
