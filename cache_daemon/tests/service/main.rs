//! The real daemon process, as its peers meet it: its own directories, users and settings in a mount namespace.
//!
//! Namespaces and the daemon's user need root; without it each test says so and passes.

mod harness;
mod lifecycle;
mod logins;
mod offline;
mod peers;
#[path = "../server_support/real.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod real;
