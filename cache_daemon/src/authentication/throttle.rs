//! Slows guesses down, per user and source.

use crate::service::clock::UnixSeconds;
use crate::settings::Lockout;
use crate::store::Throttle;

/// Until when an attempt is not looked at; none: it is.
pub(super) fn wait(throttle: Option<Throttle>, lockout: &Lockout, now: UnixSeconds) -> Option<UnixSeconds> {
    // The longest wait may have become shorter since.
    let until = throttle?.until.min(now.saturating_add(lockout.throttle_longest.as_secs()));
    (now < until).then_some(until)
}

/// After one failure more.
pub(super) fn after_failure(throttle: Option<Throttle>, lockout: &Lockout, now: UnixSeconds) -> Throttle {
    let failures = throttle.map_or(0, |throttle| throttle.failures).saturating_add(1);
    let beyond = failures.saturating_sub(lockout.throttle_after);
    let longest = lockout.throttle_longest.as_secs();
    let seconds = match beyond.checked_sub(1) {
        None => 0,
        Some(doublings) => 1_u64.checked_shl(doublings).map_or(longest, |seconds| seconds.min(longest)),
    };
    Throttle { failures, last: now, until: now.saturating_add(seconds) }
}

/// Takes a failure back that turned out to be none. `counted` is what was remembered because of it: if others have failed
/// since, their wait stays.
pub(super) fn without_failure(throttle: Option<Throttle>, counted: Throttle) -> Option<Throttle> {
    let throttle = throttle?;
    let failures = throttle.failures.checked_sub(1).filter(|failures| *failures > 0)?;
    let until = if throttle == counted { counted.last } else { throttle.until };
    Some(Throttle { failures, until, ..throttle })
}

/// As if the last failure were now, if it lies in the future: the clock was set back since.
pub(super) fn in_our_time(throttle: Option<Throttle>, now: UnixSeconds) -> Option<Throttle> {
    let throttle = throttle?;
    if throttle.last <= now {
        return Some(throttle);
    }
    let until = now.saturating_add(throttle.until.saturating_sub(throttle.last));
    Some(Throttle { last: now, until, ..throttle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_are_free_then_the_wait_doubles_up_to_a_minute() {
        let lockout = Lockout::default();
        let (mut throttle, mut waits) = (None, Vec::new());
        for _ in 0..12 {
            throttle = Some(after_failure(throttle, &lockout, 1000));
            waits.push(wait(throttle, &lockout, 1000).map_or(0, |until| until - 1000));
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(wait(throttle, &lockout, 1060), None);
    }

    #[test]
    fn a_clock_set_back_does_not_make_the_wait_longer() {
        let throttle = Throttle { failures: 6, last: 1_000_000, until: 1_000_004 };
        assert_eq!(in_our_time(Some(throttle), 5), Some(Throttle { failures: 6, last: 5, until: 9 }));
        assert_eq!(in_our_time(Some(throttle), 1_000_000), Some(throttle));
        assert_eq!(in_our_time(None, 5), None);
    }

    #[test]
    fn a_failure_taken_back_leaves_the_others() {
        let lockout = Lockout { throttle_after: 0, ..Lockout::default() };
        let one = after_failure(None, &lockout, 7);
        assert_eq!(without_failure(Some(one), one), None);
        let two = after_failure(Some(one), &lockout, 8);
        assert_eq!(without_failure(Some(two), two), Some(Throttle { failures: 1, last: 8, until: 8 }));
        let three = after_failure(Some(two), &lockout, 8);
        assert_eq!(
            without_failure(Some(three), two),
            Some(Throttle { failures: 2, ..three }),
            "their wait stays"
        );
        assert_eq!(without_failure(None, one), None);
    }
}
