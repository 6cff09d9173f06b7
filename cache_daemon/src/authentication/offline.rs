//! Offline values: checked after the local tokens and before the server, kept when the server hands them out.
//!
//! They come before the server even where it answers: it counts the codes that it has handed out as used, so the device is
//! behind it, and it would refuse them.
//!
//! Hashing takes tens of milliseconds and is done outside any transaction. Then one transaction that is durable before
//! anyone hears of it either uses the value up, if it is still there, or counts a failure.

use privacyidea_contract::Secret;

use super::local::{self, Finding, Refusal};
use super::{Host, Subject};
use crate::server::{Accepted, OfflineBatch};
use crate::service::clock::UnixSeconds;
use crate::store::{StoreError, Transaction};
use crate::tokens::{Budget, Failures, Lock, OfflineHashError, OfflineToken, OfflineValue};

/// Whoever asks the server for new values, later and elsewhere: no login waits for it.
pub trait Refills: Send + Sync {
    /// `password` is what was typed, and was right, for the token `serial`; the server makes the new values of it.
    fn want(&self, serial: &str, password: &Secret);
}

/// What the offline values say.
pub(super) enum Offline {
    /// There was nothing to compare the answer with.
    Nothing(Refusal),
    /// The value was right and is used up.
    Granted { serial: String, left: u32 },
    /// No token takes answers; none: until unlocked.
    Locked { until: Option<UnixSeconds> },
    /// Right, but another login has used the value up at this moment; counted.
    UsedBefore { serial: String, refusal: Refusal },
    /// None fits; counted. The server may still know better.
    Missed(Refusal),
}

/// What the server has made offline values of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A password as the server wants it, the PIN in it.
    Password,
    /// The answer to a challenge: the code without the PIN.
    CodeAlone,
}

/// Checks an answer that no local token has accepted.
pub(super) fn check(
    subject: &Subject<'_>,
    host: &Host<'_>,
    answer: &Secret,
    refusal: Refusal,
) -> Result<Offline, StoreError> {
    let settings = &host.settings.offline;
    // What is no code is no guess at one either: a PIN that is to trigger a challenge, the password of something else.
    if !OfflineToken::could_be_meant_by(answer.expose()) {
        return Ok(Offline::Nothing(refusal));
    }
    let Ok(realm) = realm(subject, host) else { return Ok(Offline::Nothing(refusal)) };
    let attempt = Attempt { subject, host, realm, refusal: &refusal, now: host.clock.now() };
    let mut tokens = host.state.offline_tokens(Some(subject.name), settings.window)?;
    tokens.retain(|token| attempt.may_use(token));
    if tokens.is_empty() {
        return Ok(Offline::Nothing(refusal));
    }
    if let Some(until) = attempt.lock_in_our_time(&tokens)? {
        return Ok(Offline::Locked { until });
    }
    let mut budget = Budget::default();
    let hit = tokens
        .iter()
        .filter(|token| attempt.is_open(token))
        .find_map(|token| Some((token.serial.as_str(), token.find(answer.expose(), &mut budget)?)));
    let offline = host.state.change(|transaction| attempt.decide(transaction, hit))?;
    Ok(match offline {
        Outcome::Granted { serial, left } => {
            if left < settings.refill_below {
                if let Some(refills) = host.refills {
                    refills.want(&serial, answer);
                }
            }
            Offline::Granted { serial, left }
        }
        Outcome::Locked { until } => Offline::Locked { until },
        Outcome::UsedBefore { serial, counted } => {
            Offline::UsedBefore { serial, refusal: refusal.with_offline(counted) }
        }
        Outcome::Missed { counted } => Offline::Missed(refusal.with_offline(counted)),
    })
}

/// If the user has no local token, and every offline token is locked: until when the first of them is (none: until
/// unlocked).
pub(super) fn lock(
    subject: &Subject<'_>,
    host: &Host<'_>,
) -> Result<Option<Option<UnixSeconds>>, StoreError> {
    let Ok(realm) = realm(subject, host) else { return Ok(None) };
    let refusal = Refusal::of_nobody();
    let attempt = Attempt { subject, host, realm, refusal: &refusal, now: host.clock.now() };
    let mut tokens = host.state.offline_tokens(Some(subject.name), 0)?;
    tokens.retain(|token| attempt.may_use(token));
    attempt.lock_in_our_time(&tokens)
}

