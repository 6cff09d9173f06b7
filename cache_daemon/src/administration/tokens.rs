//! The commands about tokens and logins.

use data_encoding::BASE32_NOPAD;
use privacyidea_contract::{Secret, names};
use zeroize::Zeroizing;

use super::{Algorithm, Answer, Command, Enrolment, TokenCounts, TokenKind, TokenRecord, offline};
use crate::directory::{Account, Accounts};
use crate::service::clock::{Clock, UnixSeconds};
use crate::settings::{Lockout, Settings};
use crate::store::{State, StoreError};
use crate::tokens::{
    CodeHash, Credential, Failures, Found, Lock, Otp, PinHash, RecoveryCode, Token, Windows, otpauth_uri,
};

/// Recovery codes of a set.
const RECOVERY_CODES: usize = 10;
/// The shortest PIN. Ten guesses at four digits are one in a thousand.
const PIN_CHARACTERS_MIN: usize = 4;
/// The longest time step, in seconds.
const PERIOD_MAX: u32 = 86_400;
/// The longest description, in bytes.
const DESCRIPTION_LENGTH_MAX: usize = 200;
/// How far a first value may lie ahead when it is to prove that the device is right (somebody pressed its button).
const FIRST_VALUES: Windows = Windows { hotp: 20, totp: 1, resync: 0 };

/// Carries out a command about tokens or the audit; the others are not for this function and are refused.
#[must_use]
pub fn execute(
    command: &Command,
    state: &State,
    settings: &Settings,
    accounts: &dyn Accounts,
    clock: &dyn Clock,
) -> Answer {
    let desk = Desk { state, settings, accounts, now: clock.now() };
    let done = match command {
        Command::TokenEnrol(enrolment) => desk.enrol(enrolment),
        Command::TokenConfirm { serial, code } => desk.confirm(serial, code),
        Command::TokenList { user } => desk.list(user.as_deref()),
        Command::TokenResync { serial, first, second } => desk.resync(serial, first, second),
        Command::TokenUnlock { serial_or_user } => desk.unlock(serial_or_user),
        Command::TokenSetPin { serial, pin } => desk.set_pin(serial, pin),
        Command::TokenRemove { serial } => desk.remove(serial),
        Command::Audit { after: Some(id), user, limit, .. } => desk.audit_after(*id, user.as_deref(), *limit),
        Command::Audit { after: None, user, since, limit } => desk.audit(user.as_deref(), *since, *limit),
        Command::CacheFlush { .. } | Command::CacheList | Command::Status => {
            Err(refuse("this is no command about tokens"))
        }
    };
    done.unwrap_or_else(|refused| Answer::Refused { reason: refused.0 })
}

/// Counts the tokens.
///
/// # Errors
/// [`StoreError`]
pub fn counts(state: &State, lockout: &Lockout, now: UnixSeconds) -> Result<TokenCounts, StoreError> {
    let mut counts = TokenCounts::default();
    for token in state.tokens(None)? {
        counts.total += 1;
        counts.locked += u64::from(token.active && token.lock(lockout, now) != Lock::Open);
        counts.inactive += u64::from(!token.active);
    }
    Ok(counts)
}

/// One sentence for the administrator.
struct Refused(String);

fn refuse(sentence: impl Into<String>) -> Refused {
    Refused(sentence.into())
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

type Done = Result<Answer, Refused>;

struct Desk<'a> {
    state: &'a State,
    settings: &'a Settings,
    accounts: &'a dyn Accounts,
    now: UnixSeconds,
}

