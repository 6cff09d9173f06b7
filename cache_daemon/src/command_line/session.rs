//! What every command has at hand: where to print, whom to ask, which daemon, which files.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use jiff::tz::TimeZone;
use privacyidea_contract::paths;
use serde::Serialize;
use zeroize::Zeroizing;

use super::daemon::Daemon;
use super::failure::Failure;
use super::terminal::{Person, StandardInput};
use super::{style::Style, times::Times};
use crate::service::clock::{Clock, SystemClock};

/// The files of the host that commands read or start.
pub struct HostFiles {
    /// The settings.
    pub settings: PathBuf,
    /// `/etc/pam.d`
    pub pam_directory: PathBuf,
    /// `/etc/nsswitch.conf`
    pub nsswitch: PathBuf,
    /// The PAM application that `test-login` runs.
    pub pam_transaction: PathBuf,
}

impl HostFiles {
    /// Where the packages put them.
    #[must_use]
    pub fn of_this_host() -> Self {
        Self {
            settings: paths::SETTINGS.into(),
            pam_directory: "/etc/pam.d".into(),
            nsswitch: "/etc/nsswitch.conf".into(),
            pam_transaction: "/usr/libexec/privacyidea-host/pam-transaction".into(),
        }
    }
}

/// Everything that a command touches; a test gives its own.
pub struct Session<'a> {
    /// The daemon.
    pub daemon: Daemon,
    /// Files of the host.
    pub files: HostFiles,
    /// Answers.
    pub output: &'a mut dyn Write,
    /// Sentences for people.
    pub errors: &'a mut dyn Write,
    /// Whether the output is a terminal.
    pub output_is_terminal: bool,
    /// Whether the output may be coloured.
    pub coloured: bool,
    /// Whom to ask.
    pub person: &'a mut dyn Person,
    /// The time of day.
    pub clock: &'a dyn Clock,
    /// In which times are shown.
    pub time_zone: TimeZone,
}

/// Runs `command` with this process's standard streams on this host.
pub(super) fn on_this_host<T>(command: impl FnOnce(&mut Session<'_>) -> T) -> T {
    let output_is_terminal = io::stdout().is_terminal();
    let mut session = Session {
        daemon: Daemon::of_this_host(),
        files: HostFiles::of_this_host(),
        output: &mut io::stdout().lock(),
        errors: &mut io::stderr(),
        output_is_terminal,
        coloured: output_is_terminal && !no_colour_is_wished(),
        person: &mut StandardInput,
        clock: &SystemClock,
        time_zone: TimeZone::system(),
    };
    command(&mut session)
}

impl Session<'_> {
    pub(super) fn style(&self) -> Style {
        Style { coloured: self.coloured }
    }

    pub(super) fn times(&self) -> Times {
        Times { now: self.clock.now(), zone: self.time_zone.clone() }
    }

    /// Prints a line of the answer.
    pub(super) fn say(&mut self, line: impl AsRef<str>) -> Result<(), Failure> {
        self.output.write_all(line.as_ref().as_bytes())?;
        Ok(self.output.write_all(b"\n")?)
    }

    /// Prints a sentence beside the answer.
    pub(super) fn note(&mut self, line: impl AsRef<str>) {
        // Whoever closed standard error does not want to hear it.
        let _ = writeln!(self.errors, "{}", line.as_ref());
    }

    /// Prints the answer as JSON.
    pub(super) fn say_json(&mut self, answer: &impl Serialize) -> Result<(), Failure> {
        let mut text = Zeroizing::new(serde_json::to_string_pretty(answer)?);
        text.push('\n');
        Ok(self.output.write_all(text.as_bytes())?)
    }

    /// Asks; no answer ends the command.
    pub(super) fn ask(&mut self, prompt: &str, echo: bool) -> Result<Zeroizing<String>, Failure> {
        self.output.flush()?;
        self.person.ask(prompt, echo).map_err(unreadable)?.ok_or(Failure::Interrupted)
    }

    /// The next line of standard input; `what` is for the sentence if there is none.
    pub(super) fn line_of_input(&mut self, what: &str) -> Result<Zeroizing<String>, Failure> {
        let missing = || Failure::Usage(format!("Standard input has ended before the {what}."));
        self.person.line().map_err(unreadable)?.ok_or_else(missing)
    }

    /// A code: asked for if somebody is there, else a line of standard input. Blanks that apps show are taken out.
    pub(super) fn code(&mut self, prompt: &str, json: bool) -> Result<Zeroizing<String>, Failure> {
        let line = if self.person.is_present() && !json {
            self.ask(prompt, true)?
        } else {
            self.line_of_input("code")?
        };
        Ok(Zeroizing::new(line.chars().filter(|c| !c.is_whitespace()).collect()))
    }

    /// A new PIN, typed twice. Empty is refused: there are other ways to have no PIN.
    pub(super) fn new_pin(&mut self) -> Result<Zeroizing<String>, Failure> {
        if !self.person.is_present() {
            let sentence = "There is no terminal to ask for the PIN at; give it with --pin-from-stdin.";
            return Err(Failure::Usage(sentence.to_owned()));
        }
        loop {
            let first = self.ask("New PIN (not shown): ", false)?;
            if first.is_empty() {
                return Err(Failure::Interrupted);
            }
            if *first == *self.ask("The same again: ", false)? {
                return Ok(first);
            }
            self.note("These were two different PINs. Try again, or press Enter to stop.");
        }
    }

    /// Asks before something that cannot be undone; `yes` is the option of that name.
    pub(super) fn confirm(&mut self, question: &str, yes: bool, json: bool) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if json || !self.person.is_present() {
            return Err(Failure::Usage(format!("{question} Nobody is there to ask: give --yes if so.")));
        }
        let answer = self.ask(&format!("{question} [y/N] "), true)?;
        if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Failure::Refused("Nothing was changed.".to_owned()))
    }
}

fn unreadable(error: io::Error) -> Failure {
    Failure::Refused(format!("The answer cannot be read: {error}."))
}

/// <https://no-color.org>: set and not empty.
#[expect(
    clippy::disallowed_methods,
    reason = "the one wish of the terminal's owner that has no other way here"
)]
fn no_colour_is_wished() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
