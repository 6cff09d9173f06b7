//! The real daemon process, as its peers meet it: its own directories, users and settings in a mount namespace.
//!
//! Namespaces and the daemon's user need root; without it each test says so and fails.

mod harness;
mod lifecycle;
mod lines;
mod logins;
mod offline;
mod peers;
#[allow(dead_code, reason = "each test program uses its own part")]
#[path = "../server_support/real.rs"]
mod real;
mod users_file;
mod versions;
