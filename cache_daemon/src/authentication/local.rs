//! The local tokens: which of them an answer is right for, and what it costs.
//!
//! PINs are compared first, outside any transaction, because that takes tens of milliseconds. Everything else happens
//! in one transaction that is durable before anyone hears of it: a code is consumed, a failure is counted.

use privacyidea_contract::Secret;

use super::{Host, Origin, Subject, throttle};
use crate::service::clock::UnixSeconds;
use crate::settings::Lockout;
use crate::store::{StoreError, Throttle, Transaction};
use crate::tokens::{Failures, Found, Lock, Token, Windows};

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
    /// The same for the server's tokens with offline values.
    pub(super) offline: Vec<(String, u32)>,
    /// What the throttle remembers because of it; none: it was not counted there.
    throttled: Option<Throttle>,
    /// The most telling thing that was found.
    pub(super) found: Finding,
}

impl Refusal {
    /// Before anything is counted, of a user without a token.
    pub(super) fn of_nobody() -> Self {
        Self { counted: Vec::new(), offline: Vec::new(), throttled: None, found: Finding::NoToken }
    }

    /// With the failures of offline tokens.
    pub(super) fn with_offline(self, counted: Vec<(String, u32)>) -> Self {
        Self { offline: counted, ..self }
    }
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

/// Checks an answer; says too whether that took a PIN hash.
pub(super) fn check(
    subject: &Subject<'_>,
    host: &Host<'_>,
    answer: &Secret,
    origin: Origin,
) -> Result<(Local, bool), StoreError> {
    let mut tokens = host.state.tokens(Some(subject.name))?;
    tokens.retain(|token| subject.may_use(token));
    let (readings, hashes) = read(&tokens, answer.expose());
    let attempt = |transaction: &Transaction<'_>| {
        Attempt { subject, host, readings: &readings, answer, origin, now: host.clock.now(), transaction }
            .decide()
    };
    // Without a token nothing is granted here, and only the throttle remembers: whoever can pull the plug waits longer.
    let local = if tokens.is_empty() {
        host.state.change_without_waiting(attempt)
    } else {
        host.state.change(attempt)
    }?;
    Ok((local, hashes > 0))
}

/// The server accepted what the tokens refused: there was no failure.
pub(super) fn forget(subject: &Subject<'_>, host: &Host<'_>, refusal: &Refusal) -> Result<(), StoreError> {
    host.state.change_without_waiting(|transaction| {
        for (serial, _) in &refusal.offline {
            if let Some(mut token) = transaction.offline_token(serial)? {
                token.failures.count = token.failures.count.saturating_sub(1);
                transaction.put_offline(&token)?;
            }
        }
        forget_in(transaction, subject, refusal)
    })
}

/// A wrong answer at the server beyond the first, which [`check`] has counted.
pub(super) fn count(subject: &Subject<'_>, host: &Host<'_>) -> Result<(), StoreError> {
    host.state.change_without_waiting(|transaction| {
        let before = transaction.throttle(subject.name, subject.rhost)?;
        let after = throttle::after_failure(before, &host.settings.lockout, host.clock.now());
        transaction.set_throttle(subject.name, subject.rhost, Some(after))
    })
}

/// The same where somebody else has a transaction under way, and knows better about offline tokens.
pub(super) fn forget_in(
    transaction: &Transaction<'_>,
    subject: &Subject<'_>,
    refusal: &Refusal,
) -> Result<(), StoreError> {
    for (serial, _) in &refusal.counted {
        if let Some(mut token) = transaction.token(serial)? {
            token.failcount = token.failcount.saturating_sub(1);
            transaction.put(&token)?;
        }
    }
    transaction.set_throttle(subject.name, subject.rhost, None)
}

/// Nobody has looked at the answer: an outage slows nobody down. But where local tokens or offline values have looked at
/// it, it was a guess at them.
pub(super) fn excuse(subject: &Subject<'_>, host: &Host<'_>, refusal: &Refusal) -> Result<(), StoreError> {
    let nobody = refusal.counted.is_empty() && refusal.offline.is_empty();
    let Some(counted) = refusal.throttled.filter(|_| nobody) else { return Ok(()) };
    host.state.change_without_waiting(|transaction| {
        let before = transaction.throttle(subject.name, subject.rhost)?;
        let after = throttle::without_failure(before, counted);
        transaction.set_throttle(subject.name, subject.rhost, after)
    })
}

/// If every one of the user's active tokens is locked: until when the first of them is (none: until unlocked).
pub(super) fn lock(
    subject: &Subject<'_>,
    host: &Host<'_>,
    tokens: &[Token],
) -> Result<Option<Option<UnixSeconds>>, StoreError> {
    let now = host.clock.now();
    let lockout = &host.settings.lockout;
    if !tokens.iter().any(|token| token.failed_after(now)) {
        return Ok(lock_of_active(tokens, lockout, now));
    }
    host.state.change(|transaction| {
        Ok(lock_of_active(&tokens_in_our_time(transaction, subject, now)?, lockout, now))
    })
}

/// The user's active tokens. Failures that lie in the future (the clock was set back since) are moved to now, for good:
/// else their locks would not end before the clock is there again.
fn tokens_in_our_time(
    transaction: &Transaction<'_>,
    subject: &Subject<'_>,
    now: UnixSeconds,
) -> Result<Vec<Token>, StoreError> {
    let mut tokens = transaction.tokens_of(subject.name)?;
    tokens.retain(|token| subject.may_use(token));
    for token in tokens.iter_mut().filter(|token| token.failed_after(now)) {
        token.last_failure = Some(now);
        transaction.put(token)?;
    }
    Ok(tokens)
}

