//! The command line.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cache_daemon::command_line::main()
}
