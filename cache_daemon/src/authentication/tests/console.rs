//! The local console is never refused by lock or throttle.

use super::*;

fn at(tty: &str, rhost: &str) -> Login {
    Login { service: "login".into(), tty: tty.into(), rhost: rhost.into(), ..login("lena") }
}

fn locked() -> Rig {
    let rig = Rig::new();
    rig.token(Token { failcount: 10, last_failure: Some(NOW), ..hotp_token("HOTP0001", "lena") });
    rig
}

fn run_with(rig: &Rig, login: &Login, counter: u64) -> Verdict {
    run(login, &rig.host(), &mut Script::answers([code(counter).as_str()]))
}

#[test]
fn a_locked_user_gets_in_at_the_machine_and_nowhere_else() {
    let rig = locked();
    assert_eq!(run_with(&rig, &at("ssh", "192.0.2.1"), 0), Verdict::Locked);
    assert_eq!(run_with(&rig, &at("pts/0", ""), 0), Verdict::Locked);
    assert_eq!(run_with(&rig, &at("tty1", "192.0.2.1"), 0), Verdict::Locked, "a console has no remote host");
    assert_eq!(rig.account(&at("ssh", "192.0.2.1")), Verdict::Locked);
    assert_eq!(rig.account(&at("tty1", "")), granted("lena"));
    assert_eq!(run_with(&rig, &at("tty1", ""), 0), granted("lena"));
    assert_eq!(run_with(&rig, &at("ssh", "192.0.2.1"), 1), granted("lena"), "the success ended the lock");
}

/// `su lena < /dev/ttyS0` works for everybody in the group dialout.
#[test]
fn somebody_with_a_session_is_not_at_the_console() {
    for service in ["su", "su-l", "sudo"] {
        let rig = locked();
        let login = Login { service: service.into(), ..at("/dev/ttyS0", "") };
        assert_eq!(run_with(&rig, &login, 0), Verdict::Locked, "{service}");
        assert_eq!(rig.account(&login), Verdict::Locked, "{service}");
    }
}

#[test]
fn a_caller_that_is_not_root_cannot_claim_the_console() {
    let rig = Rig { trusted_terminal: false, ..locked() };
    assert_eq!(run_with(&rig, &at("tty1", ""), 0), Verdict::Locked);
}

#[test]
fn the_throttle_does_not_reach_the_console() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    for _ in 0..6 {
        let wrong = run(&at("tty1", ""), &rig.host(), &mut Script::answers(["000000"]));
        assert_eq!(wrong, Verdict::Refused);
    }
    assert_eq!(run_with(&rig, &at("tty1", ""), 0), granted("lena"));
}

#[test]
fn a_wrong_code_at_the_console_makes_no_lock_longer() {
    let rig = locked();
    rig.clock.set(NOW + 1000);
    assert_eq!(run(&at("tty1", ""), &rig.host(), &mut Script::answers(["000000"])), Verdict::Refused);
    rig.clock.set(NOW + 1800);
    assert_eq!(run_with(&rig, &at("ssh", "192.0.2.1"), 0), granted("lena"));
}

#[test]
fn a_caller_that_is_not_root_cannot_invent_an_address_for_each_guess() {
    let rig = Rig { trusted_terminal: false, ..Rig::new() };
    rig.token(hotp_token("HOTP0001", "lena"));
    let guess =
        |n: u64| run(&at("pts/0", &format!("192.0.2.{n}")), &rig.host(), &mut Script::answers(["000000"]));
    for n in 0..4 {
        assert_eq!(guess(n), Verdict::Refused);
    }
    assert_eq!(guess(5), Verdict::Locked);
}
