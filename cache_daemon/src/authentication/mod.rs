//! What a login needs next and when it is granted.
//!
//! [`run`] reads as the policy. It knows no socket, no thread and no SQL.

use std::time::Duration;

use privacyidea_contract::Secret;
use privacyidea_contract::wire::{FirstStep, Login, Verdict};

use crate::directory::Accounts;
use crate::server::Server;
use crate::service::clock::{Clock, UnixSeconds};
use crate::settings::{self, Settings};
use crate::store::{State, StoreError};
use crate::tokens::Token;

mod decision;
mod event;
mod identity;
mod local;
mod number;
mod offline;
mod remote;
mod steps;
mod subject;
mod throttle;

use decision::Decision;
pub use event::{Event, Journal, Method};
pub use identity::{ignore_line, refuse_line};
use local::{Local, Refusal};
use offline::Offline;
pub use offline::Refills;
use steps::Talk;
use subject::{Scope, Subject};

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

    /// Lets time pass while the person does something elsewhere.
    ///
    /// # Errors
    /// The person went away.
    fn pause(&mut self, time: Duration) -> Result<(), ConversationEnded>;

    /// Hands `value` on to the session as the variable `name`; the login is granted.
    ///
    /// # Errors
    /// The person went away.
    fn export(&mut self, name: &str, value: &str) -> Result<(), ConversationEnded>;
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
    /// The server, if one is configured or the PAM line names one.
    pub server: Option<&'a dyn Server>,
    /// What `server` is, where the PAM line names it: the settings' server is not asked then.
    pub line_server: Option<&'a settings::Server>,
    /// The time of day.
    pub clock: &'a dyn Clock,
    /// Who gets new offline values; none: nobody (`--once` has no time after a login).
    pub refills: Option<&'a dyn Refills>,
    /// Where decisions are written down.
    pub journal: &'a dyn Journal,
    /// Whether the login's tty and rhost come from root; only then can it be the local console.
    pub trusted_terminal: bool,
}

impl Host<'_> {
    /// What is known of [`server`](Self::server).
    fn server_settings(&self) -> Option<&settings::Server> {
        self.line_server.or(self.settings.server.as_ref())
    }
}

/// Authenticates: a code from the person, checked against the local tokens, then against offline values, then by the
/// server.
pub fn run(login: &Login, host: &Host<'_>, conversation: &mut dyn Conversation) -> Verdict {
    let subject = Subject::of(login, host);
    identity::announce(&subject, login, host);
    let decision = match &login.password {
        Some(password) => {
            let talk = talk(login, host, conversation);
            let first = decide(&subject, host, password, Origin::EarlierModule, talk);
            if first.is_granted() || first.is_about_steps() || !login.may_ask {
                first
            } else {
                // Whatever was wrong with it: if only some were asked again, that would tell who they are.
                let origin = if first.is_throttled() { Origin::Prompt } else { Origin::SecondPrompt };
                first.record(login, host);
                ask_and_decide(login, &subject, host, conversation, origin)
            }
        }
        None if login.may_ask => match begin_without_a_password(login, &subject, host, conversation) {
            Some(decision) => decision,
            None => ask_and_decide(login, &subject, host, conversation, Origin::Prompt),
        },
        None => Decision::nothing_typed_before(),
    };
    decision.conclude(login, host, conversation)
}

/// PAM's account phase: whether somebody who has authenticated, by whatever means, may use the host now.
pub fn account(login: &Login, host: &Host<'_>) -> Verdict {
    let decision = match Subject::of(login, host) {
        Ok(subject) => access(&subject, host),
        Err(reason) => Decision::accounts_failed(&reason),
    };
    if matches!(decision.verdict, Verdict::Granted { .. } | Verdict::OutOfScope) {
        // Written down by whoever authenticated them; cron and sudo come through here every minute.
        return decision.verdict;
    }
    decision.record(login, host)
}

/// Where an answer comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Asked for by us.
    Prompt,
    /// Asked for by us in the same login, after a password of an earlier module was looked at and refused. The throttle
    /// has let this login in: a wait that the first answer has caused is for the next.
    SecondPrompt,
    /// Asked for by a module before us (`use_first_pass`, `try_first_pass`): perhaps a password of something else.
    EarlierModule,
}

fn ask_and_decide(
    login: &Login,
    subject: &Result<Subject<'_>, String>,
    host: &Host<'_>,
    conversation: &mut dyn Conversation,
    origin: Origin,
) -> Decision {
    let prompt = login.prompt.as_deref().unwrap_or(&host.settings.prompt.code);
    match conversation.ask(prompt, false) {
        Ok(answer) => decide(subject, host, &answer, origin, talk(login, host, conversation)),
        Err(ConversationEnded) => Decision::no_answer(),
    }
}

