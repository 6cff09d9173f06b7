//! When the server is asked, and what its answers mean.

use super::*;

fn accepted() -> Result<Answer, Failure> {
    Ok(Answer::Accepted(Accepted { serial: Some("PI1".into()), ..Accepted::default() }))
}

/// Nothing that can be done at a terminal.
fn security_key() -> Challenged {
    Challenged {
        transaction: TransactionId::new("1").unwrap(),
        message: "Touch".into(),
        challenges: vec![Challenge {
            kind: "webauthn".into(),
            mode: Mode::Other,
            message: "Touch".into(),
            serial: None,
            presence: None,
            link: None,
        }],
        enrolment: Enrolment::No,
    }
}

#[test]
fn a_user_without_a_matching_local_token_is_checked_at_the_server() {
    let table = [
        (accepted(), granted("carla"), 2),
        (Ok(Answer::Rejected { reason: "wrong otp pin".into() }), Verdict::Refused, 18),
        (Ok(Answer::UnknownUser), Verdict::UnknownUser, 19),
        (Ok(Answer::Challenged(security_key())), Verdict::Refused, 20),
        (Err(Failure::Unreachable("timeout".into())), Verdict::Unavailable, 30),
        (Err(Failure::Unable("LDAP is down".into())), Verdict::Unavailable, 31),
        (Err(Failure::Rubbish("HTML".into())), Verdict::Unavailable, 32),
        (Err(Failure::Untrusted("unknown issuer".into())), Verdict::Untrusted, 33),
    ];
    for (answer, verdict, number) in table {
        let rig = Rig::with_server([answer]);
        assert_eq!(rig.login("carla", "pin123456"), verdict);
        assert_eq!(rig.numbers(), [number]);
    }
}

#[test]
fn a_local_token_that_matches_spares_the_server() {
    let rig = Rig::with_server([]);
    rig.token(hotp_token("HOTP0001", "carla"));
    assert_eq!(rig.login("carla", &code(0)), granted("carla"));
}

#[test]
fn a_code_of_the_server_costs_no_local_failure() {
    let rig = Rig::with_server([accepted(), Ok(Answer::Rejected { reason: String::new() })]);
    rig.token(hotp_token("HOTP0001", "carla"));
    assert_eq!(rig.login("carla", "pin123456"), granted("carla"));
    assert_eq!(rig.stored("HOTP0001").failcount, 0);
    assert_eq!(rig.login("carla", "pin123456"), Verdict::Refused);
    assert_eq!(rig.stored("HOTP0001").failcount, 1);
}

#[test]
fn an_outage_does_not_slow_anybody_down() {
    let away = || Err(Failure::Unreachable("no route".into()));
    let rig = Rig::with_server([away(), away(), away(), away(), away(), accepted()]);
    for _ in 0..5 {
        assert_eq!(rig.login("carla", "pin123456"), Verdict::Unavailable);
    }
    assert_eq!(rig.login("carla", "pin123456"), granted("carla"));
}

#[test]
fn root_system_accounts_and_strangers_are_never_asked_of_the_server() {
    let rig = Rig::with_server([]);
    for user in ["root", "sync", "nobody", "lena"] {
        assert!(!matches!(rig.login(user, "123456"), Verdict::Granted { .. }), "{user}");
    }
    let system = Login { uid: Some(999), ..login("daemon-of-sssd") };
    assert_eq!(run(&system, &rig.host(), &mut Script::answers(["123456"])), Verdict::Refused);
    for uid in [0, 999] {
        let disguised = Login { uid: Some(uid), ..login("carla") };
        let verdict = run(&disguised, &rig.host(), &mut Script::answers(["123456"]));
        assert_eq!(verdict, Verdict::Refused, "{uid}");
    }
}

#[test]
fn local_accounts_are_asked_of_the_server_only_where_configured() {
    let mut rig = Rig::with_server([accepted()]);
    rig.settings.server.as_mut().unwrap().local_accounts = true;
    assert_eq!(rig.login("lena", "pin123456"), granted("lena"));
    assert!(!matches!(rig.login("root", "pin123456"), Verdict::Granted { .. }));
}

#[test]
fn users_of_another_nss_source_are_asked_of_the_server() {
    let rig = Rig::with_server([accepted()]);
    let sssd = Login { uid: Some(70000), ..login("erin") };
    assert_eq!(run(&sssd, &rig.host(), &mut Script::answers(["pin123456"])), granted("erin"));
}

#[test]
fn a_broken_cache_locks_nobody_out_whom_the_host_knows() {
    let rig = Rig::with_server([accepted()]);
    let known = Login { uid: Some(20001), ..login("unreadable") };
    assert_eq!(run(&known, &rig.host(), &mut Script::answers(["pin123456"])), granted("unreadable"));
    let failed = run(&login("unreadable"), &rig.host(), &mut Script::answers(["pin123456"]));
    assert_eq!(failed, Verdict::Failed, "but not before the prompt that everybody sees");
}

#[test]
fn during_an_outage_local_tokens_are_not_open_to_guesses() {
    let rig = Rig::with_server((0..4).map(|_| Err(Failure::Unreachable("no route".into()))));
    rig.token(hotp_token("HOTP0001", "carla"));
    for _ in 0..4 {
        assert_eq!(rig.login("carla", "000000"), Verdict::Unavailable);
    }
    assert_eq!(rig.login("carla", &code(0)), Verdict::Locked, "throttled");
    assert_eq!(rig.stored("HOTP0001").failcount, 4);
    rig.clock.set(NOW + 1);
    assert_eq!(rig.login("carla", &code(0)), granted("carla"));
}

#[test]
fn guesses_at_the_server_are_slowed_down_whoever_asked_for_them() {
    for may_ask in [false, true] {
        let rig = Rig::with_server((0..4).map(|_| Ok(Answer::Rejected { reason: String::new() })));
        for _ in 0..4 {
            let first = Login { password: Some(Secret::from("guess")), may_ask, ..login("carla") };
            let last = run(&first, &rig.host(), &mut Script::answers([]));
            assert_eq!(last, if may_ask { Verdict::NoAnswer } else { Verdict::Refused });
        }
        assert_eq!(rig.login("carla", "pin123456"), Verdict::Locked);
    }
}

#[test]
fn a_pin_alone_does_not_ring_the_telephone_all_night() {
    let challenge = || Ok(Answer::Challenged(security_key()));
    let rig = Rig::with_server((0..4).map(|_| challenge()));
    for _ in 0..4 {
        assert_eq!(rig.login("carla", "pin"), Verdict::Refused);
    }
    assert_eq!(rig.login("carla", "pin"), Verdict::Locked);
}

/// Whoever pulls the plug to be rid of a failure gets a guess at a local token free; at the server's the server counts.
#[test]
fn failures_are_waited_for_until_they_are_on_the_disk_where_they_protect_a_token() {
    let no = || Ok(Answer::Rejected { reason: String::new() });
    let rig = Rig::with_server([no(), no()]);
    rig.login("carla", "123456");
    assert!(!rig.state.has_waited());
    rig.token(hotp_token("HOTP0001", "carla"));
    rig.login("carla", "000000");
    assert!(rig.state.has_waited());
}
