//! Every verdict, through libpam, to its code.

use privacyidea_contract::wire::{Request, Verdict};

use crate::application::Phase;
use crate::harness::{Actor, IGNORED, Stack, granted, login_of};

#[test]
fn every_verdict_becomes_its_code() {
    let rows = [
        (granted("root"), "PAM_SUCCESS", "PAM_SUCCESS"),
        (Verdict::Refused, "PAM_AUTH_ERR", "PAM_PERM_DENIED"),
        (Verdict::UnknownUser, "PAM_USER_UNKNOWN", "PAM_USER_UNKNOWN"),
        (Verdict::Locked, "PAM_AUTH_ERR", "PAM_PERM_DENIED"),
        (Verdict::Unavailable, "PAM_AUTHINFO_UNAVAIL", "PAM_AUTHINFO_UNAVAIL"),
        (Verdict::Untrusted, "PAM_SYSTEM_ERR", "PAM_SYSTEM_ERR"),
        (Verdict::Failed, "PAM_SERVICE_ERR", "PAM_SERVICE_ERR"),
        (Verdict::OutOfScope, IGNORED, IGNORED),
        (Verdict::NoAnswer, "PAM_CONV_ERR", "PAM_CONV_ERR"),
        (granted("toor"), "PAM_AUTH_ERR", "PAM_PERM_DENIED"),
    ];
    for (verdict, authentication, account) in rows {
        for (phase, expected) in [(Phase::Authenticate, authentication), (Phase::Account, account)] {
            let stack = Stack::new("");
            let daemon = stack.serve_verdict(verdict.clone());
            let (code, actor) = stack.run(phase, Actor::silent());
            assert_eq!(code.name(), expected, "{phase:?} {verdict:?}");
            assert!(actor.shown.is_empty());
            let request = daemon.join().unwrap();
            let is_login = matches!(request, Request::Login(_));
            assert_eq!(is_login, phase == Phase::Authenticate);
        }
    }
}

#[test]
fn the_request_has_the_items_of_the_transaction() {
    let stack = Stack::new("prompt=[Code:]");
    let daemon = stack.serve_verdict(granted("root"));
    let mut application = stack.begin("root", Actor::silent());
    application.set_rhost(c"198.51.100.7").unwrap();
    application.set_tty(c"/dev/pts/3").unwrap();
    assert_eq!(application.call(Phase::Authenticate).name(), "PAM_SUCCESS");
    let login = login_of(daemon.join().unwrap());
    assert_eq!((login.user.as_str(), login.uid, login.service.as_str()), ("root", Some(0), "test"));
    assert_eq!((login.rhost.as_str(), login.tty.as_str()), ("198.51.100.7", "/dev/pts/3"));
    assert_eq!(login.prompt.as_deref(), Some("Code: "));
    assert!(login.password.is_none() && login.may_ask);
}

#[test]
fn a_user_whom_the_host_does_not_know_is_asked_about_without_a_uid() {
    let stack = Stack::new("");
    let daemon = stack.serve_verdict(Verdict::UnknownUser);
    let code = stack.begin("no-such-user", Actor::silent()).call(Phase::Authenticate);
    assert_eq!(code.name(), "PAM_USER_UNKNOWN");
    let login = login_of(daemon.join().unwrap());
    assert_eq!((login.user.as_str(), login.uid), ("no-such-user", None));
    assert_eq!((login.rhost.as_str(), login.tty.as_str(), login.prompt), ("", "", None));
}

#[test]
fn every_failure_asks_for_the_same_delay() {
    for arguments in ["", "no-such-argument", "use_first_pass"] {
        let stack = Stack::new(arguments);
        let daemon = arguments.is_empty().then(|| stack.serve_verdict(Verdict::Refused));
        let (code, actor) = stack.run(Phase::Authenticate, Actor::silent());
        assert_ne!(code.name(), "PAM_SUCCESS");
        // libpam varies the two seconds by a quarter, or by half in later versions.
        let delay = actor.delay.expect("a delay");
        assert!((1_000_000..=3_000_000).contains(&delay), "{delay}");
        daemon.map(|daemon| daemon.join().unwrap());
    }
}

#[test]
fn phases_in_which_nothing_is_done_say_so_and_need_no_daemon() {
    let rows = [
        (Phase::Setcred, "PAM_SUCCESS"),
        (Phase::OpenSession, IGNORED),
        (Phase::CloseSession, IGNORED),
        (Phase::Chauthtok, IGNORED),
    ];
    for (phase, expected) in rows {
        let (code, actor) = Stack::new("").run(phase, Actor::silent());
        assert_eq!(code.name(), expected, "{phase:?}");
        assert!(actor.shown.is_empty());
    }
}

#[test]
fn a_whole_login_in_one_transaction() {
    let stack = Stack::new("");
    let mut application = stack.begin("root", Actor::silent());
    for phase in [Phase::Authenticate, Phase::Account] {
        let daemon = stack.serve_verdict(granted("root"));
        assert_eq!(application.call(phase).name(), "PAM_SUCCESS");
        daemon.join().unwrap();
        std::fs::remove_file(stack.socket()).unwrap();
    }
    assert_eq!(application.call(Phase::Setcred).name(), "PAM_SUCCESS");
    assert_eq!(application.call(Phase::OpenSession).name(), IGNORED);
}