/// Keeps what the server has handed out with a yes, or says why not: the end of the log's line. A token for which
/// nothing comes any more has nothing offline either: its codes have moved on.
pub(super) fn keep(
    subject: &Subject<'_>,
    host: &Host<'_>,
    accepted: &Accepted,
    typed: Typed,
) -> Option<String> {
    let batches = accepted.offline.iter().map(|batch| {
        let kept = read(batch, subject, host, accepted, typed)
            .and_then(|token| store(host, token, batch).map_err(|error| error.to_string()));
        match kept {
            Ok(count) => (true, format!("{count} offline values kept")),
            Err(reason) => (false, format!("offline values not kept: {reason}")),
        }
    });
    let (kept, mut notes): (Vec<bool>, Vec<String>) = batches.unzip();
    // Another server's serials are other tokens.
    let concerns_ours = host.line_server.is_none() && !kept.contains(&true);
    if let Some(serial) = accepted.serial.as_deref().filter(|_| concerns_ours) {
        // Whosever it was here: the server has just said whose it is.
        match host.state.change(|transaction| transaction.remove_offline(serial)) {
            Ok(false) => {}
            Ok(true) => notes.push("its former offline values are removed".to_owned()),
            Err(error) => notes.push(format!("its former offline values stay: {error}")),
        }
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// What a person is told who has been let in by one of the last values.
pub(super) fn reminder(left: u32, warn_below: u32) -> Option<String> {
    match left {
        _ if left >= warn_below => None,
        0 => Some(
            "No offline logins left on this computer. Connect to the network or use a recovery code."
                .to_owned(),
        ),
        1 => Some("1 offline login left; connect to the company network to get more.".to_owned()),
        _ => Some(format!("{left} offline logins left; connect to the company network to get more.")),
    }
}

/// The realm in which this login's user has offline values (empty: the server's default), or why there are none.
fn realm<'a>(subject: &'a Subject<'_>, host: &'a Host<'_>) -> Result<&'a str, &'static str> {
    if !host.settings.offline.enabled {
        return Err(
            "[offline] enabled is false on this host; the server will refuse the token's next codes \
                    everywhere until its counter is reached",
        );
    }
    if host.line_server.is_some() {
        return Err("only the PAM line names their server");
    }
    if !subject.may_be_asked_of_the_server(host) {
        return Err("the server is not asked about this user");
    }
    let of_the_settings = host.settings.server.as_ref().and_then(|server| server.realm.as_deref());
    Ok(subject.asked.realm.or(of_the_settings).unwrap_or_default())
}

/// The batch as a token, or why it is not taken.
fn read(
    batch: &OfflineBatch,
    subject: &Subject<'_>,
    host: &Host<'_>,
    accepted: &Accepted,
    typed: Typed,
) -> Result<OfflineToken, String> {
    let realm = realm(subject, host)?.to_owned();
    if accepted.serial.as_deref() != Some(&batch.serial) {
        return Err(format!("they are of token {}", batch.serial));
    }
    if batch.user.as_deref() != Some(subject.asked.user) {
        return Err("they are of another user".to_owned());
    }
    let code_alone = typed == Typed::CodeAlone;
    if code_alone && !subject.has_first_factor {
        return Err(
            "they came with the answer to a challenge and cover the code without its PIN ([offline] \
                    second-factor-services)"
                .to_owned(),
        );
    }
    let values = batch.values.iter().map(|(counter, hash)| {
        Ok::<_, OfflineHashError>(OfflineValue { counter: *counter, hash: hash.parse()? })
    });
    let values: Vec<_> = values.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    Ok(OfflineToken {
        serial: batch.serial.clone(),
        user: subject.name.to_owned(),
        realm,
        code_alone,
        next: values.first().map_or(0, |value| value.counter),
        fetched: host.clock.now(),
        failures: Failures::default(),
        last_used: None,
        left: u32::try_from(values.len()).unwrap_or(u32::MAX),
        values,
    })
}

fn store(host: &Host<'_>, token: OfflineToken, batch: &OfflineBatch) -> Result<u32, StoreError> {
    let left = token.left;
    host.state.change(|transaction| {
        let last_used = transaction.offline_token(&token.serial)?.and_then(|before| before.last_used);
        transaction.replace_offline(&OfflineToken { last_used, ..token }, batch.refill_token.expose())
    })?;
    Ok(left)
}

struct Attempt<'a> {
    subject: &'a Subject<'a>,
    host: &'a Host<'a>,
    realm: &'a str,
    refusal: &'a Refusal,
    now: UnixSeconds,
}

/// [`Offline`], as the transaction ends.
enum Outcome {
    Granted { serial: String, left: u32 },
    Locked { until: Option<UnixSeconds> },
    UsedBefore { serial: String, counted: Vec<(String, u32)> },
    Missed { counted: Vec<(String, u32)> },
}