/// Lets the server begin with its challenges (`sendEmptyPass`). None: it has none, so a code is asked for as ever.
fn begin_without_a_password(
    login: &Login,
    subject: &Result<Subject<'_>, String>,
    host: &Host<'_>,
    conversation: &mut dyn Conversation,
) -> Option<Decision> {
    let of_the_line = login.overrides.first_step == Some(FirstStep::EmptyPassword);
    let subject = subject.as_ref().ok().filter(|_| of_the_line || host.settings.challenge.begin_at_server)?;
    let server = host.server.filter(|_| subject.may_be_asked_of_the_server(host))?;
    // Who has a token here types its code, and so does who has offline values: there the server is behind.
    let has_none = host.state.tokens(Some(subject.name)).is_ok_and(|tokens| tokens.is_empty())
        && host.state.offline_tokens(Some(subject.name), 0).is_ok_and(|tokens| tokens.is_empty());
    let talk = talk(login, host, conversation).filter(|_| has_none)?;
    // Counted, or whoever knows a name could make a telephone ring all night.
    match local::check(subject, host, &Secret::from(""), Origin::Prompt) {
        Ok((Local::Refused(refusal), _)) => remote::begin(server, subject, host, &refusal, talk),
        _ => None,
    }
}

/// The person for further steps; none: they cannot be asked.
fn talk<'a>(login: &Login, host: &Host<'_>, conversation: &'a mut dyn Conversation) -> Option<Talk<'a>> {
    let settings = &host.settings.challenge;
    let may_ask = login.may_ask && !settings.never_in.iter().any(|services| services.matches(&login.service));
    let of_the_line = login.overrides.poll_time.filter(|seconds| *seconds > 0);
    let push_wait = of_the_line.map_or(settings.push_wait, |seconds| {
        Duration::from_secs(u64::from(seconds).min(settings::PUSH_WAIT_MAX))
    });
    may_ask.then_some(Talk { conversation, push_wait })
}

/// Decides about one answer. Every refusal has cost one PIN hash at least, so that its speed tells nothing.
fn decide(
    subject: &Result<Subject<'_>, String>,
    host: &Host<'_>,
    answer: &Secret,
    origin: Origin,
    talk: Option<Talk<'_>>,
) -> Decision {
    let (decision, hashed) = if answer.is_empty() {
        // A server may take it as a request for a challenge, a PIN-less token as its PIN.
        (Decision::empty_answer(), false)
    } else {
        match subject {
            Ok(subject) => look_at(subject, host, answer, origin, talk),
            Err(reason) => (Decision::accounts_failed(reason), false),
        }
    };
    if !decision.is_granted() && !hashed {
        crate::tokens::spend_the_time_of_a_check();
    }
    decision
}

/// Throttle, lock, local tokens, offline values, server; says too whether a PIN was hashed.
fn look_at(
    subject: &Subject<'_>,
    host: &Host<'_>,
    answer: &Secret,
    origin: Origin,
    talk: Option<Talk<'_>>,
) -> (Decision, bool) {
    let (local, hashed) = match local::check(subject, host, answer, origin) {
        Ok(checked) => checked,
        Err(error) => return (Decision::store_failed(&error), false),
    };
    let decision = match local {
        Local::Granted { serial } => Decision::granted_by_token(subject.name, &serial),
        Local::Throttled { until } => Decision::throttled(subject, until),
        Local::Locked { until } => Decision::locked(until),
        Local::Refused(refusal) => look_further(subject, host, answer, refusal, talk),
    };
    (decision, hashed)
}

/// Offline values, then the server, about what local tokens have refused.
fn look_further(
    subject: &Subject<'_>,
    host: &Host<'_>,
    answer: &Secret,
    refusal: Refusal,
    talk: Option<Talk<'_>>,
) -> Decision {
    let refusal = match offline::check(subject, host, answer, refusal) {
        Ok(Offline::Nothing(refusal) | Offline::Missed(refusal)) => refusal,
        Ok(Offline::Granted { serial, left }) => {
            let reminder = offline::reminder(left, host.settings.offline.warn_below);
            return Decision::granted_offline(subject.name, &serial, left, reminder);
        }
        Ok(Offline::Locked { until }) => return Decision::locked(until),
        Ok(Offline::UsedBefore { serial, refusal }) => {
            return Decision::offline_value_used(&serial, &refusal);
        }
        Err(error) => return Decision::store_failed(&error),
    };
    match host.server.filter(|_| subject.may_be_asked_of_the_server(host)) {
        Some(server) => remote::check(server, subject, host, answer, &refusal, talk)
            .unless_offline_values_decide(&refusal),
        None => Decision::refused_by_tokens(subject, &refusal),
    }
}

fn access(subject: &Subject<'_>, host: &Host<'_>) -> Decision {
    let tokens = match host.state.tokens(Some(subject.name)) {
        Ok(tokens) => tokens,
        Err(error) => return Decision::store_failed(&error),
    };
    let has_token = tokens.iter().any(|token| token.active);
    match subject.scope {
        Scope::System => Decision::out_of_scope(),
        Scope::Unknown => Decision::unknown_user(),
        Scope::Local | Scope::OtherSource if !has_token && !subject.may_be_asked_of_the_server(host) => {
            Decision::out_of_scope()
        }
        Scope::Local | Scope::OtherSource | Scope::Resolver => match lock(subject, host, &tokens) {
            Ok(Some(until)) if !subject.on_the_console => Decision::locked(until),
            Ok(_) => Decision::known(subject.name),
            Err(error) => Decision::store_failed(&error),
        },
    }
}

fn lock(
    subject: &Subject<'_>,
    host: &Host<'_>,
    tokens: &[Token],
) -> Result<Option<Option<UnixSeconds>>, StoreError> {
    if tokens.iter().any(|token| token.active) {
        local::lock(subject, host, tokens)
    } else {
        offline::lock(subject, host)
    }
}

#[cfg(test)]
mod tests;
