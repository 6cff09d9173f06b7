//! `pam_privacyidea.so`: asks the person, asks the daemon, answers libpam (pam_privacyidea(8), `docs/protocol.md`).
//!
//! - `entry`: the six functions that libpam calls, behind a wall that no panic passes
//! - `arguments`: what a line in `/etc/pam.d` may say
//! - `login`: from PAM's items to a request, and from its outcome to PAM's code
//! - `codes`: the table of outcomes and PAM codes
//! - `dialogue`: the conversation between the daemon and the person
//! - `daemon`: reaching the daemon, or starting one for this login (`once`)
//! - `libpam`, `accounts`: libpam's and the host's own functions

// Exceptions say so: the bindings of libpam, of getpwnam_r and of posix_spawn.
#![deny(unsafe_code)]

mod accounts;
mod arguments;
mod codes;
mod daemon;
mod dialogue;
mod entry;
mod libpam;
mod login;
mod once;

use pamsm::PamServiceModule;

pamsm::pam_module!(entry::PrivacyIdea);
