//! Lines that are wrong, names that are none, and bugs.

use std::process::Command;

use crate::application::{Application, Phase, c_string};
use crate::harness::{AS_IS, Actor, Stack, granted};

#[test]
fn arguments_that_are_not_ours_fail_closed_in_both_deciding_phases() {
    for arguments in [
        "url=http://pi.example.org",
        "nossl",
        "realm=users cacerts=/etc/ca.pem",
        "url=https://pi.example.org timeout=5",
        "pollTime=soon",
        "nullok",
        "prompt",
        "use_first_pass try_first_pass",
    ] {
        for phase in [Phase::Authenticate, Phase::Account] {
            let (code, actor) = Stack::new(arguments).run(phase, Actor::answering(&["1"]));
            assert_eq!(code.name(), "PAM_SERVICE_ERR", "{arguments} {phase:?}");
            assert!(actor.shown.is_empty());
        }
        // Nothing is decided here, so nothing is let in.
        let (code, _) = Stack::new(arguments).run(Phase::Setcred, Actor::silent());
        assert_eq!(code.name(), "PAM_SUCCESS", "{arguments}");
    }
}

#[test]
fn a_relative_socket_fails_closed() {
    let stack = Stack::new("socket=auth.sock");
    assert_eq!(stack.run(Phase::Authenticate, Actor::silent()).0.name(), "PAM_SERVICE_ERR");
}

#[test]
fn an_argument_that_is_not_utf_8_fails_closed() {
    let stack = Stack::new("");
    let path = stack.directory.path().join("test");
    let mut line = std::fs::read(&path).unwrap();
    let end = line.iter().position(|byte| *byte == b'\n').unwrap();
    line.splice(end..end, b" prompt=\xff".iter().copied());
    std::fs::write(&path, line).unwrap();
    assert_eq!(stack.run(Phase::Authenticate, Actor::silent()).0.name(), "PAM_SERVICE_ERR");
}

#[test]
fn a_user_name_that_is_not_utf_8_is_unknown_and_nobody_is_asked_about_it() {
    for phase in [Phase::Authenticate, Phase::Account] {
        let stack = Stack::new("");
        let name = c_string(b"al\xffice".to_vec()).unwrap();
        let mut application = stack.begin_with(&name, Actor::silent());
        // No daemon listens: had it been asked, the answer would be another.
        assert_eq!(application.call(phase).name(), "PAM_USER_UNKNOWN");
    }
}

#[test]
fn a_request_too_long_for_a_frame_fails_closed() {
    let stack = Stack::new("");
    let daemon = stack.serve(drop);
    let mut application = stack.begin(&"x".repeat(70_000), Actor::silent());
    assert_eq!(application.call(Phase::Authenticate).name(), "PAM_SERVICE_ERR");
    daemon.join().unwrap();
}

/// The wall: a build whose every phase panics, in this process, which lives on.
#[test]
fn a_panic_in_any_phase_is_a_service_error() {
    let directory = tempfile::tempdir().unwrap();
    let target = std::env::current_exe().unwrap().parent().unwrap().join("panicking");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--package", "pam-privacyidea", "--lib"])
        .args(["--features", "panic-in-every-phase", "--target-dir"])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let module = target.join("debug/libpam_privacyidea.so");
    let lines = ["auth", "account", "session", "password"]
        .map(|kind| format!("{kind} {AS_IS} {}\n", module.display()));
    std::fs::write(directory.path().join("test"), lines.concat()).unwrap();
    let confdir = c_string(directory.path().to_str().unwrap()).unwrap();
    let mut application =
        Application::start(c"test", c"root", Some(&confdir), Actor::answering(&["1"])).unwrap();
    application.do_not_wait().unwrap();
    let phases = [
        Phase::Authenticate,
        Phase::Account,
        Phase::Setcred,
        Phase::OpenSession,
        Phase::CloseSession,
        Phase::Chauthtok,
    ];
    for phase in phases {
        assert_eq!(application.call(phase).name(), "PAM_SERVICE_ERR", "{phase:?}");
    }
    drop(application);

    // And the module proper is not harmed by its neighbour in the same process.
    let stack = Stack::new("");
    let daemon = stack.serve_verdict(granted("root"));
    assert_eq!(stack.run(Phase::Authenticate, Actor::silent()).0.name(), "PAM_SUCCESS");
    daemon.join().unwrap();
}
