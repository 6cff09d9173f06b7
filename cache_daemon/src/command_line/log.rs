//! `privacyidea-host log`: decisions about logins.

use std::time::Duration;

use super::arguments::Log;
use super::daemon::other_version;
use super::failure::Failure;
use super::session::Session;
use super::style::printable;
use crate::administration::{Answer, AuditRecord, Command};
use crate::service::clock::UnixSeconds;

/// How often new logins are looked for.
const PACE: Duration = Duration::from_secs(1);
/// At most so many new ones at once.
const BATCH: u32 = 1000;

/// Shows what the daemon has kept.
pub(super) fn run(arguments: &Log, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    // Before the list, so that nothing falls between it and what follows.
    let newest = if arguments.follow { ask(newest_of(arguments, 0, 1), session)? } else { Vec::new() };
    let since = arguments.since.map_or(0, |seconds| session.clock.now().saturating_sub(seconds));
    let events = ask(newest_of(arguments, since, arguments.limit), session)?;
    if arguments.follow {
        let last = events.first().or(newest.first()).map_or(0, |event| event.id);
        return follow(&events, last, arguments, json, session);
    }
    if json {
        return session.say_json(&Answer::Audit { events });
    }
    if events.is_empty() {
        return session.say("No logins are noted.");
    }
    show(&events, session)
}

fn newest_of(arguments: &Log, since: UnixSeconds, limit: u32) -> Command {
    Command::Audit { after: None, user: arguments.user.clone(), since, limit }
}

fn ask(command: Command, session: &Session<'_>) -> Result<Vec<AuditRecord>, Failure> {
    match session.daemon.ask(&command)? {
        Answer::Audit { events } => Ok(events),
        _ => Err(other_version()),
    }
}

/// The newest last, where the eye is.
pub(super) fn show(newest_first: &[AuditRecord], session: &mut Session<'_>) -> Result<(), Failure> {
    newest_first.iter().rev().try_for_each(|event| show_one(event, session))
}

fn show_one(event: &AuditRecord, session: &mut Session<'_>) -> Result<(), Failure> {
    let (style, times) = (session.style(), session.times());
    let text = printable(&event.text);
    let text = if event.granted { style.good(&text) } else { style.warning(&text) };
    session.say(format!("{}  {text}", times.full(event.time)))
}

/// Shows the latest, then each login as it comes, until whoever reads has gone. One JSON object a line.
fn follow(
    newest_first: &[AuditRecord],
    mut last: u64,
    arguments: &Log,
    json: bool,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let show = |event: &AuditRecord, session: &mut Session<'_>| match json {
        true => session.say(serde_json::to_string(event)?),
        false => show_one(event, session),
    };
    newest_first.iter().rev().try_for_each(|event| show(event, session))?;
    session.output.flush()?;
    while session.person.wait(PACE) {
        let user = arguments.user.clone();
        let events = ask(Command::Audit { after: Some(last), user, since: 0, limit: BATCH }, session)?;
        events.iter().try_for_each(|event| show(event, session))?;
        session.output.flush()?;
        last = events.last().map_or(last, |event| event.id);
    }
    Ok(())
}
