//! How a login ended, and the line that says so.

use privacyidea_contract::wire::{Login, Verdict};

use super::local::{Finding, Refusal};
use super::number::Number;
use super::{Conversation, Event, Host, Method, Subject};
use crate::service::clock::UnixSeconds;
use crate::store::StoreError;

pub(super) struct Decision {
    pub(super) verdict: Verdict,
    number: Number,
    text: String,
    method: Option<Method>,
    token: Option<String>,
    /// Whether the log may name the user.
    user_is_known: bool,
    /// What the person is told after a grant.
    reminder: Option<String>,
    /// What a grant hands on to the session: names and values.
    variables: Vec<(String, String)>,
}

impl Decision {
    /// Writes the decision down and gives its verdict.
    pub(super) fn record(self, login: &Login, host: &Host<'_>) -> Verdict {
        host.journal.record(&Event {
            verdict: Some(self.verdict.clone()),
            method: self.method,
            token: self.token,
            ..event(self.number, self.text, self.user_is_known, login, host)
        });
        self.verdict
    }

    /// [`record`](Self::record); tells the person what there is to tell, and hands the variables of a grant on.
    pub(super) fn conclude(
        mut self,
        login: &Login,
        host: &Host<'_>,
        conversation: &mut dyn Conversation,
    ) -> Verdict {
        let (reminder, variables) = (self.reminder.take(), std::mem::take(&mut self.variables));
        let verdict = self.record(login, host);
        if let Some(text) = reminder {
            // Who does not hear it has been let in all the same.
            let _ = conversation.tell(&text, false);
        }
        for (name, value) in variables {
            // Whoever has gone does not get the verdict either.
            let Ok(()) = conversation.export(&name, &value) else { break };
        }
        verdict
    }

    fn new(verdict: Verdict, number: Number, text: impl Into<String>) -> Self {
        Self {
            verdict,
            number,
            text: text.into(),
            method: None,
            token: None,
            user_is_known: true,
            reminder: None,
            variables: Vec::new(),
        }
    }

