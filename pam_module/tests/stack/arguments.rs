//! What a line in `/etc/pam.d` says of the server, and what comes back for the session.

use privacyidea_contract::wire::{FirstStep, Overrides, Reply, Verdict};

use crate::application::Phase;
use crate::harness::{Actor, Stack, granted, login_of, soon};

fn url() -> Overrides {
    Overrides { url: Some("https://pi.example.org".to_owned()), ..Overrides::default() }
}

/// Each argument of the older modules, as libpam hands it over, in both deciding phases.
#[test]
fn the_arguments_of_the_older_modules_reach_the_daemon() {
    let realm = Some("staff".to_owned());
    let ca_file = Some("/etc/pi ca.pem".to_owned());
    let rows = [
        ("", Overrides::default()),
        ("url=https://pi.example.org", url()),
        ("url=https://pi.example.org nossl", Overrides { any_certificate: true, ..url() }),
        ("url=https://pi.example.org nosslverify", Overrides { any_certificate: true, ..url() }),
        ("url=https://pi.example.org [cacerts=/etc/pi ca.pem]", Overrides { ca_file, ..url() }),
        ("realm=staff", Overrides { realm, ..Overrides::default() }),
        ("realm=", Overrides::default()),
        ("sendEmptyPass", Overrides { first_step: Some(FirstStep::EmptyPassword), ..Overrides::default() }),
        (
            "sendEmptyPass sendPassword",
            Overrides { first_step: Some(FirstStep::Password), ..Overrides::default() },
        ),
        ("pollTime=60", Overrides { poll_time: Some(60), ..Overrides::default() }),
        ("offlineFile=/etc/privacyidea/pam.txt", Overrides::default()),
        ("sqlfile=/etc/privacyidea/pam.sqlite debug", Overrides::default()),
    ];
    for (arguments, expected) in rows {
        for phase in [Phase::Authenticate, Phase::Account] {
            let stack = Stack::new(arguments);
            let daemon = stack.serve_verdict(granted("root"));
            assert_eq!(stack.run(phase, Actor::silent()).0.name(), "PAM_SUCCESS", "{arguments}");
            assert_eq!(login_of(daemon.join().unwrap()).overrides, expected, "{arguments}");
        }
    }
}

#[test]
fn brackets_in_the_wrong_place_are_part_of_no_prompt() {
    for arguments in ["prompt=[OTP:]", "[prompt=OTP:]", "prompt=OTP:"] {
        let stack = Stack::new(arguments);
        let daemon = stack.serve_verdict(Verdict::Refused);
        stack.run(Phase::Authenticate, Actor::silent());
        assert_eq!(login_of(daemon.join().unwrap()).prompt.as_deref(), Some("OTP: "), "{arguments}");
    }
    let stack = Stack::new("prompt=[Your second factor:] realm=staff");
    let daemon = stack.serve_verdict(Verdict::Refused);
    stack.run(Phase::Authenticate, Actor::silent());
    let login = login_of(daemon.join().unwrap());
    assert_eq!(login.prompt.as_deref(), Some("Your second factor: "));
    assert_eq!(login.overrides.realm.as_deref(), Some("staff"));
}

#[test]
fn send_password_sends_what_an_earlier_module_has_asked_for() {
    let stack = Stack::after("auth optional pam_exec.so expose_authtok quiet /bin/true", "sendPassword");
    let daemon = stack.serve_verdict(granted("root"));
    let (code, _) = stack.run(Phase::Authenticate, Actor::answering(&["first"]));
    assert_eq!(code.name(), "PAM_SUCCESS");
    let login = login_of(daemon.join().unwrap());
    assert_eq!(login.password.as_ref().map(|password| password.expose()), Some(&b"first"[..]));
    assert!(login.may_ask);
}

/// A daemon that says `replies` after the request; gives the code and the environment.
fn environment_after(phase: Phase, replies: Vec<Reply>) -> (&'static str, Vec<String>) {
    let stack = Stack::new("");
    let daemon = stack.serve(move |mut stream| {
        stream.receive_request(soon()).unwrap();
        for reply in replies {
            // The module may have had enough.
            let _ = stream.send_reply(&reply, soon());
        }
    });
    let mut application = stack.begin("root", Actor::silent());
    let code = application.call(phase);
    daemon.join().unwrap();
    (code.name(), application.environment())
}

fn export(name: &str, value: &str) -> Reply {
    Reply::Export { name: name.to_owned(), value: value.to_owned() }
}

#[test]
fn variables_are_in_the_environment_of_a_login_that_succeeds() {
    let replies = vec![
        export("PRIVACYIDEA_MAIL", "carla@example.org"),
        export("PRIVACYIDEA_NAME", "Carla Müller = x"),
        Reply::Verdict(granted("root")),
    ];
    let (code, environment) = environment_after(Phase::Authenticate, replies);
    assert_eq!(code, "PAM_SUCCESS");
    assert_eq!(environment, ["PRIVACYIDEA_MAIL=carla@example.org", "PRIVACYIDEA_NAME=Carla Müller = x"]);
}

#[test]
fn variables_are_in_no_other_environment() {
    let mail = || export("PRIVACYIDEA_MAIL", "carla@example.org");
    let rows = [
        (Phase::Authenticate, vec![mail(), Reply::Verdict(Verdict::Refused)], "PAM_SERVICE_ERR"),
        (Phase::Authenticate, vec![mail(), Reply::Verdict(granted("toor"))], "PAM_AUTH_ERR"),
        (Phase::Authenticate, vec![mail()], "PAM_AUTHINFO_UNAVAIL"),
        (Phase::Account, vec![mail(), Reply::Verdict(granted("root"))], "PAM_SERVICE_ERR"),
        (
            Phase::Authenticate,
            vec![mail(), export("LD_PRELOAD", "/tmp/x.so"), Reply::Verdict(granted("root"))],
            "PAM_SERVICE_ERR",
        ),
        (
            Phase::Authenticate,
            vec![mail(), export("A", "b\nc"), Reply::Verdict(granted("root"))],
            "PAM_SERVICE_ERR",
        ),
    ];
    for (phase, replies, expected) in rows {
        assert_eq!(environment_after(phase, replies), (expected, Vec::new()));
    }
}
