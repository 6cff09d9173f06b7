//! The six functions that libpam calls.
//!
//! Nothing is handed from one phase to the next: sshd authenticates in one process and sets credentials in another.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

use pamsm::{Pam, PamError, PamFlags, PamServiceModule};

use crate::codes::Phase;
use crate::libpam::{Transaction, priority};
use crate::login;

/// The module.
pub(crate) struct PrivacyIdea;

impl PamServiceModule for PrivacyIdea {
    fn authenticate(pam: Pam, flags: PamFlags, arguments: Vec<String>) -> PamError {
        wall(&pam, |transaction| login::check(Phase::Authentication, transaction, flags, &arguments))
    }

    /// There are no credentials to set. Success, because stacks that jump over other modules count on it.
    fn setcred(pam: Pam, _: PamFlags, _: Vec<String>) -> PamError {
        wall(&pam, |_| PamError::SUCCESS)
    }

    fn acct_mgmt(pam: Pam, flags: PamFlags, arguments: Vec<String>) -> PamError {
        wall(&pam, |transaction| login::check(Phase::Account, transaction, flags, &arguments))
    }

    /// Nothing is done about sessions, and nothing is claimed.
    fn open_session(pam: Pam, _: PamFlags, _: Vec<String>) -> PamError {
        wall(&pam, |_| PamError::IGNORE)
    }

    fn close_session(pam: Pam, _: PamFlags, _: Vec<String>) -> PamError {
        wall(&pam, |_| PamError::IGNORE)
    }

    /// Passwords are changed elsewhere.
    fn chauthtok(pam: Pam, _: PamFlags, _: Vec<String>) -> PamError {
        wall(&pam, |_| PamError::IGNORE)
    }
}

/// Where the last panic was. Only the place: its message may quote what it stumbled over.
static PLACE: Mutex<Option<String>> = Mutex::new(None);

/// Runs a phase. A panic ends here as PAM_SERVICE_ERR with a line in the log: unwinding into C would abort sshd.
fn wall(pam: &Pam, phase: impl FnOnce(&Transaction<'_>) -> PamError) -> PamError {
    silence_panics();
    let transaction = Transaction::of(pam);
    let guarded = || {
        if cfg!(feature = "panic-in-every-phase") {
            panic!("this build panics in every phase");
        }
        phase(&transaction)
    };
    match catch_unwind(AssertUnwindSafe(guarded)) {
        Ok(code) => code,
        Err(payload) => {
            leak(payload);
            let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner).take();
            let place = place.as_deref().unwrap_or("an unknown place");
            transaction.log(priority::CRIT, &format!("this is a bug: the module panicked at {place}"));
            PamError::SERVICE_ERR
        }
    }
}

/// The default hook writes to standard error, which may be anybody's file by now. A Rust library has its own copy of
/// the standard library, so the hook of a host program written in Rust stays as it is.
fn silence_panics() {
    static SILENCED: Once = Once::new();
    SILENCED.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = panic.location().map(ToString::to_string);
        }));
    });
}

/// Dropping a panic's payload could panic again, outside the wall.
fn leak(payload: Box<dyn Any + Send>) {
    std::mem::forget(payload);
}
