//! The conversation between the daemon and the person, with the module in the middle.

use std::time::{Duration, Instant};

use privacyidea_contract::Secret;
use privacyidea_contract::variables::{is_exportable_value, is_exportable_variable};
use privacyidea_contract::wire::{EXPORTS_MAX, Login, Reply, Request, Stream, StreamError, Verdict};

use crate::codes::{Failure, Outcome, Phase};

/// How many messages of the daemon one login may have; a daemon with more to say is not in its senses.
const MESSAGES_MAX: usize = 32;

/// Who is asked.
pub(crate) trait Person {
    /// Shows `text` and reads an answer, visible if `echo`.
    ///
    /// # Errors
    /// There is no answer.
    fn ask(&self, text: &str, echo: bool) -> Result<Secret, NoAnswer>;

    /// Shows `text`, as an error if `error`.
    ///
    /// # Errors
    /// The person is gone.
    fn tell(&self, text: &str, error: bool) -> Result<(), NoAnswer>;

    /// Hands `value` on to the session as the variable `name`.
    ///
    /// # Errors
    /// The host program does not take it.
    fn export(&self, name: &str, value: &str) -> Result<(), NotTaken>;
}

/// The host program does not take a variable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotTaken;

/// There is nobody, or nobody who answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

impl From<NoAnswer> for Failure {
    fn from(_: NoAnswer) -> Self {
        Self::NoAnswer
    }
}

/// Asks the daemon about `login` and carries its questions to the person until there is a verdict. The daemon has
/// `patience` for each of its steps; the person has as long as the daemon waits.
pub(crate) fn run(
    phase: Phase,
    login: Login,
    stream: &mut Stream,
    person: &impl Person,
    patience: Duration,
) -> Outcome {
    let may_ask = phase == Phase::Authentication && login.may_ask;
    let asked_about = login.user.clone();
    let request = match phase {
        Phase::Authentication => Request::Login(login),
        Phase::Account => Request::Account(login),
    };
    stream.send_request(&request, Instant::now() + patience).map_err(failure)?;
    drop(request);
    for _ in 0..MESSAGES_MAX {
        match stream.receive_reply(Instant::now() + patience).map_err(failure)? {
            Reply::Ask { text, echo } if may_ask => {
                let answer = Request::Answer(person.ask(&text, echo)?);
                match stream.send_request(&answer, Instant::now() + patience) {
                    // A daemon that no longer waited for the answer has said so before it closed.
                    Ok(()) | Err(StreamError::Closed) => {}
                    Err(error) => return Err(failure(error)),
                }
            }
            Reply::Ask { .. } => return Err(Failure::Nonsense("it asks where it may not ask".to_owned())),
            Reply::Tell { text, error } => person.tell(&text, error)?,
            Reply::Verdict(Verdict::Granted { user }) if user != asked_about => {
                return Err(Failure::OtherIdentity);
            }
            Reply::Verdict(verdict) => return Ok(verdict),
            Reply::Export { name, value } if phase == Phase::Authentication => {
                return granted_with(Variable { name, value }, &asked_about, stream, person, patience);
            }
            Reply::NotAllowed => return Err(Failure::NotAllowed),
            Reply::Passwd(_)
            | Reply::Group(_)
            | Reply::Groups(_)
            | Reply::NotFound
            | Reply::Unavailable
            | Reply::Document { .. }
            | Reply::Export { .. } => {
                return Err(Failure::Nonsense("it answers another question".to_owned()));
            }
        }
    }
    Err(Failure::Nonsense(format!("no verdict in {MESSAGES_MAX} messages")))
}

struct Variable {
    name: String,
    value: String,
}

/// The end of a login that is granted: variables, and the verdict, before which none of them is handed on. The daemon is
/// not root, and a variable can be an order to a program of root: what may be in it is checked here, too.
fn granted_with(
    first: Variable,
    user: &str,
    stream: &mut Stream,
    person: &impl Person,
    patience: Duration,
) -> Outcome {
    let mut variables = vec![first];
    loop {
        let misplaced = |what: &str| Err(Failure::Nonsense(what.to_owned()));
        match stream.receive_reply(Instant::now() + patience).map_err(failure)? {
            Reply::Export { name, value } if variables.len() < EXPORTS_MAX => {
                variables.push(Variable { name, value });
            }
            Reply::Export { .. } => return misplaced("it hands on too many variables"),
            Reply::Verdict(Verdict::Granted { user: granted }) if granted != user => {
                return Err(Failure::OtherIdentity);
            }
            Reply::Verdict(verdict @ Verdict::Granted { .. }) => {
                return hand_on(&variables, person).map(|()| verdict);
            }
            _ => return misplaced("it hands on variables and does not grant the login"),
        }
    }
}

fn hand_on(variables: &[Variable], person: &impl Person) -> Result<(), Failure> {
    let may_be = |it: &Variable| is_exportable_variable(&it.name) && is_exportable_value(&it.value);
    if !variables.iter().all(may_be) {
        return Err(Failure::Nonsense("it hands on a variable that may not be handed on".to_owned()));
    }
    for Variable { name, value } in variables {
        let not_taken = |_| Failure::Nonsense(format!("libpam does not take its variable {name}"));
        person.export(name, value).map_err(not_taken)?;
    }
    Ok(())
}

fn failure(error: StreamError) -> Failure {
    match error {
        StreamError::Wire(error) => Failure::Nonsense(error.to_string()),
        StreamError::Closed | StreamError::TimedOut | StreamError::Socket(_) => {
            Failure::Unavailable(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests;
