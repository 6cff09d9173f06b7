//! What a token checks a code against, and how it moves forward when the code was right.

use super::otp::Otp;
use super::recovery::{CodeHash, RecoveryCode};
use crate::service::clock::UnixSeconds;

/// A device's clock may be so late, in seconds, that two values resynchronise it without an administrator. An old value
/// looks like the value of a late clock, but it may also be one that somebody has watched: those must not stay good for
/// the hours that the window spans.
const BEHIND_MAX: u64 = 600;

/// What a token knows. Everything in it only moves forward: a counter or step that was used, or passed over, is never
/// accepted again.
#[derive(Clone)]
pub enum Credential {
    /// RFC 4226.
    Hotp {
        /// Seed, hash, digits.
        otp: Otp,
        /// The lowest counter that is still good.
        next: u64,
        /// A value far ahead was seen.
        resync: Option<Resync>,
    },
    /// RFC 6238.
    Totp {
        /// Seed, hash, digits.
        otp: Otp,
        /// Seconds of a time step.
        period: u32,
        /// The lowest time step that is still good.
        next: u64,
        /// Steps by which the device's clock is ahead of ours.
        drift: i64,
        /// A value far away was seen.
        resync: Option<Resync>,
    },
    /// The PIN is all there is.
    SimplePass,
    /// Codes that are each good for one login.
    RecoveryCodes {
        /// Those not used yet.
        unused: Vec<CodeHash>,
    },
}

/// A value outside the window was right; the value after it will prove that it was no accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resync {
    /// Its counter or time step.
    pub counter: u64,
    /// Its distance from our clock in steps; TOTP only, else 0.
    pub drift: i64,
}

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// HOTP counters from the next one on.
    pub hotp: u32,
    /// TOTP steps to either side.
    pub totp: u32,
    /// Both, when two consecutive values are asked for; 0: never.
    pub resync: u32,
}

/// What became of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Right; the credential has moved past it and must be stored before anyone hears of it.
    Accepted,
    /// Right, but outside the window; the credential remembers it until the next code and must be stored.
    FarAway,
    /// A value that was used before, or passed over.
    UsedBefore,
    /// Wrong.
    Wrong,
}

impl Credential {
    /// Checks `code` (the PIN taken off) and moves forward.
    pub fn check(&mut self, code: &[u8], windows: &Windows, now: UnixSeconds) -> Found {
        match self {
            Self::Hotp { otp, next, resync } => check_hotp(otp, next, resync, code, windows),
            Self::Totp { otp, period, next, drift, resync } => {
                let step = now / u64::from(*period);
                let behind = BEHIND_MAX.div_ceil((*period).into());
                check_totp(otp, &mut Steps { now: step, behind, next, drift, resync }, code, windows)
            }
            Self::SimplePass => {
                if code.is_empty() {
                    Found::Accepted
                } else {
                    Found::Wrong
                }
            }
            Self::RecoveryCodes { unused } => {
                let Some(typed) = RecoveryCode::parse(code) else { return Found::Wrong };
                match unused.iter().position(|hash| typed.has_hash(hash)) {
                    Some(position) => {
                        unused.remove(position);
                        Found::Accepted
                    }
                    None => Found::Wrong,
                }
            }
        }
    }

