//! What a module before ours has asked for.

use super::*;

fn typed(user: &str, password: &str, may_ask: bool) -> Login {
    Login { password: Some(Secret::from(password)), may_ask, ..login(user) }
}

#[test]
fn a_password_typed_before_is_used_first() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    let typed = |password: &str, may_ask| typed("lena", password, may_ask);
    let mut nobody = Script::answers([]);
    // use_first_pass
    assert_eq!(run(&typed(&code(0), false), &rig.host(), &mut nobody), granted("lena"));
    assert_eq!(run(&typed("wrong", false), &rig.host(), &mut nobody), Verdict::Refused);
    let nothing = Login { may_ask: false, ..login("lena") };
    assert_eq!(run(&nothing, &rig.host(), &mut nobody), Verdict::Refused);
    // try_first_pass: a system password costs no failure, a wrong code does.
    rig.clock.set(NOW + 3600);
    let mut script = Script::answers([code(1).as_str()]);
    assert_eq!(run(&typed("system password", true), &rig.host(), &mut script), granted("lena"));
    let mut script = Script::answers(["000000"]);
    assert_eq!(run(&typed("000001", true), &rig.host(), &mut script), Verdict::Refused);
    assert_eq!(rig.stored("HOTP0001").failcount, 2);
}

/// Else the second prompt would tell who exists, who has a token and who is locked.
#[test]
fn everybody_is_asked_again() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    rig.token(Token { failcount: 10, last_failure: Some(NOW), ..hotp_token("HOTP0002", "root") });
    let table = [
        ("lena", Verdict::Refused),
        ("carla", Verdict::Refused),
        ("root", Verdict::Locked),
        ("nobody", Verdict::UnknownUser),
        ("unreadable", Verdict::Failed),
    ];
    for (user, verdict) in table {
        let mut script = Script::answers(["000000"]);
        assert_eq!(run(&typed(user, "system password", true), &rig.host(), &mut script), verdict, "{user}");
    }
    let away = || Err(Failure::Unreachable("no route".into()));
    let served = Rig::with_server([away(), away()]);
    let mut script = Script::answers(["000000"]);
    let verdict = run(&typed("carla", "system password", true), &served.host(), &mut script);
    assert_eq!(verdict, Verdict::Unavailable);
}

/// Else who has mistyped a few times could never get in: the first answer of each login would throttle the second.
#[test]
fn a_wrong_first_answer_does_not_throttle_the_second_of_the_same_login() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    for _ in 0..4 {
        assert_eq!(rig.login("lena", "000000"), Verdict::Refused);
    }
    let mut script = Script::answers([code(0).as_str()]);
    let throttled = run(&typed("lena", "111111", true), &rig.host(), &mut script);
    assert_eq!(throttled, Verdict::Locked, "the throttle that was there before holds for both");
    rig.clock.set(NOW + 1);
    let mut script = Script::answers([code(0).as_str()]);
    assert_eq!(run(&typed("lena", "111111", true), &rig.host(), &mut script), granted("lena"));
}
