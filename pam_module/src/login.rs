//! From PAM's items to a request, and from its outcome to PAM's code.

use std::ffi::CStr;
use std::sync::Once;

use pamsm::{PamError, PamFlags};
use privacyidea_contract::Secret;
use privacyidea_contract::wire::Login;

use crate::accounts;
use crate::arguments::{Arguments, FirstPass};
use crate::codes::{Failure, Outcome, Phase, code};
use crate::daemon::Daemon;
use crate::dialogue::{self, NoAnswer, NotTaken, Person};
use crate::libpam::{Transaction, priority};

/// How long a failure takes at least, about: libpam varies it, and takes the longest that any module asks for.
const DELAY_MICROSECONDS: u32 = 2_000_000;

/// The authentication and the account phase.
pub(crate) fn check(
    phase: Phase,
    transaction: &Transaction<'_>,
    flags: PamFlags,
    words: &[String],
) -> PamError {
    if phase == Phase::Authentication {
        // First of all, so that every failure, whatever its reason, takes the same time.
        transaction.delay_failure(DELAY_MICROSECONDS);
    }
    let arguments = match Arguments::read(words) {
        Ok(arguments) => arguments,
        Err(errors) => {
            errors.iter().for_each(|error| transaction.log(priority::ERR, &error.to_string()));
            return PamError::SERVICE_ERR;
        }
    };
    arguments.imported.iter().for_each(|name| log_imported(transaction, name));
    let login = match login(phase, transaction, &arguments) {
        Ok(login) => login,
        Err(code) => return code,
    };
    let name = LoggedName::of(&login);
    let person = AtTheTerminal { transaction, silent: flags.contains(PamFlags::SILENT) };
    let outcome = ask(phase, login, &arguments, &person);
    let code = code(phase, &outcome);
    log_outcome(transaction, &arguments, &name, &outcome, code);
    code
}

/// Who logs in, from PAM's items.
fn login(phase: Phase, transaction: &Transaction<'_>, arguments: &Arguments) -> Result<Login, PamError> {
    let name = user(transaction)?;
    let Ok(user) = name.to_str() else {
        transaction.log(priority::ERR, "refused: the user's name is not UTF-8");
        return Err(PamError::USER_UNKNOWN);
    };
    let uid = accounts::uid_of(name).unwrap_or_else(|error| {
        transaction.log(priority::ERR, &format!("the name services cannot look the user up: {error}"));
        None
    });
    let (password, may_ask) = match phase {
        Phase::Authentication => first_pass(transaction, arguments),
        Phase::Account => (None, false),
    };
    Ok(Login {
        user: user.to_owned(),
        uid,
        service: transaction.service(),
        rhost: transaction.rhost(),
        tty: transaction.tty(),
        prompt: arguments.prompt.clone(),
        password,
        may_ask,
        overrides: arguments.overrides.clone(),
    })
}

fn user<'a>(transaction: &Transaction<'a>) -> Result<&'a CStr, PamError> {
    match transaction.user() {
        Ok(Some(name)) => Ok(name),
        Ok(None) => Err(PamError::USER_UNKNOWN),
        // An event-driven host program comes back with the name.
        Err(PamError::CONV_AGAIN) => Err(PamError::INCOMPLETE),
        Err(code) => {
            transaction.log(priority::ERR, &format!("there is no user name: libpam says {code}"));
            Err(code)
        }
    }
}

/// The password that an earlier module asked for, and whether the person may be asked.
fn first_pass(transaction: &Transaction<'_>, arguments: &Arguments) -> (Option<Secret>, bool) {
    match arguments.first_pass {
        FirstPass::Unused => (None, true),
        FirstPass::Try => (transaction.password(), true),
        FirstPass::Use => (transaction.password(), false),
    }
}

fn ask(phase: Phase, login: Login, arguments: &Arguments, person: &impl Person) -> Outcome {
    let daemon =
        if arguments.has_usual_socket() { Daemon::usual() } else { Daemon::only_at(&arguments.socket) };
    let mut connection = daemon.connect()?;
    dialogue::run(phase, login, connection.stream(), person, daemon.patience)
}

/// The daemon logs its verdicts itself; here is logged what it cannot know.
fn log_outcome(
    transaction: &Transaction<'_>,
    arguments: &Arguments,
    name: &LoggedName,
    outcome: &Outcome,
    code: PamError,
) {
    match outcome {
        Err(failure @ (Failure::Impostor { .. } | Failure::OtherIdentity)) => {
            transaction.log(priority::ALERT, &format!("{failure} ({})", name.0));
        }
        Err(failure @ Failure::NoAnswer) if arguments.debug => {
            transaction.log(priority::DEBUG, &format!("{failure} ({})", name.0));
        }
        Err(Failure::NoAnswer) => {}
        Err(failure) => transaction.log(priority::ERR, &format!("{failure} ({})", name.0)),
        Ok(_) => {}
    }
    if arguments.debug {
        transaction.log(priority::DEBUG, &format!("{}: PAM_{code}", name.0));
    }
}

/// An argument without effect here is mentioned once in each program: sshd has one for each login.
fn log_imported(transaction: &Transaction<'_>, name: &str) {
    static MENTIONED: Once = Once::new();
    MENTIONED.call_once(|| {
        let line = format!(
            "the argument {name:?} has no effect: its file is imported once, by privacyidea-host import; remove it from \
             the line"
        );
        transaction.log(priority::INFO, &line);
    });
}

/// The user for the log. People type passwords where a name is wanted, so an unknown name is left out.
struct LoggedName(String);

impl LoggedName {
    fn of(login: &Login) -> Self {
        Self(if login.uid.is_some() { format!("user={}", login.user) } else { "an unknown user".to_owned() })
    }
}

/// The person, through the host program's conversation function.
struct AtTheTerminal<'a> {
    transaction: &'a Transaction<'a>,
    /// PAM_SILENT: the host program wants no messages. Questions are asked nevertheless.
    silent: bool,
}

impl Person for AtTheTerminal<'_> {
    fn ask(&self, text: &str, echo: bool) -> Result<Secret, NoAnswer> {
        self.transaction.ask(text, echo)
    }

    fn tell(&self, text: &str, error: bool) -> Result<(), NoAnswer> {
        if self.silent { Ok(()) } else { self.transaction.tell(text, error) }
    }

    fn export(&self, name: &str, value: &str) -> Result<(), NotTaken> {
        self.transaction.export(name, value)
    }
}
