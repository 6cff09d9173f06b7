//! The real daemon process, as its peers meet it: its own directories, users and settings in a mount namespace.
//!
//! Namespaces and the daemon's user need root; without it each test says so and fails.

mod harness;
mod lifecycle;
mod logins;
mod peers;
mod users_file;
