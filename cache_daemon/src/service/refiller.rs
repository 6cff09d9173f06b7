//! The thread that asks the server for new offline values, after logins that have used some.
//!
//! What was typed is kept in memory only, until the server has answered or we have given up; a newer login of the same
//! token takes its place.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use privacyidea_contract::Secret;

use super::clock::{Clock, UnixSeconds};
use super::journal::Severity;
use super::scope::Scope;
use crate::authentication::Refills;
use crate::server::{Failure, Refill, RefillToken, Refilled, Server};
use crate::store::{State, StoreError};
use crate::tokens::{OfflineHashError, OfflineValue};

/// The wait after a first failure; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// After so many failures, seven hours, the next login has to ask.
const ATTEMPTS_MAX: u32 = 12;
/// More tokens do not wait at the same time; the next login of one that found no place asks again.
const TOKENS_MAX: usize = 256;

/// The tokens that wait for new values.
#[derive(Default)]
pub(super) struct Refiller {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Refills for Refiller {
    fn want(&self, serial: &str, password: &Secret) {
        self.lock().put(serial, Secret::new(password.expose().to_vec()), Instant::now());
        self.changed.notify_all();
    }
}

impl Refiller {
    /// Starts the thread, which ends with the process.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(scope: Arc<Scope>) -> std::io::Result<()> {
        let work = move || {
            loop {
                let (serial, wanted) = scope.refiller.next();
                let attempt = catch_unwind(AssertUnwindSafe(|| refill(&scope, &serial, &wanted)));
                let outcome = attempt.unwrap_or_else(|_| {
                    Outcome::Done(Severity::Error, "a fault in the program ended its refill".to_owned())
                });
                scope.refiller.end(&scope, &serial, wanted, outcome);
            }
        };
        std::thread::Builder::new().name("refiller".to_owned()).spawn(work).map(drop)
    }

