//! `privacyidea-host log`: decisions about logins.

use super::arguments::Log;
use super::daemon::other_version;
use super::failure::Failure;
use super::session::Session;
use super::style::printable;
use crate::administration::{Answer, AuditRecord, Command};

/// Shows what the daemon has kept.
pub(super) fn run(arguments: &Log, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let now = session.clock.now();
    let command = Command::Audit {
        user: arguments.user.clone(),
        since: arguments.since.map_or(0, |seconds| now.saturating_sub(seconds)),
        limit: arguments.limit,
    };
    let answer = session.daemon.ask(&command)?;
    let Answer::Audit { events } = &answer else { return Err(other_version()) };
    if json {
        return session.say_json(&answer);
    }
    if events.is_empty() {
        return session.say("No logins are noted.");
    }
    show(events, session)
}

/// The newest last, where the eye is.
pub(super) fn show(events: &[AuditRecord], session: &mut Session<'_>) -> Result<(), Failure> {
    let (style, times) = (session.style(), session.times());
    for event in events.iter().rev() {
        let text = printable(&event.text);
        let text = if event.granted { style.good(&text) } else { style.warning(&text) };
        session.say(format!("{}  {text}", times.full(event.time)))?;
    }
    Ok(())
}
