//! Sockets, workers, deadlines, readiness, signals: how decisions are reached over, never which.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

pub mod clock;
mod conversation;
mod daemon;
mod daily_copy;
mod endpoints;
mod identity;
mod journal;
mod line_servers;
mod once;
mod refiller;
mod refresher;
mod room;
mod scope;
mod signals;
mod sockets;
mod stop;
mod wake;
mod workers;

use journal::{Log, SYSLOG_SOCKET};

/// The administrator has to change the settings (sysexits.h's EX_CONFIG); systemd does not try again.
const EXIT_SETTINGS: u8 = 78;
/// The command line was not understood.
const EXIT_USAGE: u8 = 2;

const HELP: &str = "\
Usage: privacyidea-cached [--once]

Serves logins, user lookups and administration of privacyidea-host, in the foreground, until TERM or INT.
HUP reads the settings again. Started as root, it becomes the user _privacyidea.

      --once     serve the one connection that standard input is, then exit (for programs)
      --version  print the version
      --help     print this

Settings: /etc/privacyidea-host/config.toml. See privacyidea-cached(8).
";

/// `privacyidea-cached` with these arguments, its own name not among them.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => run_daemon(),
        ["--once"] => run_once(),
        ["--version"] => print(&format!("privacyidea-cached {}\n", env!("CARGO_PKG_VERSION"))),
        ["--help"] => print(HELP),
        _ => {
            eprint!("privacyidea-cached: the arguments were not understood\n\n{HELP}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn run_daemon() -> ExitCode {
    let log = Arc::new(Log::to_standard_error());
    if let Err(error) = identity::assume() {
        log.error(&error.to_string());
        return ExitCode::FAILURE;
    }
    report_panics(&log);
    match daemon::serve(&log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.error(&error.to_string());
            if error.is_for_the_administrator() { ExitCode::from(EXIT_SETTINGS) } else { ExitCode::FAILURE }
        }
    }
}

fn run_once() -> ExitCode {
    let log = Arc::new(Log::to_syslog(Path::new(SYSLOG_SOCKET)));
    if let Err(error) = identity::assume() {
        log.error(&error.to_string());
        return ExitCode::FAILURE;
    }
    report_panics(&log);
    match once::serve(&log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// A panic's place goes to the log; its message does not, because it may show what was being worked on.
fn report_panics(log: &Arc<Log>) {
    let log = Arc::clone(log);
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        log.error(&format!("a fault in the program at {place}; please report it"));
    }));
}

fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