    /// Resynchronises by two values, the one right after the other, and moves past both. False: they are not
    /// consecutive values within the window, and nothing has changed.
    pub fn resynchronise(
        &mut self,
        first: &[u8],
        second: &[u8],
        windows: &Windows,
        now: UnixSeconds,
    ) -> bool {
        match self {
            Self::Hotp { otp, next, resync } => {
                let mut candidates = *next..=next.saturating_add(windows.resync.into());
                let matched = candidates.find(|counter| {
                    otp.find(first, [*counter].into_iter()).is_some()
                        && otp.find(second, [counter.saturating_add(1)].into_iter()).is_some()
                });
                let Some(counter) = matched else { return false };
                *next = counter.saturating_add(2);
                *resync = None;
                true
            }
            Self::Totp { otp, period, next, drift, resync } => {
                let step = now / u64::from(*period);
                let matched = around(step, windows.resync)
                    .filter(|candidate| candidate.saturating_add(1) >= *next)
                    .find(|candidate| {
                        otp.find(first, [*candidate].into_iter()).is_some()
                            && otp.find(second, [candidate.saturating_add(1)].into_iter()).is_some()
                    });
                let Some(first_step) = matched else { return false };
                // The second value was made last, so it is the one that is now on the device or has just left it.
                *drift = distance(first_step.saturating_add(1), step);
                *next = first_step.saturating_add(2);
                *resync = None;
                true
            }
            Self::SimplePass | Self::RecoveryCodes { .. } => false,
        }
    }
}

fn check_hotp(
    otp: &Otp,
    next: &mut u64,
    resync: &mut Option<Resync>,
    code: &[u8],
    windows: &Windows,
) -> Found {
    let end = next.saturating_add(windows.hotp.into());
    if let Some(counter) = otp.find(code, *next..end) {
        *next = counter.saturating_add(1);
        *resync = None;
        return Found::Accepted;
    }
    if let Some(seen) = *resync {
        let proof = seen.counter.saturating_add(1);
        if proof >= *next && otp.find(code, [proof].into_iter()).is_some() {
            *next = proof.saturating_add(1);
            *resync = None;
            return Found::Accepted;
        }
    }
    let far_end = next.saturating_add(windows.resync.into());
    if let Some(counter) = otp.find(code, end..far_end) {
        *resync = Some(Resync { counter, drift: 0 });
        return Found::FarAway;
    }
    *resync = None;
    let behind = next.saturating_sub(windows.hotp.into());
    if otp.find(code, behind..*next).is_some() { Found::UsedBefore } else { Found::Wrong }
}

/// A TOTP token's place in time.
struct Steps<'a> {
    now: u64,
    /// How far back a value may prove that the device's clock is late.
    behind: u64,
    next: &'a mut u64,
    drift: &'a mut i64,
    resync: &'a mut Option<Resync>,
}

fn check_totp(otp: &Otp, steps: &mut Steps<'_>, code: &[u8], windows: &Windows) -> Found {
    let expected = steps.now.saturating_add_signed(*steps.drift);
    let next = *steps.next;
    if let Some(step) = otp.find(code, around(expected, windows.totp).filter(|step| *step >= next)) {
        *steps.next = step.saturating_add(1);
        *steps.resync = None;
        return Found::Accepted;
    }
    if otp.find(code, around(expected, windows.totp).filter(|step| *step < next)).is_some() {
        *steps.resync = None;
        return Found::UsedBefore;
    }
    let earliest = next.max(expected.min(steps.now).saturating_sub(steps.behind));
    let Some(step) = otp.find(code, around(steps.now, windows.resync).filter(|step| *step >= earliest))
    else {
        *steps.resync = None;
        return Found::Wrong;
    };
    let drift = distance(step, steps.now);
    // The proof: a later value of a clock that is wrong by the same amount, give or take the step that passes while
    // typing. Unlike HOTP it need not be the very next one: nobody can hurry a clock.
    let proven = steps.resync.is_some_and(|seen| step > seen.counter && drift.abs_diff(seen.drift) <= 1);
    if proven {
        *steps.next = step.saturating_add(1);
        *steps.drift = drift;
        *steps.resync = None;
        Found::Accepted
    } else {
        *steps.resync = Some(Resync { counter: step, drift });
        Found::FarAway
    }
}

/// The steps from `center` outwards to both sides, the likeliest first.
fn around(center: u64, window: u32) -> impl Iterator<Item = u64> {
    let sides = (1..=u64::from(window))
        .flat_map(move |distance| [center.checked_sub(distance), center.checked_add(distance)])
        .flatten();
    std::iter::once(center).chain(sides)
}

