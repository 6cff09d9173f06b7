//! The cache daemon and the command line of privacyidea-host: every decision is made here.
//!
//! One folder a subject; `docs/architecture.md` says what each decides and what it must not know.
#![forbid(unsafe_code)]

pub mod administration;
pub mod authentication;
pub mod command_line;
pub mod directory;
mod qr;
pub mod server;
pub mod service;
pub mod settings;
pub mod store;
pub mod tokens;