impl Attempt<'_> {
    fn decide(
        &self,
        transaction: &Transaction<'_>,
        hit: Option<(&str, &OfflineValue)>,
    ) -> Result<Outcome, StoreError> {
        let mut tokens = self.tokens_in_our_time(transaction)?;
        if let Some(until) = self.lock(&tokens) {
            return Ok(Outcome::Locked { until });
        }
        let hit = hit
            .filter(|(serial, _)| tokens.iter().any(|token| token.serial == *serial && self.is_open(token)));
        let Some((serial, value)) = hit else {
            return Ok(Outcome::Missed { counted: self.fail(transaction, &mut tokens)? });
        };
        let serial = serial.to_owned();
        // Written first and then undone, as for local tokens: where there is no room for a failure there is none for a
        // success either.
        let counted = self.fail(transaction, &mut tokens.clone())?;
        if !transaction.use_offline_value(&serial, value)? {
            return Ok(Outcome::UsedBefore { serial, counted });
        }
        let resets_all = self.host.settings.lockout.reset_all_user_tokens;
        for token in &mut tokens {
            let is_the_one = token.serial == serial;
            if is_the_one {
                token.last_used = Some(self.now);
            }
            if is_the_one || resets_all {
                token.failures = Failures::default();
            }
            transaction.put_offline(token)?;
        }
        local::forget_in(transaction, self.subject, self.refusal)?;
        for token in transaction.tokens_of(self.subject.name)?.iter_mut().filter(|_| resets_all) {
            token.unlock();
            transaction.put(token)?;
        }
        let left = transaction.offline_token(&serial)?.map_or(0, |token| token.left);
        Ok(Outcome::Granted { serial, left })
    }

    fn lock_in_our_time(&self, tokens: &[OfflineToken]) -> Result<Option<Option<UnixSeconds>>, StoreError> {
        if !tokens.iter().any(|token| token.failures.are_after(self.now)) {
            return Ok(self.lock(tokens));
        }
        self.host.state.change(|transaction| Ok(self.lock(&self.tokens_in_our_time(transaction)?)))
    }

    /// Failures that lie in the future (the clock was set back since) are moved to now, for good.
    fn tokens_in_our_time(&self, transaction: &Transaction<'_>) -> Result<Vec<OfflineToken>, StoreError> {
        let mut tokens = transaction.offline_tokens_of(self.subject.name)?;
        tokens.retain(|token| self.may_use(token));
        for token in tokens.iter_mut().filter(|token| token.failures.are_after(self.now)) {
            token.failures.last = Some(self.now);
            transaction.put_offline(token)?;
        }
        Ok(tokens)
    }

    fn may_use(&self, token: &OfflineToken) -> bool {
        token.left > 0
            && token.realm == self.realm
            && !token.is_too_old(self.host.settings.offline.maximum_age, self.now)
            && (!token.code_alone || self.subject.has_first_factor)
    }

    fn is_open(&self, token: &OfflineToken) -> bool {
        self.subject.on_the_console || self.lock_of(token) == Lock::Open
    }

    fn lock_of(&self, token: &OfflineToken) -> Lock {
        token.failures.lock(&self.host.settings.lockout, self.now)
    }

    /// Until when the user is locked: by offline tokens only if they are all that there is.
    fn lock(&self, tokens: &[OfflineToken]) -> Option<Option<UnixSeconds>> {
        if self.subject.on_the_console || self.refusal.found != Finding::NoToken {
            return None;
        }
        local::lock_of_all(tokens.iter().map(|token| self.lock_of(token)))
    }

    /// Counts a failure on all open tokens. A lock is not made longer by answers at the console.
    fn fail(
        &self,
        transaction: &Transaction<'_>,
        tokens: &mut [OfflineToken],
    ) -> Result<Vec<(String, u32)>, StoreError> {
        let mut counted = Vec::new();
        for token in tokens.iter_mut().filter(|token| self.lock_of(token) == Lock::Open) {
            token.failures.count_one(&self.host.settings.lockout, self.now);
            transaction.put_offline(token)?;
            counted.push((token.serial.clone(), token.failures.count));
        }
        Ok(counted)
    }
}

/// Whether a value that was compared before is refused now.
#[cfg(test)]
pub(super) fn decide_for_test(subject: &Subject<'_>, host: &Host<'_>, hit: (&str, &OfflineValue)) -> bool {
    let refusal = Refusal::of_nobody();
    let attempt = Attempt { subject, host, realm: "", refusal: &refusal, now: host.clock.now() };
    let outcome =
        host.state.change(|transaction| attempt.decide(transaction, Some(hit))).expect("a database");
    matches!(outcome, Outcome::UsedBefore { .. })
}
