//! Failures: counted, slowed down, locked, forgotten.

use super::*;
use crate::settings::{LockPeriod, Lockout};

/// So far apart that the throttle does not play a part.
fn fail(rig: &Rig, user: &str, times: u64) {
    for _ in 0..times {
        rig.clock.set(rig.clock.now() + 61);
        assert_eq!(rig.login(user, "000000"), Verdict::Refused);
    }
}

#[test]
fn ten_failures_lock_and_half_an_hour_later_it_is_over() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    fail(&rig, "lena", 10);
    let locked = rig.clock.now();
    rig.clock.set(locked + 1799);
    assert_eq!(rig.login("lena", &code(0)), Verdict::Locked, "the right code too, and it is not used up");
    assert_eq!(rig.account(&login("lena")), Verdict::Locked);
    rig.clock.set(locked + 1800);
    assert_eq!(rig.account(&login("lena")), granted("lena"));
    assert_eq!(rig.login("lena", &code(0)), granted("lena"));
    assert_eq!(rig.stored("HOTP0001").failcount, 0);
}

#[test]
fn until_unlocked_outlasts_everything_but_the_command() {
    let mut rig = Rig::new();
    rig.settings.lockout = Lockout { after: 2, period: LockPeriod::UntilUnlocked, ..Lockout::default() };
    rig.token(hotp_token("HOTP0001", "lena"));
    fail(&rig, "lena", 2);
    rig.clock.set(NOW + 10 * 365 * 86400);
    assert_eq!(rig.login("lena", &code(0)), Verdict::Locked);
    let mut token = rig.stored("HOTP0001");
    token.unlock();
    rig.token(token);
    rig.clock.set(NOW + 11 * 365 * 86400);
    assert_eq!(rig.login("lena", &code(0)), granted("lena"));
}

#[test]
fn a_user_is_locked_when_every_token_is() {
    let rig = Rig::new();
    rig.token(with_pin("one", PinPosition::Before, hotp_token("HOTP0001", "lena")));
    rig.token(with_pin("two", PinPosition::Before, hotp_token("HOTP0002", "lena")));
    for _ in 0..10 {
        rig.clock.set(rig.clock.now() + 61);
        assert_eq!(rig.login("lena", "one000000"), Verdict::Refused);
    }
    assert_eq!(rig.stored("HOTP0001").failcount, 10);
    assert_eq!(rig.stored("HOTP0002").failcount, 0, "its PIN was not the one that was typed");
    rig.clock.set(rig.clock.now() + 61);
    assert_eq!(rig.login("lena", &format!("one{}", code(0))), Verdict::Refused, "that token is locked");
    rig.clock.set(rig.clock.now() + 61);
    assert_eq!(rig.login("lena", &format!("two{}", code(0))), granted("lena"));
}

#[test]
fn a_success_resets_its_token_or_all_of_the_users() {
    for all in [false, true] {
        let mut rig = Rig::new();
        rig.settings.lockout.reset_all_user_tokens = all;
        rig.token(Token { failcount: 4, last_failure: Some(NOW), ..hotp_token("HOTP0001", "lena") });
        let other = with_pin("two", PinPosition::Before, hotp_token("HOTP0002", "lena"));
        rig.token(Token { failcount: 5, last_failure: Some(NOW), ..other });
        assert_eq!(rig.login("lena", &code(0)), granted("lena"));
        assert_eq!(rig.stored("HOTP0001").failcount, 0);
        assert_eq!(rig.stored("HOTP0002").failcount, if all { 0 } else { 5 });
    }
}

#[test]
fn guesses_are_slowed_down_per_user_and_source() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    for _ in 0..4 {
        assert_eq!(rig.login("lena", "000000"), Verdict::Refused);
    }
    assert_eq!(rig.login("lena", &code(0)), Verdict::Locked, "one second has not passed");
    let event = rig.events.lock().unwrap().pop().unwrap();
    assert!(event.to_string().starts_with("PIH-AUTH-017 lena: "), "{event}");
    assert_eq!(rig.stored("HOTP0001").failcount, 4, "an attempt that was not looked at does not count");
    let elsewhere = Login { rhost: "198.51.100.1".into(), ..login("lena") };
    assert_eq!(run(&elsewhere, &rig.host(), &mut Script::answers([code(0).as_str()])), granted("lena"));
    rig.clock.set(NOW + 1);
    assert_eq!(rig.login("lena", &code(1)), granted("lena"));
    assert_eq!(rig.login("lena", "000000"), Verdict::Refused, "the success cleared the throttle");
    assert_eq!(rig.login("lena", &code(2)), granted("lena"));
}