impl Desk<'_> {
    fn enrol(&self, enrolment: &Enrolment) -> Done {
        self.check_user(enrolment)?;
        let pin = new_pin(&enrolment.pin)?;
        if enrolment.kind == TokenKind::SimplePass && pin.is_none() {
            return Err(refuse("a simple pass is its PIN: give it one"));
        }
        if enrolment.description.len() > DESCRIPTION_LENGTH_MAX
            || enrolment.description.chars().any(char::is_control)
        {
            return Err(refuse(format!(
                "a description has at most {DESCRIPTION_LENGTH_MAX} bytes and no line breaks"
            )));
        }
        let (credential, codes) = new_credential(enrolment)?;
        let proves_itself = matches!(enrolment.kind, TokenKind::SimplePass | TokenKind::RecoveryCodes);
        let mut token = Token {
            serial: String::new(),
            user: enrolment.user.clone(),
            description: enrolment.description.clone(),
            credential,
            pin,
            pin_position: enrolment.pin_position,
            active: enrolment.active || proves_itself,
            failcount: 0,
            last_failure: None,
            enrolled: self.now,
            last_used: None,
        };
        self.state.change(|transaction| {
            token.serial = transaction.next_serial(enrolment.kind)?;
            transaction.put(&token)
        })?;
        let otpauth = otpauth_uri(&host_name(), &token.user, &token.credential).map(|uri| uri.to_string());
        Ok(Answer::Enrolled { token: self.record(&token), otpauth, codes })
    }

    fn check_user(&self, enrolment: &Enrolment) -> Result<(), Refused> {
        let user = &enrolment.user;
        if !names::is_usable_name(user) && user != "root" {
            return Err(refuse("this is no user name that the host could use"));
        }
        match self.accounts.account(user) {
            Ok(Account::Unknown) if !enrolment.unknown_user => Err(refuse(format!(
                "there is no user {user} in /etc/passwd or in a resolver; if another NSS source of this host knows \
                 {user}, say so with --unknown-user"
            ))),
            Ok(_) => Ok(()),
            Err(_) if enrolment.unknown_user => Ok(()),
            Err(reason) => Err(refuse(format!("it cannot be told whether there is a user {user}: {reason}"))),
        }
    }

    fn confirm(&self, serial: &str, code: &str) -> Done {
        self.change(serial, |token| {
            if token.active {
                return Err(refuse(format!("token {serial} is active already")));
            }
            match token.credential.check(typed(code).as_bytes(), &FIRST_VALUES, self.now) {
                Found::Accepted => {
                    token.active = true;
                    Ok(())
                }
                Found::UsedBefore => Err(refuse("this code has been used: wait for the next one")),
                Found::FarAway | Found::Wrong => Err(refuse(
                    "this is not the code that the token should show now: check that the device's clock is right and \
                     that it has read the right QR code (a HOTP device far ahead: token resync)",
                )),
            }
        })
    }

    fn list(&self, user: Option<&str>) -> Done {
        Ok(Answer::Tokens {
            tokens: self.records(&self.state.tokens(user)?),
            offline: offline::records(self.state, user, self.settings, self.now)?,
        })
    }

    fn resync(&self, serial: &str, first: &str, second: &str) -> Done {
        let settings = &self.settings.tokens;
        let windows = Windows {
            hotp: settings.hotp_window,
            totp: settings.totp_window,
            resync: settings.resync_window,
        };
        self.change(serial, |token| {
            let (first, second) = (typed(first), typed(second));
            if token.credential.resynchronise(first.as_bytes(), second.as_bytes(), &windows, self.now) {
                Ok(())
            } else {
                Err(refuse(
                    "these are not two consecutive codes of this token within its resync window ([tokens] \
                     resync-window): let the device show two codes in a row, unused ones, and type them in that order",
                ))
            }
        })
    }

    fn unlock(&self, serial_or_user: &str) -> Done {
        let (tokens, offline, waited) = self.state.change(|transaction| {
            let (token, offline) =
                (transaction.token(serial_or_user)?, transaction.offline_token(serial_or_user)?);
            let (mut tokens, mut offline): (Vec<_>, Vec<_>) = match (token, offline) {
                (None, None) => {
                    (transaction.tokens_of(serial_or_user)?, transaction.offline_tokens_of(serial_or_user)?)
                }
                (token, offline) => (token.into_iter().collect(), offline.into_iter().collect()),
            };
            for token in &mut tokens {
                token.unlock();
                transaction.put(token)?;
            }
            for token in &mut offline {
                token.failures = Failures::default();
                transaction.put_offline(token)?;
            }
            let owners =
                tokens.iter().map(|token| &token.user).chain(offline.iter().map(|token| &token.user));
            let user = owners.map(String::as_str).next().unwrap_or(serial_or_user);
            let waited = transaction.forget_throttles(user)?;
            Ok((tokens, offline, waited))
        })?;
        // Who has no token here may have been slowed down all the same.
        if tokens.is_empty() && offline.is_empty() && !waited {
            return Err(refuse(format!(
                "there is no token {serial_or_user}, and no user of that name has one or is slowed down"
            )));
        }
        let offline = offline.iter().map(|token| offline::record(token, self.settings, self.now)).collect();
        Ok(Answer::Tokens { tokens: self.records(&tokens), offline })
    }

    fn set_pin(&self, serial: &str, pin: &str) -> Done {
        let pin = new_pin(pin)?;
        self.change(serial, |token| {
            if token.kind() == TokenKind::SimplePass && pin.is_none() {
                return Err(refuse("a simple pass is its PIN: remove the token instead"));
            }
            token.pin = pin;
            Ok(())
        })
    }

    fn remove(&self, serial: &str) -> Done {
        // Both, where a serial of the server's is one of ours too: a removed token lets nobody in.
        let removed = self.state.change(|transaction| {
            let is_removed = transaction.remove(serial)?;
            Ok(transaction.remove_offline(serial)? || is_removed)
        })?;
        match removed {
            true => Ok(Answer::Done),
            false => Err(no_token(serial)),
        }
    }

    fn audit_after(&self, id: u64, user: Option<&str>, limit: u32) -> Done {
        Ok(Answer::Audit { events: self.state.audited_after(id, user, limit)? })
    }

    fn audit(&self, user: Option<&str>, since: UnixSeconds, limit: u32) -> Done {
        Ok(Answer::Audit { events: self.state.audited(user, since, limit)? })
    }

    /// Changes a token, or leaves it as it was.
    fn change(&self, serial: &str, work: impl FnOnce(&mut Token) -> Result<(), Refused>) -> Done {
        let outcome = self.state.change(|transaction| {
            let Some(mut token) = transaction.token(serial)? else { return Ok(Err(no_token(serial))) };
            if let Err(refused) = work(&mut token) {
                return Ok(Err(refused));
            }
            transaction.put(&token)?;
            Ok(Ok(token))
        })?;
        Ok(Answer::Token { token: self.record(&outcome?) })
    }

    fn records(&self, tokens: &[Token]) -> Vec<TokenRecord> {
        tokens.iter().map(|token| self.record(token)).collect()
    }

    fn record(&self, token: &Token) -> TokenRecord {
        let (digits, algorithm, period) = match &token.credential {
            Credential::Hotp { otp, .. } => (otp.digits(), Some(otp.algorithm()), 0),
            Credential::Totp { otp, period, .. } => (otp.digits(), Some(otp.algorithm()), *period),
            Credential::SimplePass | Credential::RecoveryCodes { .. } => (0, None, 0),
        };
        let lock = token.lock(&self.settings.lockout, self.now);
        TokenRecord {
            serial: token.serial.clone(),
            user: token.user.clone(),
            kind: token.kind(),
            description: token.description.clone(),
            digits,
            algorithm,
            period,
            has_pin: token.pin.is_some(),
            pin_position: token.pin_position,
            active: token.active,
            failcount: token.failcount,
            locked: lock != Lock::Open,
            locked_until: match lock {
                Lock::Until(until) => Some(until),
                Lock::Open | Lock::UntilUnlocked => None,
            },
            codes_left: match &token.credential {
                Credential::RecoveryCodes { unused } => Some(u32::try_from(unused.len()).unwrap_or(u32::MAX)),
                _ => None,
            },
            enrolled: token.enrolled,
            last_used: token.last_used,
        }
    }
}

