//! `privacyidea-host test-login`: the real PAM stack, by the PAM application of the package, and what the daemon noted.

use std::process::{Command as Process, Stdio};

use serde_json::{Value, json};

use super::arguments::TestLogin;
use super::failure::Failure;
use super::session::Session;
use super::style::printable;
use super::{hints, log};
use crate::administration::{Answer, AuditRecord, Command};

/// Tries a login.
pub(super) fn run(arguments: &TestLogin, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let service = &arguments.service;
    if service.is_empty() || service.contains('/') {
        return Err(Failure::Usage(
            "--service is the name of a file in /etc/pam.d, without slashes.".to_owned(),
        ));
    }
    if !session.files.pam_directory.join(service).exists() {
        return Err(Failure::Refused(format!(
            "There is no PAM service {service:?}: {} has none of that name.",
            session.files.pam_directory.display()
        )));
    }
    if !session.daemon.is_root {
        return Err(Failure::Refused(
            "Only root can go through another service's PAM stack: run it with sudo.".into(),
        ));
    }
    let start = session.clock.now();
    // Times are whole seconds: what this second has already seen is not ours.
    let before = noted(&arguments.user, start, session).map_or(0, |events| events.len());
    let (granted, phases) = transaction(arguments, json, session)?;
    let events = noted(&arguments.user, start, session).map(|mut events| {
        events.truncate(events.len().saturating_sub(before));
        events
    });
    if json {
        let events = events.unwrap_or_default();
        session.say_json(
            &json!({ "answer": "test-login", "granted": granted, "transaction": phases, "events": events }),
        )?;
    } else {
        show(arguments, granted, events, session)?;
    }
    if granted { Ok(()) } else { Err(Failure::Negative) }
}

/// Runs the PAM application; whether every phase said yes, and with `json` what it printed.
fn transaction(
    arguments: &TestLogin,
    json: bool,
    session: &mut Session<'_>,
) -> Result<(bool, Value), Failure> {
    session.output.flush()?;
    let program = &session.files.pam_transaction;
    let mut process = Process::new(program);
    process.args(["--service", &arguments.service, "--user", &arguments.user]);
    if let Some(rhost) = &arguments.rhost {
        process.args(["--rhost", rhost]);
    }
    if !session.person.is_present() {
        process.arg("--answers-from-stdin");
    }
    if json {
        process.arg("--json").stdout(Stdio::piped());
    }
    let ended = process.spawn().and_then(std::process::Child::wait_with_output).map_err(|error| {
        Failure::Refused(format!(
            "{} cannot be started: {error}. Is the package privacyidea-host complete?",
            program.display()
        ))
    })?;
    Ok((ended.status.success(), serde_json::from_slice(&ended.stdout).unwrap_or(Value::Null)))
}

/// What the daemon has noted since `start`, newest first; None if it cannot be asked.
fn noted(user: &str, start: u64, session: &Session<'_>) -> Option<Vec<AuditRecord>> {
    // Unknown users are noted without their name.
    let command = Command::Audit { after: None, user: None, since: start, limit: 100 };
    let Ok(Answer::Audit { events }) = session.daemon.ask(&command) else { return None };
    let is_about = |event: &AuditRecord| event.user.as_deref().is_none_or(|name| name == user);
    Some(events.into_iter().filter(is_about).collect())
}

fn show(
    arguments: &TestLogin,
    granted: bool,
    events: Option<Vec<AuditRecord>>,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let style = session.style();
    let (user, service) = (&arguments.user, &arguments.service);
    let verdict = if granted {
        style.good("would let").into_owned() + &format!(" {user} in.")
    } else {
        style.bad("would not let").into_owned() + &format!(" {user} in.")
    };
    session.say(format!("{service} {verdict}"))?;
    match events {
        None => session.note("The daemon cannot be asked what it noted; see `privacyidea-host status`."),
        Some(events) if events.is_empty() => {
            session.say(format!(
                "The daemon noted nothing: no one-time password was checked. Does {} name pam_privacyidea.so, and \
                 before a line that ends the stack?",
                session.files.pam_directory.join(service).display()
            ))?;
        }
        Some(events) => {
            session.say("The daemon noted:")?;
            log::show(&events, session)?;
            // Newest first: the hint is about how it ended.
            let hint = events.first().and_then(|event| hints::hint(&event.text, user));
            if let Some(hint) = hint.filter(|_| !granted) {
                session.say(format!("{}  {}", style.heading("hint"), printable(&hint)))?;
            }
        }
    }
    if service == "sshd" && granted {
        session.say(
            "sshd asks PAM only for passwords and codes: a login with a public key skips this, unless \
             AuthenticationMethods in sshd_config(5) asks for both.",
        )?;
    }
    Ok(())
}