#[test]
fn unknown_names_are_slowed_down_alike() {
    let rig = Rig::new();
    for _ in 0..4 {
        assert_eq!(rig.login("nobody", "000000"), Verdict::UnknownUser);
    }
    assert_eq!(rig.login("nobody", "000000"), Verdict::Locked);
    assert!(rig.events.lock().unwrap().iter().all(|event| event.user.is_none()));
    assert_eq!(rig.numbers(), [14, 14, 14, 14, 17]);
}

#[test]
fn all_of_the_users_tokens_are_reset_also_locked_ones() {
    let mut rig = Rig::new();
    rig.settings.lockout.reset_all_user_tokens = true;
    rig.token(hotp_token("HOTP0001", "lena"));
    let other = with_pin("two", PinPosition::Before, hotp_token("HOTP0002", "lena"));
    rig.token(Token { failcount: 10, last_failure: Some(NOW), ..other });
    assert_eq!(rig.login("lena", &code(0)), granted("lena"));
    assert_eq!(rig.stored("HOTP0002").failcount, 0);
}

/// A host whose clock was two years ahead when the failures were counted.
fn set_back() -> Rig {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    fail(&rig, "lena", 10);
    rig.clock.set(NOW - 2 * 365 * 86400);
    rig
}

#[test]
fn a_clock_set_back_does_not_lock_for_ever() {
    let rig = set_back();
    rig.clock.set(rig.clock.now() + 1);
    assert_eq!(rig.login("lena", &code(0)), Verdict::Locked);
    rig.clock.set(rig.clock.now() + 1800);
    assert_eq!(rig.login("lena", &code(0)), granted("lena"));
}

#[test]
fn a_clock_set_back_does_not_lock_the_account_for_ever() {
    let rig = set_back();
    assert_eq!(rig.account(&login("lena")), Verdict::Locked);
    rig.clock.set(rig.clock.now() + 1800);
    assert_eq!(rig.account(&login("lena")), granted("lena"), "who has a key never comes to the auth phase");
}

#[test]
fn a_clock_set_back_does_not_throttle_for_ever() {
    let mut rig = Rig::new();
    rig.settings.lockout.after = 0;
    rig.token(hotp_token("HOTP0001", "lena"));
    fail(&rig, "lena", 10);
    rig.clock.set(NOW - 2 * 365 * 86400);
    assert_eq!(rig.login("lena", &code(0)), Verdict::Locked);
    rig.clock.set(rig.clock.now() + 60);
    assert_eq!(rig.login("lena", &code(0)), granted("lena"));
}

#[test]
fn a_throttled_line_names_known_users_only() {
    let rig = Rig::new();
    for user in ["lena", "nobody"] {
        for _ in 0..5 {
            rig.login(user, "000000");
        }
        let event = rig.events.lock().unwrap().pop().unwrap();
        assert_eq!((event.number, event.user.as_deref()), (17, (user == "lena").then_some("lena")));
    }
}

#[test]
fn many_guesses_at_the_same_instant_are_still_ten() {
    let rig = Rig::new();
    rig.token(with_pin("pin", PinPosition::Before, hotp_token("HOTP0001", "lena")));
    let guess = |n: u32| {
        let login = Login { rhost: format!("192.0.2.{n}"), ..login("lena") };
        run(&login, &rig.host(), &mut Script::answers([format!("pin{:06}", 900_000 + n).as_str()]))
    };
    let verdicts: Vec<_> = std::thread::scope(|scope| {
        let guesses: Vec<_> = (0..30).map(|n| scope.spawn(move || guess(n))).collect();
        guesses.into_iter().map(|guess| guess.join().unwrap()).collect()
    });
    let count = |verdict| verdicts.iter().filter(|found| **found == verdict).count();
    assert_eq!((count(Verdict::Refused), count(Verdict::Locked)), (10, 20));
    assert_eq!(rig.stored("HOTP0001").failcount, 10);
}

/// A nearly full disk, or a limit on file sizes that a caller of su has set: were there room to write a success down
/// but not a failure, guesses would be free.
#[test]
fn a_success_needs_as_much_room_as_a_failure() {
    let rig = Rig::new();
    let codes = (0..10).map(|n| RecoveryCode::from_random(&[n; 10]).hash()).collect();
    rig.token(hotp_token("HOTP0001", "lena"));
    rig.token(token("RECOVERY0001", "lena", Credential::RecoveryCodes { unused: codes }));
    let log = rig.directory.path().join("state.db-wal");
    let written = |typed: &str, verdict: Verdict| {
        let before = std::fs::metadata(&log).unwrap().len();
        assert_eq!(rig.login("lena", typed), verdict);
        std::fs::metadata(&log).unwrap().len() - before
    };
    let failure = written("000000", Verdict::Refused);
    assert!(failure > 0);
    // The first clears the throttle, the second finds none.
    for counter in 0..2 {
        let success = written(&code(counter), granted("lena"));
        assert!(success >= failure, "{success} bytes for a success, {failure} for a failure");
    }
}