fn distance(step: u64, from: u64) -> i64 {
    i64::try_from(i128::from(step) - i128::from(from)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::otp::{Algorithm, hotp};
    use super::*;
    use privacyidea_contract::Secret;
    use proptest::prelude::*;

    const SEED: &[u8] = b"12345678901234567890";
    const WINDOWS: Windows = Windows { hotp: 10, totp: 1, resync: 1000 };
    /// For the many cases of a property test.
    const NARROW: Windows = Windows { hotp: 5, totp: 1, resync: 20 };

    fn otp() -> Otp {
        Otp::new(Secret::new(SEED.to_vec()), Algorithm::Sha1, 6).unwrap()
    }

    fn code(counter: u64) -> String {
        hotp(SEED, counter, Algorithm::Sha1, 6)
    }

    fn hotp_at(next: u64) -> Credential {
        Credential::Hotp { otp: otp(), next, resync: None }
    }

    fn totp_at(next: u64) -> Credential {
        Credential::Totp { otp: otp(), period: 30, next, drift: 0, resync: None }
    }

    fn check(credential: &mut Credential, counter: u64, now: u64) -> Found {
        credential.check(code(counter).as_bytes(), &WINDOWS, now)
    }

    #[test]
    fn hotp_accepts_the_window_and_nothing_twice() {
        let mut token = hotp_at(5);
        assert_eq!(check(&mut token, 14, 0), Found::Accepted);
        for used in 5..=14 {
            assert_eq!(check(&mut token, used, 0), Found::UsedBefore, "counter {used}");
        }
        assert_eq!(check(&mut token, 15, 0), Found::Accepted);
    }

    #[test]
    fn hotp_far_ahead_needs_the_value_right_after_it() {
        let mut token = hotp_at(0);
        assert_eq!(check(&mut token, 10, 0), Found::FarAway);
        assert_eq!(check(&mut token, 500, 0), Found::FarAway);
        assert_eq!(check(&mut token, 502, 0), Found::FarAway, "not the one after 500");
        assert_eq!(check(&mut token, 503, 0), Found::Accepted);
        assert_eq!(check(&mut token, 503, 0), Found::UsedBefore);
        assert_eq!(check(&mut token, 504, 0), Found::Accepted);
        assert_eq!(check(&mut hotp_at(0), 1000, 0), Found::Wrong, "beyond the search");
    }

    #[test]
    fn a_value_far_away_is_remembered_until_the_next_code_only() {
        let mut token = hotp_at(0);
        assert_eq!(check(&mut token, 500, 0), Found::FarAway);
        assert_eq!(token.check(b"000000", &WINDOWS, 0), Found::Wrong);
        assert_eq!(check(&mut token, 501, 0), Found::FarAway);
        let mut clock = totp_at(0);
        assert_eq!(check(&mut clock, 1200, 30 * 1000), Found::FarAway);
        assert_eq!(clock.check(b"000000", &WINDOWS, 30 * 1000), Found::Wrong);
        assert_eq!(check(&mut clock, 1201, 30 * 1001), Found::FarAway);
        assert_eq!(check(&mut clock, 1202, 30 * 1002), Found::Accepted);
    }

    #[test]
    fn resync_needs_consecutive_values_and_is_monotone() {
        let resync = |token: &mut Credential, first, second, now| {
            token.resynchronise(code(first).as_bytes(), code(second).as_bytes(), &WINDOWS, now)
        };
        let mut token = hotp_at(100);
        assert!(!resync(&mut token, 300, 302, 0));
        assert!(!resync(&mut token, 98, 99, 0), "behind the counter");
        assert!(resync(&mut token, 300, 301, 0));
        assert_eq!(check(&mut token, 301, 0), Found::UsedBefore);
        assert_eq!(check(&mut token, 302, 0), Found::Accepted);
        let mut clock = totp_at(0);
        assert!(resync(&mut clock, 1100, 1101, 30 * 1000));
        assert_eq!(check(&mut clock, 1101, 30 * 1000), Found::UsedBefore);
        assert_eq!(check(&mut clock, 1102, 30 * 1001), Found::Accepted);
    }

    #[test]
    fn totp_accepts_one_step_to_either_side_once() {
        let now = 30 * 1000 + 15;
        assert_eq!(check(&mut totp_at(0), 999, now), Found::Accepted);
        assert_eq!(check(&mut totp_at(0), 1001, now), Found::Accepted);
        assert_eq!(check(&mut totp_at(0), 1002, now), Found::FarAway);
        let mut token = totp_at(0);
        assert_eq!(check(&mut token, 1000, now), Found::Accepted);
        assert_eq!(check(&mut token, 1000, now), Found::UsedBefore);
        assert_eq!(check(&mut token, 999, now), Found::UsedBefore, "passed over");
    }

    #[test]
    fn totp_does_not_revive_values_when_the_clock_goes_back() {
        let mut token = totp_at(0);
        assert_eq!(check(&mut token, 1000, 30 * 1000), Found::Accepted);
        for step in 900..=1000 {
            let found = check(&mut token, step, 30 * step);
            assert!(matches!(found, Found::UsedBefore | Found::Wrong), "step {step}: {found:?}");
        }
    }

    #[test]
    fn totp_of_a_wrong_clock_is_accepted_at_the_second_value() {
        let mut token = totp_at(0);
        assert_eq!(check(&mut token, 1200, 30 * 1000), Found::FarAway);
        assert_eq!(check(&mut token, 1200, 30 * 1000), Found::FarAway, "the same value proves nothing");
        assert_eq!(check(&mut token, 1203, 30 * 1003), Found::Accepted);
        assert_eq!(check(&mut token, 1204, 30 * 1004), Found::Accepted, "the drift is known now");
    }

    #[test]
    fn values_that_somebody_watched_are_soon_no_proof_of_a_late_clock() {
        let mut token = totp_at(0);
        assert_eq!(check(&mut token, 979, 30 * 1000), Found::Wrong);
        assert_eq!(check(&mut token, 980, 30 * 1001), Found::Wrong);
        assert_eq!(check(&mut token, 985, 30 * 1002), Found::FarAway, "late by less than ten minutes");
        assert_eq!(check(&mut token, 986, 30 * 1003), Found::Accepted);
        let mut resynchronised = totp_at(0);
        let (first, second) = (code(500), code(501));
        assert!(resynchronised.resynchronise(first.as_bytes(), second.as_bytes(), &WINDOWS, 30 * 1000));
        assert_eq!(
            check(&mut resynchronised, 510, 30 * 1011 + 90),
            Found::FarAway,
            "from where it is known to be"
        );
    }

    #[test]
    fn a_simple_pass_has_nothing_beside_its_pin() {
        assert_eq!(Credential::SimplePass.check(b"", &WINDOWS, 0), Found::Accepted);
        assert_eq!(Credential::SimplePass.check(b"1", &WINDOWS, 0), Found::Wrong);
    }

    proptest! {
        /// Whatever is typed in whatever order, at whatever time, with resyncs between: no counter is accepted twice,
        /// none after a later one.
        #[test]
        fn nothing_is_accepted_twice(
            attempts in prop::collection::vec((0_u64..60, 0_u64..60, prop::bool::weighted(0.2)), 1..80),
        ) {
            for mut token in [hotp_at(0), totp_at(0)] {
                let mut last = None;
                for (counter, clock, resync) in &attempts {
                    let (first, second, now) = (code(*counter), code(counter + 1), clock * 30);
                    let accepted = if *resync {
                        token.resynchronise(first.as_bytes(), second.as_bytes(), &NARROW, now).then_some(counter + 1)
                    } else {
                        (token.check(first.as_bytes(), &NARROW, now) == Found::Accepted).then_some(*counter)
                    };
                    if accepted.is_some() {
                        prop_assert!(last < accepted, "{last:?} {accepted:?}");
                        last = accepted;
                    }
                }
            }
        }
    }
}