fn no_token(serial: &str) -> Refused {
    refuse(format!("there is no token {serial} (privacyidea-host token list)"))
}

/// People type `123 456`.
fn typed(code: &str) -> Zeroizing<String> {
    Zeroizing::new(code.chars().filter(|character| !character.is_whitespace()).collect())
}

fn new_pin(pin: &str) -> Result<Option<PinHash>, Refused> {
    if pin.is_empty() {
        return Ok(None);
    }
    if pin.chars().count() < PIN_CHARACTERS_MIN || pin.chars().any(char::is_control) {
        return Err(refuse(format!(
            "a PIN has at least {PIN_CHARACTERS_MIN} characters, none of them a control"
        )));
    }
    PinHash::new(pin.as_bytes(), &*random()?).map(Some).map_err(|error| refuse(error.to_string()))
}

/// The credential, and the recovery codes that are shown once.
fn new_credential(enrolment: &Enrolment) -> Result<(Credential, Vec<String>), Refused> {
    match enrolment.kind {
        TokenKind::Hotp => {
            Ok((Credential::Hotp { otp: new_otp(enrolment)?, next: 0, resync: None }, Vec::new()))
        }
        TokenKind::Totp => {
            let period = enrolment.period;
            if !(1..=PERIOD_MAX).contains(&period) {
                return Err(refuse(format!("a time step has 1 to {PERIOD_MAX} seconds, not {period}")));
            }
            let otp = new_otp(enrolment)?;
            Ok((Credential::Totp { otp, period, next: 0, drift: 0, resync: None }, Vec::new()))
        }
        TokenKind::SimplePass => Ok((Credential::SimplePass, Vec::new())),
        TokenKind::RecoveryCodes => {
            let codes: Vec<RecoveryCode> = (0..RECOVERY_CODES)
                .map(|_| Ok(RecoveryCode::from_random(&*random()?)))
                .collect::<Result<_, Refused>>()?;
            let unused: Vec<CodeHash> = codes.iter().map(RecoveryCode::hash).collect();
            Ok((Credential::RecoveryCodes { unused }, codes.iter().map(RecoveryCode::to_text).collect()))
        }
    }
}

