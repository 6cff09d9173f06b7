//! The module as libpam loads it, behind real stacks (`pam_start_confdir`), with a daemon whose words the test writes.
//!
//! That daemon is a stand-in for what the real one does rarely or never: each verdict in turn, silence, rubbish, an
//! early end. What the real daemon and the module do together is tested with the packages.

#[allow(dead_code, reason = "the binding of pam-transaction; a test uses what it needs")]
#[path = "../../src/bin/pam-transaction/application.rs"]
mod application;
mod harness;

mod arguments;
mod conversation;
mod daemon;
mod errors;
mod linking;
mod processes;
mod verdicts;
