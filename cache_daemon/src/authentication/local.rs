//! The local tokens: which of them an answer is right for, and what it costs.
//!
//! PINs are compared first, outside any transaction, because that takes tens of milliseconds. Everything else happens
//! in one transaction that is durable before anyone hears of it: a code is consumed, a failure is counted.

use privacyidea_contract::Secret;

use super::{Host, Origin, Subject, throttle};
use crate::service::clock::UnixSeconds;
use crate::settings::Lockout;
use crate::store::{StoreError, Transaction};
use crate::tokens::{Found, Lock, Token, Windows, spend_the_time_of_a_check};

/// What the tokens say.
pub(super) enum Local {
    /// The answer was right and is used up.
    Granted { serial: String },
    /// Not looked at before this time.
    Throttled { until: UnixSeconds },
    /// No token takes answers; none: until unlocked.
    Locked { until: Option<UnixSeconds> },
    /// Counted; a server may still know better.
    Refused(Refusal),
}

/// A failure, as it was counted.
pub(super) struct Refusal {
    /// The tokens whose failcount went up, and how far.
    pub(super) counted: Vec<(String, u32)>,
    /// The most telling thing that was found.
    pub(super) found: Finding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    NoToken,
    Wrong,
    UsedBefore { serial: String },
    FarAway { serial: String },
}

/// A way to read an answer: this token, this PIN hash (as it was when it was compared), this code.
struct Reading<'a> {
    serial: String,
    pin: Option<String>,
    code: &'a [u8],
}

pub(super) fn check(
    subject: &Subject<'_>,
    host: &Host<'_>,
    answer: &Secret,
    origin: Origin,
) -> Result<Local, StoreError> {
    let tokens = host.state.tokens(Some(subject.name))?;
    let (readings, hashes) = read(&tokens, answer.expose());
    let local = host.state.change(|transaction| {
        Attempt { subject, host, readings: &readings, answer, origin, now: host.clock.now(), transaction }
            .decide()
    });
    if hashes == 0 && !matches!(local, Ok(Local::Granted { .. })) {
        spend_the_time_of_a_check();
    }
    local
}

/// The server accepted what the tokens refused, or nobody has looked at the answer: the failure was none.
pub(super) fn forgive(
    subject: &Subject<'_>,
    host: &Host<'_>,
    refusal: &Refusal,
    accepted: bool,
) -> Result<(), StoreError> {
    host.state.change(|transaction| {
        if accepted {
            for (serial, _) in &refusal.counted {
                if let Some(mut token) = transaction.token(serial)? {
                    token.failcount = token.failcount.saturating_sub(1);
                    transaction.put(&token)?;
                }
            }
            return transaction.set_throttle(subject.name, subject.source, None);
        }
        let before = transaction.throttle(subject.name, subject.source)?;
        let after = throttle::without_failure(before, host.clock.now());
        transaction.set_throttle(subject.name, subject.source, after)
    })
}

/// If every active token is locked: until when the first of them is (none: until unlocked). A user without an active
/// token is not locked.
pub(super) fn lock_of_all<'a>(
    tokens: impl Iterator<Item = &'a Token>,
    lockout: &Lockout,
    now: UnixSeconds,
) -> Option<Option<UnixSeconds>> {
    let mut locked = None;
    for token in tokens.filter(|token| token.active) {
        let until = match token.lock(lockout, now) {
            Lock::Open => return None,
            Lock::Until(until) => Some(until),
            Lock::UntilUnlocked => None,
        };
        let earliest = match locked.flatten() {
            Some(earlier) => Some(until.map_or(earlier, |until: UnixSeconds| until.min(earlier))),
            None => until,
        };
        locked = Some(earliest);
    }
    locked
}

/// The readings of `answer` whose PIN is right, and how many PIN hashes that took.
fn read<'a>(tokens: &[Token], answer: &'a [u8]) -> (Vec<Reading<'a>>, usize) {
    let mut hashes = 0;
    let mut readings = Vec::new();
    for token in tokens.iter().filter(|token| token.active) {
        for (pin, code) in token.split(answer) {
            let right = match &token.pin {
                Some(hash) => {
                    hashes += 1;
                    hash.matches(pin)
                }
                // A simple pass without a PIN would accept everybody; it cannot be enrolled, and here it is no token.
                None => pin.is_empty() && !code.is_empty(),
            };
            if right {
                let pin = token.pin.as_ref().map(|hash| hash.as_str().to_owned());
                readings.push(Reading { serial: token.serial.clone(), pin, code });
            }
        }
    }
    (readings, hashes)
}

