//! A token: its credential, its PIN, its failures.

use super::credential::Credential;
use super::failures::{Failures, Lock};
use super::pin::PinHash;
use super::recovery::RecoveryCode;
pub use crate::administration::PinPosition;
use crate::administration::TokenKind;
use crate::service::clock::UnixSeconds;
use crate::settings::Lockout;

/// A local token of a user.
#[derive(Clone)]
pub struct Token {
    /// `TOTP0001`; unique on this host.
    pub serial: String,
    /// Its user.
    pub user: String,
    /// For people.
    pub description: String,
    /// What is checked.
    pub credential: Credential,
    /// What is typed beside the code.
    pub pin: Option<PinHash>,
    /// On which side.
    pub pin_position: PinPosition,
    /// False until a first value has proven that it works.
    pub active: bool,
    /// Consecutive failures.
    pub failcount: u32,
    /// The last of them.
    pub last_failure: Option<UnixSeconds>,
    /// When it was made.
    pub enrolled: UnixSeconds,
    /// When it last let somebody in.
    pub last_used: Option<UnixSeconds>,
}

impl Token {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> TokenKind {
        match self.credential {
            Credential::Hotp { .. } => TokenKind::Hotp,
            Credential::Totp { .. } => TokenKind::Totp,
            Credential::SimplePass => TokenKind::SimplePass,
            Credential::RecoveryCodes { .. } => TokenKind::RecoveryCodes,
        }
    }

    /// Whether it is locked at `now`.
    #[must_use]
    pub fn lock(&self, lockout: &Lockout, now: UnixSeconds) -> Lock {
        self.failures().lock(lockout, now)
    }

    /// Whether its last failure lies after `now` ([`Failures::are_after`]).
    #[must_use]
    pub fn failed_after(&self, now: UnixSeconds) -> bool {
        self.failures().are_after(now)
    }

    /// Counts a failure; after a lock has passed the count starts anew.
    pub fn fail(&mut self, lockout: &Lockout, now: UnixSeconds) {
        let mut failures = self.failures();
        failures.count_one(lockout, now);
        (self.failcount, self.last_failure) = (failures.count, failures.last);
    }

    fn failures(&self) -> Failures {
        Failures { count: self.failcount, last: self.last_failure }
    }

    /// Ends a lock and forgets failures.
    pub fn unlock(&mut self) {
        self.failcount = 0;
        self.last_failure = None;
    }

    /// The ways to read what was typed as PIN and code, (PIN, code); none if it is too short. All but recovery codes
    /// have one way at most.
    #[must_use]
    pub fn split<'a>(&self, typed: &'a [u8]) -> Vec<(&'a [u8], &'a [u8])> {
        let lengths: &[usize] = match &self.credential {
            Credential::Hotp { otp, .. } | Credential::Totp { otp, .. } => &[otp.digits() as usize],
            Credential::SimplePass => &[0],
            Credential::RecoveryCodes { .. } => &RecoveryCode::TYPED_LENGTHS,
        };
        lengths
            .iter()
            .filter_map(|length| match self.pin_position {
                PinPosition::Before => typed.split_at_checked(typed.len().checked_sub(*length)?),
                PinPosition::After => typed.split_at_checked(*length).map(|(code, pin)| (pin, code)),
            })
            .collect()
    }

    /// Whether `typed` has the form of an answer to this token, PIN right or wrong.
    #[must_use]
    pub fn could_be_meant_by(&self, typed: &[u8]) -> bool {
        self.split(typed).into_iter().any(|(pin, code)| match &self.credential {
            Credential::Hotp { otp, .. } | Credential::Totp { otp, .. } => {
                otp.has_the_form(code) && pin.is_empty() == self.pin.is_none()
            }
            Credential::SimplePass => true,
            Credential::RecoveryCodes { .. } => RecoveryCode::parse(code).is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LockPeriod;
    use std::time::Duration;

    pub(crate) fn simple_pass() -> Token {
        Token {
            serial: "SPASS1".into(),
            user: "alice".into(),
            description: String::new(),
            credential: Credential::SimplePass,
            pin: None,
            pin_position: PinPosition::Before,
            active: true,
            failcount: 0,
            last_failure: None,
            enrolled: 0,
            last_used: None,
        }
    }

    #[test]
    fn ten_failures_lock_for_half_an_hour_from_the_last_one() {
        let (lockout, mut token) = (Lockout::default(), simple_pass());
        for failure in 0..9 {
            token.fail(&lockout, 1000 + failure);
        }
        assert_eq!(token.lock(&lockout, 1008), Lock::Open);
        token.fail(&lockout, 1010);
        assert_eq!(token.lock(&lockout, 1010), Lock::Until(1010 + 1800));
        assert_eq!(token.lock(&lockout, 1010 + 1799), Lock::Until(1010 + 1800));
        assert_eq!(token.lock(&lockout, 1010 + 1800), Lock::Open);
        token.fail(&lockout, 1010 + 1800);
        assert_eq!(token.failcount, 1, "the count starts anew");
    }

    #[test]
    fn a_failure_in_the_future_locks_for_one_period_from_now() {
        let (lockout, mut token) = (Lockout { after: 1, ..Lockout::default() }, simple_pass());
        token.fail(&lockout, 1_000_000);
        assert_eq!(token.lock(&lockout, 500), Lock::Until(500 + 1800));
        assert!(token.failed_after(500) && !token.failed_after(1_000_000));
    }

    #[test]
    fn until_unlocked_means_that() {
        let lockout = Lockout { after: 1, period: LockPeriod::UntilUnlocked, ..Lockout::default() };
        let mut token = simple_pass();
        token.fail(&lockout, 0);
        assert_eq!(token.lock(&lockout, u64::MAX), Lock::UntilUnlocked);
        token.unlock();
        assert_eq!(token.lock(&lockout, 0), Lock::Open);
        let never =
            Lockout { after: 0, period: LockPeriod::For(Duration::from_secs(1)), ..Lockout::default() };
        token.failcount = u32::MAX;
        assert_eq!(token.lock(&never, 0), Lock::Open);
    }

    #[test]
    fn the_code_is_cut_off_on_its_side() {
        let mut token = simple_pass();
        assert_eq!(token.split(b"pin"), [(&b"pin"[..], &b""[..])]);
        token.credential = Credential::RecoveryCodes { unused: Vec::new() };
        assert_eq!(token.split(b"short"), []);
        assert_eq!(
            token.split(b"pin0123456789abcdef"),
            [(&b""[..], &b"pin0123456789abcdef"[..]), (&b"pin"[..], &b"0123456789abcdef"[..])]
        );
        token.pin_position = PinPosition::After;
        assert_eq!(token.split(b"0123456789abcdefpin")[1], (&b"pin"[..], &b"0123456789abcdef"[..]));
    }
}