fn lock_of_active(tokens: &[Token], lockout: &Lockout, now: UnixSeconds) -> Option<Option<UnixSeconds>> {
    lock_of_all(tokens.iter().filter(|token| token.active).map(|token| token.lock(lockout, now)))
}

/// If every active token is locked: until when the first of them is (none: until unlocked). A user without an active
/// token is not locked.
pub(super) fn lock_of_all(locks: impl Iterator<Item = Lock>) -> Option<Option<UnixSeconds>> {
    let mut locked = None;
    for lock in locks {
        let until = match lock {
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
    for token in tokens {
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
        let throttle = self.throttle()?;
        let mut tokens = tokens_in_our_time(self.transaction, self.subject, self.now)?;
        if !self.subject.on_the_console {
            let wait =
                throttle::wait(throttle, lockout, self.now).filter(|_| self.origin != Origin::SecondPrompt);
            if let Some(until) = wait {
                return Ok(Local::Throttled { until });
            }
            if let Some(until) = lock_of_active(&tokens, lockout, self.now) {
                return Ok(Local::Locked { until });
            }
        }
        let mut finding = if tokens.is_empty() { Finding::NoToken } else { Finding::Wrong };
        let mut accepted = None;
        for token in tokens.iter_mut().filter(|token| self.subject.on_the_console || self.is_open(token)) {
            match self.found(token) {
                Some(Found::Accepted) => {
                    accepted = Some(token.serial.clone());
                    break;
                }
                Some(Found::UsedBefore) => finding = Finding::UsedBefore { serial: token.serial.clone() },
                Some(Found::FarAway) => finding = Finding::FarAway { serial: token.serial.clone() },
                Some(Found::Wrong) | None => {}
            }
        }
        match accepted {
            Some(serial) => {
                // The failure that this was not is written first and then undone: where the disk has no room for a
                // failure there is none for a success either, so no guess is free.
                self.fail(&mut tokens.clone(), throttle, Finding::Wrong)?;
                self.succeed(&mut tokens, &serial)?;
                Ok(Local::Granted { serial })
            }
            None => self.fail(&mut tokens, throttle, finding).map(Local::Refused),
        }
    }

    /// What the throttle remembers; a failure that lies in the future is moved to now, for good (see
    /// [`tokens_in_our_time`]).
    fn throttle(&self) -> Result<Option<Throttle>, StoreError> {
        let (name, source) = (self.subject.name, self.subject.rhost);
        let remembered = self.transaction.throttle(name, source)?;
        let ours = throttle::in_our_time(remembered, self.now);
        if ours != remembered {
            self.transaction.set_throttle(name, source, ours)?;
        }
        Ok(ours)
    }

    fn is_open(&self, token: &Token) -> bool {
        token.lock(&self.host.settings.lockout, self.now) == Lock::Open
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

    /// Whether the answer is held against the tokens. Everything that was typed for us is. A password that an earlier
    /// module asked for is only if it could be an answer to one of them; else each login with a system password would
    /// cost a failure.
    fn counts_for(&self, tokens: &[Token]) -> bool {
        self.origin != Origin::EarlierModule
            || tokens.iter().any(|token| token.could_be_meant_by(self.answer.expose()))
    }

    /// Writes all tokens, because a failure has been counted on some.
    fn succeed(&self, tokens: &mut [Token], serial: &str) -> Result<(), StoreError> {
        for token in tokens {
            let is_the_one = token.serial == serial;
            if is_the_one {
                token.last_used = Some(self.now);
            }
            if is_the_one || self.host.settings.lockout.reset_all_user_tokens {
                token.unlock();
            }
            self.transaction.put(token)?;
        }
        if self.host.settings.lockout.reset_all_user_tokens {
            for mut token in self.transaction.offline_tokens_of(self.subject.name)? {
                token.failures = Failures::default();
                self.transaction.put_offline(&token)?;
            }
        }
        self.transaction.set_throttle(self.subject.name, self.subject.rhost, None)
    }

    /// Counts a failure: on the open tokens whose PIN was right, or on all open ones if none was (privacyIDEA does the
    /// same), and in the throttle. A lock is not made longer by answers at the console.
    fn fail(
        &self,
        tokens: &mut [Token],
        throttle: Option<Throttle>,
        found: Finding,
    ) -> Result<Refusal, StoreError> {
        let lockout = &self.host.settings.lockout;
        let mut refusal = Refusal { found, ..Refusal::of_nobody() };
        let counts = self.counts_for(tokens);
        if counts {
            let by_pin =
                tokens.iter().any(|token| token.pin.is_some() && self.readings_of(token).next().is_some());
            for token in tokens.iter_mut().filter(|token| self.is_open(token)) {
                if !by_pin || self.readings_of(token).next().is_some() {
                    token.fail(lockout, self.now);
                    self.transaction.put(token)?;
                    refusal.counted.push((token.serial.clone(), token.failcount));
                }
            }
        }
        if counts || self.subject.may_be_asked_of_the_server(self.host) {
            let after = throttle::after_failure(throttle, lockout, self.now);
            self.transaction.set_throttle(self.subject.name, self.subject.rhost, Some(after))?;
            refusal.throttled = Some(after);
        }
        Ok(refusal)
    }
}
