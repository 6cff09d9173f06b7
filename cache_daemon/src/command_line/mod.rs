//! `privacyidea-host`: what an administrator types, and what they see.
//!
//! A command parses its arguments, asks the daemon (over its socket, or started for one answer), and prints. It decides
//! nothing about logins; it edits no file but those of the `files` resolvers.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

mod arguments;
mod cache;
mod check_config;
mod daemon;
pub mod documents;
mod enrolment;
mod failure;
mod hints;
mod host;
mod log;
mod offline;
mod session;
mod status;
mod style;
mod terminal;
mod test_login;
mod times;
mod token;
mod user;

use arguments::{Command, CommandLine};
use failure::Failure;

pub use daemon::Daemon;
pub use session::{HostFiles, Session};
pub use terminal::Person;

/// The whole program, on this host.
pub fn main() -> ExitCode {
    ExitCode::from(session::on_this_host(|session| run(std::env::args_os(), session)))
}

/// The whole program with another host's arguments, streams, files and daemon. Returns the exit status: 0 done, 1
/// refused, 2 wrong command line, 3 daemon not reached, 130 interrupted.
pub fn run(arguments: impl IntoIterator<Item = OsString>, session: &mut Session<'_>) -> u8 {
    let command_line = match CommandLine::try_parse_from(arguments) {
        Ok(command_line) => command_line,
        Err(error) => return explain(&error, session),
    };
    let json = command_line.json;
    let result = execute(&command_line.command, json, session)
        .and_then(|()| session.output.flush().map_err(Failure::from));
    let Err(failure) = result else { return 0 };
    if let Some(document) = failure.document().filter(|_| json) {
        let _ = session.say_json(&document);
        let _ = session.output.flush();
    }
    if let Some(sentence) = failure.sentence() {
        session.note(format!("privacyidea-host: {}", style::printable(&sentence)));
    }
    failure.status()
}

fn execute(command: &Command, json: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    match command {
        Command::Token(command) => token::run(command, json, session),
        Command::User(command) => user::run(command, json, session),
        Command::Cache(command) => cache::run(command, json, session),
        Command::Status => status::run(json, session),
        Command::CheckConfig(arguments) => check_config::run(arguments.file.as_deref(), json, session),
        Command::TestLogin(arguments) => test_login::run(arguments, json, session),
        Command::Log(arguments) => log::run(arguments, json, session),
        Command::Completions { shell } => Ok(session.output.write_all(&documents::completion(*shell))?),
    }
}

/// Help and version on standard output, status 0; usage errors on standard error, status 2.
fn explain(error: &clap::Error, session: &mut Session<'_>) -> u8 {
    let text = error.render();
    let text = if session.coloured { text.ansi().to_string() } else { text.to_string() };
    if error.use_stderr() {
        let _ = session.errors.write_all(text.as_bytes());
        return 2;
    }
    let _ = session.output.write_all(text.as_bytes()).and_then(|()| session.output.flush());
    0
}