    /// Who has decided.
    fn by(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    pub(super) fn is_granted(&self) -> bool {
        matches!(self.verdict, Verdict::Granted { .. })
    }

    /// Whether the answer was not even looked at.
    pub(super) fn is_throttled(&self) -> bool {
        self.number == Number::THROTTLED
    }

    pub(super) fn granted_by_token(user: &str, serial: &str) -> Self {
        let text = format!("granted, token {serial}");
        let granted = Self::new(Verdict::Granted { user: user.to_owned() }, Number::GRANTED_BY_TOKEN, text);
        Self { token: Some(serial.to_owned()), ..granted.by(Method::LocalToken) }
    }

    pub(super) fn granted_offline(user: &str, serial: &str, left: u32, reminder: Option<String>) -> Self {
        let text = format!("granted offline, token {serial}, {left} offline logins left");
        let verdict = Verdict::Granted { user: user.to_owned() };
        let granted = Self::new(verdict, Number::GRANTED_OFFLINE, text).by(Method::OfflineValue);
        Self { reminder, token: Some(serial.to_owned()), ..granted }
    }

    pub(super) fn granted_by_server(user: &str, serial: Option<&str>) -> Self {
        let token = serial.map_or_else(String::new, |serial| format!(", token {serial}"));
        let text = format!("granted by the server{token}");
        let granted = Self::new(Verdict::Granted { user: user.to_owned() }, Number::GRANTED_BY_SERVER, text);
        Self { token: serial.map(str::to_owned), ..granted.by(Method::Server) }
    }

    /// The same, with variables for the session.
    pub(super) fn handing_on(mut self, variables: Vec<(String, String)>) -> Self {
        self.variables = variables;
        self
    }

    pub(super) fn no_token_named() -> Self {
        let text = "refused, the server accepted without a token, and require-token is set";
        Self::new(Verdict::Refused, Number::NO_TOKEN_NAMED, text)
    }

    pub(super) fn other_realm() -> Self {
        let text = "refused, the server accepted a user of another realm";
        Self::new(Verdict::Refused, Number::OTHER_REALM, text)
    }

    pub(super) fn known(user: &str) -> Self {
        Self::new(Verdict::Granted { user: user.to_owned() }, Number::ACCOUNT_KNOWN, "account known")
    }

    pub(super) fn out_of_scope() -> Self {
        Self::new(Verdict::OutOfScope, Number::OUT_OF_SCOPE, "not an account of ours")
    }

    pub(super) fn refused_by_tokens(subject: &Subject<'_>, refusal: &Refusal) -> Self {
        if !subject.is_known() {
            return Self::unknown_user();
        }
        let failures = failures_of(refusal);
        let refused = match &refusal.found {
            Finding::Wrong => {
                Self::new(Verdict::Refused, Number::WRONG_CODE, format!("refused, wrong code{failures}"))
            }
            Finding::UsedBefore { serial } => Self::new(
                Verdict::Refused,
                Number::USED_CODE,
                format!("refused, the code of token {serial} has been used{failures}"),
            ),
            Finding::FarAway { serial } => Self::new(
                Verdict::Refused,
                Number::FAR_CODE,
                format!(
                    "refused, the code of token {serial} is outside the window: its next code will resynchronise \
                     it{failures}"
                ),
            ),
            Finding::NoToken => {
                return Self::new(Verdict::Refused, Number::NO_TOKEN, "refused, has no token");
            }
        };
        refused.by(Method::LocalToken)
    }

    pub(super) fn offline_value_used(serial: &str, refusal: &Refusal) -> Self {
        let text =
            format!("refused, the offline value of token {serial} has been used{}", failures_of(refusal));
        Self::new(Verdict::Refused, Number::OFFLINE_USED, text).by(Method::OfflineValue)
    }

    /// Where offline values were compared and the server cannot be asked, they have decided.
    pub(super) fn unless_offline_values_decide(self, refusal: &Refusal) -> Self {
        if refusal.offline.is_empty() || self.verdict != Verdict::Unavailable {
            return self;
        }
        let text = format!("refused, no offline value fits{}; {}", failures_of(refusal), self.text);
        Self::new(Verdict::Refused, Number::OFFLINE_MISSED, text).by(Method::OfflineValue)
    }

    pub(super) fn unknown_user() -> Self {
        Self {
            user_is_known: false,
            ..Self::new(Verdict::UnknownUser, Number::UNKNOWN_USER, "refused, no such user")
        }
    }

    pub(super) fn empty_answer() -> Self {
        // Known or not: the name was not looked at yet, so it is left out.
        Self {
            user_is_known: false,
            ..Self::new(Verdict::Refused, Number::NOTHING_TYPED, "refused, nothing was typed")
        }
    }

    pub(super) fn locked(until: Option<UnixSeconds>) -> Self {
        let until =
            until.map_or_else(|| "until unlocked".to_owned(), |until| format!("until {}", time_text(until)));
        let text = format!("refused, locked {until} (privacyidea-host token unlock USER)");
        Self::new(Verdict::Locked, Number::LOCKED, text)
    }

    pub(super) fn throttled(subject: &Subject<'_>, until: UnixSeconds) -> Self {
        let text = format!("refused unseen, too many failures: next attempt at {}", time_text(until));
        // Unknown users are throttled too, and their names are not written down.
        Self { user_is_known: subject.is_known(), ..Self::new(Verdict::Locked, Number::THROTTLED, text) }
    }

    pub(super) fn refused_by_server(reason: &str) -> Self {
        Self::new(
            Verdict::Refused,
            Number::REFUSED_BY_SERVER,
            format!("refused by the server{}", quoted(reason)),
        )
        .by(Method::Server)
    }

    pub(super) fn unknown_to_the_server() -> Self {
        Self::new(
            Verdict::UnknownUser,
            Number::UNKNOWN_TO_SERVER,
            "refused, the server does not know this user",
        )
        .by(Method::Server)
    }

    pub(super) fn second_step_wanted(message: &str) -> Self {
        let text = format!(
            "refused, the server asks for a further step{}, which cannot be done here",
            quoted(message)
        );
        Self::new(Verdict::Refused, Number::SECOND_STEP, text).by(Method::Server)
    }

    pub(super) fn wrong_step() -> Self {
        Self::new(Verdict::Refused, Number::WRONG_STEP, "refused, the further step was answered wrongly")
            .by(Method::Server)
    }

    pub(super) fn declined() -> Self {
        Self::new(Verdict::Refused, Number::DECLINED, "refused, the login was declined on the other device")
            .by(Method::Server)
    }

    pub(super) fn withdrawn() -> Self {
        Self::new(Verdict::Refused, Number::DECLINED, "refused, the server has withdrawn the further step")
            .by(Method::Server)
    }

    pub(super) fn not_confirmed() -> Self {
        let text = "refused, the login was not confirmed on the other device in time";
        Self::new(Verdict::Refused, Number::NOT_CONFIRMED, text).by(Method::Server)
    }

    pub(super) fn too_many_steps() -> Self {
        let text = "refused, the server asks for one further step after another";
        Self::new(Verdict::Refused, Number::TOO_MANY_STEPS, text).by(Method::Server)
    }

    /// Whether the server was asked more than a password, so that nothing more is asked here.
    pub(super) fn is_about_steps(&self) -> bool {
        use Number as N;
        [N::WRONG_STEP, N::DECLINED, N::NOT_CONFIRMED, N::TOO_MANY_STEPS, N::NO_ANSWER].contains(&self.number)
    }

    pub(super) fn nothing_typed_before() -> Self {
        let text = "refused, use_first_pass is set but no module before this one asked for a password";
        Self::new(Verdict::Refused, Number::NOTHING_TYPED_BEFORE, text)
    }

    pub(super) fn server_unreachable(why: &str) -> Self {
        Self::new(
            Verdict::Unavailable,
            Number::SERVER_UNREACHABLE,
            format!("undecided, the server cannot be reached: {why}"),
        )
    }

    pub(super) fn server_unable(why: &str) -> Self {
        Self::new(
            Verdict::Unavailable,
            Number::SERVER_UNABLE,
            format!("undecided, the server cannot check: {why}"),
        )
    }

    pub(super) fn server_talks_rubbish(why: &str) -> Self {
        Self::new(
            Verdict::Unavailable,
            Number::SERVER_RUBBISH,
            format!("undecided, the server does not answer like privacyIDEA: {why}"),
        )
    }

    pub(super) fn server_untrusted(why: &str) -> Self {
        Self::new(
            Verdict::Untrusted,
            Number::SERVER_UNTRUSTED,
            format!("refused, the server is not trusted: {why}"),
        )
    }

    pub(super) fn store_failed(error: &StoreError) -> Self {
        Self {
            user_is_known: false,
            ..Self::new(Verdict::Failed, Number::STORE_FAILED, format!("refused, {error}"))
        }
    }

    pub(super) fn accounts_failed(reason: &str) -> Self {
        let text = format!("refused, it cannot be told whose account this is: {reason}");
        Self { user_is_known: false, ..Self::new(Verdict::Failed, Number::ACCOUNTS_FAILED, text) }
    }

    pub(super) fn no_answer() -> Self {
        Self {
            user_is_known: false,
            ..Self::new(Verdict::NoAnswer, Number::NO_ANSWER, "ended, no answer came")
        }
    }

    /// Adds what was done beside the decision.
    pub(super) fn noting(mut self, beside: Option<String>) -> Self {
        if let Some(note) = beside {
            self.text = format!("{} ({note})", self.text);
        }
        self
    }

    /// Adds what went wrong beside the decision.
    pub(super) fn despite(mut self, beside: Result<(), StoreError>) -> Self {
        if let Err(error) = beside {
            self.text = format!("{} (and {error})", self.text);
        }
        self
    }
}

/// ` (TOTP0001 failure 3)`; empty if nothing was counted.
fn failures_of(refusal: &Refusal) -> String {
    let counted = refusal.counted.iter().chain(&refusal.offline);
    let failures: Vec<_> = counted.map(|(serial, failures)| format!("{serial} failure {failures}")).collect();
    if failures.is_empty() { String::new() } else { format!(" ({})", failures.join(", ")) }
}

/// Writes down something beside the decision.
pub(super) fn note(number: Number, text: &str, user_is_known: bool, login: &Login, host: &Host<'_>) {
    host.journal.record(&event(number, text.to_owned(), user_is_known, login, host));
}

fn event(number: Number, text: String, user_is_known: bool, login: &Login, host: &Host<'_>) -> Event {
    Event {
        number: number.value(),
        time: host.clock.now(),
        user: user_is_known.then(|| login.user.clone()),
        service: login.service.clone(),
        rhost: login.rhost.clone(),
        tty: login.tty.clone(),
        text,
        verdict: None,
        method: None,
        token: None,
    }
}

/// The server's own words, if there are any.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": \"{text}\"") }
}

/// For people: local time.
fn time_text(time: UnixSeconds) -> String {
    let moment = i64::try_from(time).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.map_or_else(
        || time.to_string(),
        |moment| jiff::tz::TimeZone::system().to_datetime(moment).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}