fn new_otp(enrolment: &Enrolment) -> Result<Otp, Refused> {
    let seed = match &enrolment.seed {
        Some(text) => seed_of(text)?,
        // As long as the hash's output (RFC 6238 §5.1).
        None => match enrolment.algorithm {
            Algorithm::Sha1 => Secret::new(random::<20>()?.to_vec()),
            Algorithm::Sha256 => Secret::new(random::<32>()?.to_vec()),
            Algorithm::Sha512 => Secret::new(random::<64>()?.to_vec()),
        },
    };
    Otp::new(seed, enrolment.algorithm, enrolment.digits).map_err(|error| refuse(error.to_string()))
}

/// Base32 as apps print it: lower case, spaces, hyphens and padding do not matter.
fn seed_of(text: &str) -> Result<Secret, Refused> {
    let letters: Zeroizing<Vec<u8>> = Zeroizing::new(
        text.bytes()
            .filter(|byte| !byte.is_ascii_whitespace() && !b"-=".contains(byte))
            .map(|byte| byte.to_ascii_uppercase())
            .collect(),
    );
    let seed =
        BASE32_NOPAD.decode(&letters).map_err(|_| refuse("the seed is not base32 (A to Z, 2 to 7)"))?;
    Ok(Secret::new(seed))
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Refused> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice())
        .map_err(|error| refuse(format!("the system gives no random numbers: {error}")))?;
    Ok(bytes)
}

/// What the app shows as the issuer.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