    /// Waits for the request that is on its way: its answer would be lost. False: it was not over at `deadline`.
    #[must_use]
    pub(super) fn is_idle_before(&self, deadline: Instant) -> bool {
        let mut queue = self.lock();
        while queue.at_work {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits for a token that is due.
    fn next(&self) -> (String, Wanted) {
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            if let Some(due) = queue.take_due(now) {
                queue.at_work = true;
                return due;
            }
            let wait = queue.next_due().map_or(LONGEST_WAIT, |due| due.saturating_duration_since(now));
            queue = self.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn end(&self, scope: &Scope, serial: &str, wanted: Wanted, outcome: Outcome) {
        let (severity, text) = match outcome {
            Outcome::Done(severity, text) => (severity, text),
            Outcome::Later(why) => {
                let is_first = wanted.failures == 0;
                match self.lock().put_again(serial, wanted, Instant::now()) {
                    Again::Later if is_first => (Severity::Info, format!("no new values yet: {why}")),
                    Again::Later => (Severity::Info, String::new()),
                    Again::GivenUp => {
                        (Severity::Warning, format!("no new values until its next login: {why}"))
                    }
                }
            }
        };
        if !text.is_empty() {
            scope.log.write(severity, &format!("offline token {serial}: {text}"));
        }
        self.lock().at_work = false;
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Queue {
    waiting: BTreeMap<String, Wanted>,
    at_work: bool,
}

struct Wanted {
    password: Secret,
    failures: u32,
    due: Instant,
}

enum Again {
    Later,
    GivenUp,
}

impl Queue {
    fn put(&mut self, serial: &str, password: Secret, now: Instant) {
        if self.waiting.len() < TOKENS_MAX || self.waiting.contains_key(serial) {
            self.waiting.insert(serial.to_owned(), Wanted { password, failures: 0, due: now });
        }
    }

    /// After a failure. A login since then has brought a newer password, which stays.
    fn put_again(&mut self, serial: &str, wanted: Wanted, now: Instant) -> Again {
        let failures = wanted.failures + 1;
        if self.waiting.contains_key(serial) {
            return Again::Later;
        }
        if failures >= ATTEMPTS_MAX {
            return Again::GivenUp;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << (failures - 1)).min(LONGEST_WAIT);
        self.waiting.insert(serial.to_owned(), Wanted { failures, due: now + wait, ..wanted });
        Again::Later
    }

    fn take_due(&mut self, now: Instant) -> Option<(String, Wanted)> {
        let serial = self.waiting.iter().find(|(_, wanted)| wanted.due <= now)?.0.clone();
        self.waiting.remove_entry(&serial)
    }

    fn next_due(&self) -> Option<Instant> {
        self.waiting.values().map(|wanted| wanted.due).min()
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    /// There is nothing more to do, and this to say (or nothing).
    Done(Severity, String),
    /// To be tried again, because of this.
    Later(String),
}

fn refill(scope: &Scope, serial: &str, wanted: &Wanted) -> Outcome {
    let configured = scope.configured();
    if scope.stop.is_raised() {
        return Outcome::Later("the service ends".to_owned());
    }
    match configured.server() {
        Some(server) if configured.settings.offline.enabled => {
            attempt(serial, &wanted.password, server, &scope.state, scope.clock.now())
        }
        _ => Outcome::Done(Severity::Info, "no new values: the settings are others now".to_owned()),
    }
}

fn attempt(serial: &str, password: &Secret, server: &dyn Server, state: &State, now: UnixSeconds) -> Outcome {
    ask(serial, password, server, state, now)
        .unwrap_or_else(|error| Outcome::Done(Severity::Error, format!("no new values: {error}")))
}

fn ask(
    serial: &str,
    password: &Secret,
    server: &dyn Server,
    state: &State,
    now: UnixSeconds,
) -> Result<Outcome, StoreError> {
    let Some(basis) = state.change(|transaction| transaction.refill_basis(serial))? else {
        return Ok(Outcome::Done(Severity::Info, String::new()));
    };
    // A request whose answer is lost spends the refill token, and after that the server's no means nothing. So none is
    // sent while nobody answers, and one that was sent is remembered, a crash in between included.
    if let Err(failure) = server.reachable() {
        return Ok(Outcome::Later(failure.to_string()));
    }
    let refill_token = RefillToken::new(basis.refill_token.to_string());
    let change = Change { serial, refill_token: &refill_token, state };
    if !change.set_unanswered(true)? {
        return Ok(Outcome::Done(Severity::Info, String::new()));
    }
    let refill = Refill { serial, refill_token: &refill_token, password };
    Ok(match server.refill(&refill) {
        Ok(Refilled::Batch(batch)) => {
            let values = batch.values.iter().map(|(counter, hash)| {
                Ok::<_, OfflineHashError>(OfflineValue { counter: *counter, hash: hash.parse()? })
            });
            match values.collect::<Result<Vec<_>, _>>() {
                Ok(values) => {
                    let added = change
                        .apply(|t| t.refill_offline(serial, batch.refill_token.expose(), &values, now))?;
                    let text = if added { format!("{} new values", values.len()) } else { String::new() };
                    Outcome::Done(Severity::Info, text)
                }
                Err(error) => {
                    change.apply(|transaction| transaction.forget_refill_token(serial))?;
                    Outcome::Done(Severity::Error, format!("new values not kept: {error}"))
                }
            }
        }
        Ok(Refilled::Dropped { reason }) if basis.unanswered => {
            change.apply(|transaction| transaction.forget_refill_token(serial))?;
            Outcome::Done(
                Severity::Warning,
                format!(
                    "no new values ({reason}), perhaps because the answer to an earlier request was lost: those left \
                     here stay good until they are used or too old"
                ),
            )
        }
        Ok(Refilled::Dropped { reason }) => {
            change.apply(|transaction| transaction.remove_offline(serial).map(drop))?;
            Outcome::Done(Severity::Warning, format!("removed, the server takes it back: {reason}"))
        }
        Err(failure) => {
            if matches!(failure, Failure::Unable(_) | Failure::Untrusted(_)) {
                change.set_unanswered(basis.unanswered)?;
            }
            Outcome::Later(failure.to_string())
        }
    })
}

/// Changes to a token, as long as its refill token is the one that was asked with: a login at the server may have brought
/// another batch meanwhile.
struct Change<'a> {
    serial: &'a str,
    refill_token: &'a RefillToken,
    state: &'a State,
}

impl Change<'_> {
    fn set_unanswered(&self, unanswered: bool) -> Result<bool, StoreError> {
        self.apply(|transaction| transaction.set_refill_unanswered(self.serial, unanswered))
    }

    /// False: it is another batch's.
    fn apply(
        &self,
        work: impl FnOnce(&crate::store::Transaction<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        self.state.change(|transaction| match transaction.refill_basis(self.serial)? {
            Some(basis) if *basis.refill_token == *self.refill_token.expose() => {
                work(transaction).map(|()| true)
            }
            _ => Ok(false),
        })
    }
}

#[cfg(test)]
mod tests;
