//! `privacyidea-host cache …`

use super::arguments::CacheCommand;
use super::daemon::other_version;
use super::failure::Failure;
use super::session::Session;
use super::style::{printable, table};
use crate::administration::{Answer, CacheRecord, Command};

/// Carries a command out.
pub(super) fn run(command: &CacheCommand, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    match command {
        CacheCommand::Flush { user } => flush(user.as_deref(), json, session),
        CacheCommand::List => list(json, session),
    }
}

/// What the daemon has cached.
pub(super) fn entries(session: &Session<'_>) -> Result<Vec<CacheRecord>, Failure> {
    match session.daemon.ask(&Command::CacheList)? {
        Answer::Cache { entries } => Ok(entries),
        _ => Err(other_version()),
    }
}

fn flush(user: Option<&str>, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let answer = session.daemon.ask(&Command::CacheFlush { user: user.map(str::to_owned) })?;
    if json {
        return session.say_json(&answer);
    }
    let Answer::Flushed { known } = answer else { return Err(other_version()) };
    match user.map(printable) {
        None => session.say("Everything is read anew."),
        Some(user) if known == Some(true) => session.say(format!("{user} is read anew.")),
        Some(user) => session.say(format!("No resolver has a user {user}; programs see that now.")),
    }
}

fn list(json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let entries = entries(session)?;
    if json {
        return session.say_json(&Answer::Cache { entries });
    }
    if entries.is_empty() {
        return session.say("Nothing is cached. `privacyidea-host status` says how the resolvers are.");
    }
    let times = session.times();
    let rows: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let id = entry.id.map_or_else(String::new, |id| id.to_string());
            [entry.kind, entry.name, id, entry.resolver, times.ahead(entry.expires)]
        })
        .collect();
    for line in table(["KIND", "NAME", "ID", "RESOLVER", "EXPIRES"], &rows, session.style()) {
        session.say(line)?;
    }
    Ok(())
}