struct Attempt<'a> {
    subject: &'a Subject<'a>,
    host: &'a Host<'a>,
    readings: &'a [Reading<'a>],
    answer: &'a Secret,
    origin: Origin,
    now: UnixSeconds,
    transaction: &'a Transaction<'a>,
}

impl Attempt<'_> {
    fn decide(&self) -> Result<Local, StoreError> {
        let lockout = &self.host.settings.lockout;
        let throttle = self.transaction.throttle(self.subject.name, self.subject.source)?;
        let mut tokens = self.transaction.tokens_of(self.subject.name)?;
        tokens.retain(|token| token.active);
        if !self.subject.on_the_console {
            if let Some(until) = throttle::wait(throttle, lockout, self.now) {
                return Ok(Local::Throttled { until });
            }
            if let Some(until) = lock_of_all(tokens.iter(), lockout, self.now) {
                return Ok(Local::Locked { until });
            }
            tokens.retain(|token| token.lock(lockout, self.now) == Lock::Open);
        }
        let mut finding = if tokens.is_empty() { Finding::NoToken } else { Finding::Wrong };
        for token in &mut tokens {
            match self.found(token) {
                Some(Found::Accepted) => {
                    let serial = token.serial.clone();
                    self.succeed(&mut tokens, &serial)?;
                    return Ok(Local::Granted { serial });
                }
                Some(Found::UsedBefore) => finding = Finding::UsedBefore { serial: token.serial.clone() },
                Some(Found::FarAway) => finding = Finding::FarAway { serial: token.serial.clone() },
                Some(Found::Wrong) | None => {}
            }
        }
        let counted = if self.counts(&tokens) { self.fail(&mut tokens)? } else { Vec::new() };
        Ok(Local::Refused(Refusal { counted, found: finding }))
    }

    /// What became of the answer with this token; none: its PIN was wrong.
    fn found(&self, token: &mut Token) -> Option<Found> {
        let settings = &self.host.settings.tokens;
        let resync = if settings.auto_resync { settings.resync_window } else { 0 };
        let windows = Windows { hotp: settings.hotp_window, totp: settings.totp_window, resync };
        let mut best = None;
        for reading in self.readings_of(token) {
            match token.credential.check(reading.code, &windows, self.now) {
                Found::Wrong => best = best.or(Some(Found::Wrong)),
                found => return Some(found),
            }
        }
        best
    }

    fn readings_of<'a>(&'a self, token: &Token) -> impl Iterator<Item = &'a Reading<'a>> + use<'a> {
        // A PIN that was changed since it was compared was not compared.
        let pin = token.pin.as_ref().map(|hash| hash.as_str().to_owned());
        let serial = token.serial.clone();
        self.readings.iter().filter(move |reading| reading.serial == serial && reading.pin == pin)
    }

    /// Everything that was typed for us counts. A password that an earlier module asked for counts only if it could be
    /// an answer to one of the tokens; else each login with a system password would cost a failure.
    fn counts(&self, tokens: &[Token]) -> bool {
        self.origin == Origin::Prompt
            || tokens.iter().any(|token| token.could_be_meant_by(self.answer.expose()))
    }

    fn succeed(&self, tokens: &mut [Token], serial: &str) -> Result<(), StoreError> {
        for token in tokens {
            let is_the_one = token.serial == serial;
            if is_the_one {
                token.last_used = Some(self.now);
            }
            if is_the_one || self.host.settings.lockout.reset_all_user_tokens {
                token.unlock();
                self.transaction.put(token)?;
            }
        }
        self.transaction.set_throttle(self.subject.name, self.subject.source, None)
    }

    /// Counts a failure on the tokens whose PIN was right, or on all if none was (privacyIDEA does the same).
    fn fail(&self, tokens: &mut [Token]) -> Result<Vec<(String, u32)>, StoreError> {
        let lockout = &self.host.settings.lockout;
        let by_pin =
            tokens.iter().any(|token| token.pin.is_some() && self.readings_of(token).next().is_some());
        let mut counted = Vec::new();
        for token in tokens {
            if !by_pin || self.readings_of(token).next().is_some() {
                token.fail(lockout, self.now);
                self.transaction.put(token)?;
                counted.push((token.serial.clone(), token.failcount));
            }
        }
        let (name, source) = (self.subject.name, self.subject.source);
        let before = self.transaction.throttle(name, source)?;
        let after = throttle::after_failure(before, lockout, self.now);
        self.transaction.set_throttle(name, source, Some(after))?;
        Ok(counted)
    }
}
