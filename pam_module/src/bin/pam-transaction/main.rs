//! `pam-transaction`: a PAM application that shows what a stack does (`privacyidea-host test-login` runs it).
//!
//! - `application`: libpam, from the side of a program that wants to know who somebody is
//! - `console`: the person, or answers from a file
//! - `terminal`: reading without showing
//! - `options`, `report`: what is asked for and what came of it

#![deny(unsafe_code)]

mod application;
mod console;
mod options;
mod report;
mod terminal;

use std::process::ExitCode;

use application::{Application, Code};
use console::Console;
use options::{Options, Wish};
use report::{PhaseReport, Report};

fn main() -> ExitCode {
    let options = match Options::read(std::env::args_os().skip(1)) {
        Ok(Wish::Transaction(options)) => options,
        Ok(Wish::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("pam-transaction: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            print!("{}", if options.json { report.json() } else { report.to_string() });
            ExitCode::from(u8::from(!report.succeeded()))
        }
        Err(error) => {
            eprintln!("pam-transaction: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the phases in their order up to the first that fails, as a login program does.
fn run(options: &Options) -> Result<Report, String> {
    let failed = |what: &str, code: Code| format!("libpam's {what} failed: {code}");
    let console = Console::new(options.answers_from_stdin).map_err(|error| format!("no input: {error}"))?;
    let mut application =
        Application::start(&options.service, &options.user, options.confdir.as_deref(), console)
            .map_err(|code| failed("pam_start", code))?;
    if let Some(rhost) = &options.rhost {
        application.set_rhost(rhost).map_err(|code| failed("PAM_RHOST", code))?;
    }
    if let Some(tty) = &options.tty {
        application.set_tty(tty).map_err(|code| failed("PAM_TTY", code))?;
    }
    if options.no_delay {
        application.do_not_wait().map_err(|code| failed("PAM_FAIL_DELAY", code))?;
    }
    let mut report = Report::of(options);
    for &phase in &options.phases {
        let code = application.call(phase);
        let text = application.text(code);
        let (messages, delay) = application.with(Console::take);
        report.phases.push(PhaseReport { phase, code, text, messages, delay });
        if code != Code::SUCCESS {
            break;
        }
    }
    report.environment = application.environment();
    Ok(report)
}
