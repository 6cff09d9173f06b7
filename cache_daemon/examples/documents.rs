//! Writes the manual pages and completions of `privacyidea-host` into a directory; the package's build runs it.
//!
//! `cargo run --example documents -- DIRECTORY`

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: documents DIRECTORY");
        return ExitCode::from(2);
    };
    match cache_daemon::command_line::documents::write(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
