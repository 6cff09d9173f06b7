//! Prompts, messages and passwords that were already typed.

use std::thread::JoinHandle;

use privacyidea_contract::Secret;
use privacyidea_contract::wire::{Reply, Request, Stream, Verdict};

use crate::application::{Application, NoAnswer, Phase, Style, Talk};
use crate::harness::{AS_IS, Actor, IGNORED, Stack, granted, soon};

const PAM_SILENT: i32 = 0x8000;

fn ask(stream: &mut Stream, text: &str, echo: bool) -> Option<Vec<u8>> {
    stream.send_reply(&Reply::Ask { text: text.to_owned(), echo }, soon()).unwrap();
    match stream.receive_request(soon()) {
        Ok(Request::Answer(answer)) => Some(answer.expose().to_vec()),
        _ => None,
    }
}

fn tell(stream: &mut Stream, text: &str, error: bool) {
    stream.send_reply(&Reply::Tell { text: text.to_owned(), error }, soon()).unwrap();
}

fn grant(stream: &mut Stream) {
    // The module may be gone already.
    let _ = stream.send_reply(&Reply::Verdict(granted("root")), soon());
}

/// Asks once, then grants.
fn serve_question(stack: &Stack) -> JoinHandle<Option<Vec<u8>>> {
    stack.serve(|mut stream| {
        stream.receive_request(soon()).unwrap();
        let answer = ask(&mut stream, "Code: ", false);
        grant(&mut stream);
        answer
    })
}

#[test]
fn questions_and_messages_are_shown_as_the_daemon_wants_them() {
    let stack = Stack::new("");
    let daemon = stack.serve(|mut stream| {
        stream.receive_request(soon()).unwrap();
        // A text has no answer, and an application may leave the place for it empty.
        tell(&mut stream, "100 % müller", false);
        let first = ask(&mut stream, "One-time code: ", false);
        tell(&mut stream, "Again.", true);
        let second = ask(&mut stream, "Serial %s: ", true);
        grant(&mut stream);
        (first, second)
    });
    let (code, actor) = stack.run(Phase::Authenticate, Actor::answering(&["123456", "OATH1"]));
    assert_eq!(code.name(), "PAM_SUCCESS");
    assert_eq!(daemon.join().unwrap(), (Some(b"123456".to_vec()), Some(b"OATH1".to_vec())));
    let shown: Vec<_> = actor.shown.iter().map(|(style, text)| (*style, text.as_str())).collect();
    let expected = [
        (Style::TextInfo, "100 % müller"),
        (Style::PromptEchoOff, "One-time code: "),
        (Style::ErrorMessage, "Again."),
        (Style::PromptEchoOn, "Serial %s: "),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn with_pam_silent_only_questions_are_shown() {
    let stack = Stack::new("");
    let daemon = stack.serve(|mut stream| {
        stream.receive_request(soon()).unwrap();
        tell(&mut stream, "Welcome.", false);
        tell(&mut stream, "Beware.", true);
        ask(&mut stream, "Code: ", false);
        grant(&mut stream);
    });
    let mut application = stack.begin("root", Actor::answering(&["1"]));
    assert_eq!(application.call_with(Phase::Authenticate, PAM_SILENT).name(), "PAM_SUCCESS");
    assert_eq!(application.with(|actor| actor.shown.clone()), [(Style::PromptEchoOff, "Code: ".to_owned())]);
    daemon.join().unwrap();
}

#[test]
fn an_answer_may_be_empty_long_or_no_text() {
    let long = [b'x'; 512];
    for answer in [&b""[..], &long[..511], &long, &[0xff, 0xfe, b'1'], "päss wörd ".as_bytes()] {
        let stack = Stack::new("");
        let daemon = serve_question(&stack);
        let (code, _) = stack.run(Phase::Authenticate, Actor::answering_bytes(&[answer]));
        assert_eq!(code.name(), "PAM_SUCCESS");
        assert_eq!(daemon.join().unwrap().as_deref(), Some(answer));
    }
}

#[test]
fn a_person_who_goes_away_is_a_conversation_error() {
    let stack = Stack::new("");
    let daemon = serve_question(&stack);
    let (code, actor) = stack.run(Phase::Authenticate, Actor::silent());
    assert_eq!(code.name(), "PAM_CONV_ERR");
    assert_eq!(actor.shown.len(), 1);
    // The daemon sees the end of the connection, no answer.
    assert_eq!(daemon.join().unwrap(), None);
}

/// An application that says all is well and gives no answer, not even an empty one.
#[test]
fn no_answer_to_a_question_is_a_conversation_error() {
    struct Mute;
    impl Talk for Mute {
        fn message(&mut self, _: Style, _: &str) -> Result<Option<Secret>, NoAnswer> {
            Ok(None)
        }
        fn delay(&mut self, _: u32) {}
    }
    let stack = Stack::new("");
    let daemon = serve_question(&stack);
    let mut application = Application::start(c"test", c"root", Some(&stack.confdir()), Mute).unwrap();
    application.do_not_wait().unwrap();
    assert_eq!(application.call(Phase::Authenticate).name(), "PAM_CONV_ERR");
    assert_eq!(daemon.join().unwrap(), None);
}

/// pam_exec asks for the password and leaves it for the modules after it.
const ASKS_FIRST: &str = "auth optional pam_exec.so expose_authtok quiet /bin/true";

/// The password of the request, whether the person may be asked, and the answer.
type Heard = (Option<Vec<u8>>, bool, Option<Vec<u8>>);

fn serve_login(stack: &Stack, asks: bool) -> JoinHandle<Heard> {
    stack.serve(move |mut stream| {
        let Ok(Request::Login(login)) = stream.receive_request(soon()) else { panic!("no login") };
        let answer = if asks { ask(&mut stream, "Code: ", false) } else { None };
        grant(&mut stream);
        (login.password.map(|password| password.expose().to_vec()), login.may_ask, answer)
    })
}

#[test]
fn use_first_pass_takes_the_password_and_never_asks() {
    let stack = Stack::after(ASKS_FIRST, "use_first_pass");
    let daemon = serve_login(&stack, false);
    let (code, actor) = stack.run(Phase::Authenticate, Actor::answering(&["pin123456"]));
    assert_eq!(code.name(), "PAM_SUCCESS");
    assert_eq!(daemon.join().unwrap(), (Some(b"pin123456".to_vec()), false, None));
    assert_eq!(actor.shown.len(), 1, "only pam_exec asked: {:?}", actor.shown);

    let stack = Stack::after(ASKS_FIRST, "use_first_pass");
    let daemon = serve_login(&stack, true);
    let (code, actor) = stack.run(Phase::Authenticate, Actor::answering(&["pin123456", "654321"]));
    assert_eq!(code.name(), "PAM_SERVICE_ERR", "a daemon that asks nevertheless is not obeyed");
    assert_eq!((daemon.join().unwrap().2, actor.shown.len()), (None, 1));
}

#[test]
fn use_first_pass_without_a_password_is_the_daemons_to_refuse() {
    let stack = Stack::new("use_first_pass");
    let daemon = stack.serve_verdict(Verdict::OutOfScope);
    let (code, actor) = stack.run(Phase::Authenticate, Actor::answering(&["1"]));
    assert_eq!(code.name(), IGNORED, "it knows who is out of scope");
    let Request::Login(login) = daemon.join().unwrap() else { panic!("another request") };
    assert!(login.password.is_none() && !login.may_ask);
    assert!(actor.shown.is_empty());
}

#[test]
fn try_first_pass_takes_the_password_and_may_ask() {
    let stack = Stack::after(ASKS_FIRST, "try_first_pass");
    let daemon = serve_login(&stack, true);
    let (code, _) = stack.run(Phase::Authenticate, Actor::answering(&["pin", "654321"]));
    assert_eq!(code.name(), "PAM_SUCCESS");
    assert_eq!(daemon.join().unwrap(), (Some(b"pin".to_vec()), true, Some(b"654321".to_vec())));

    let stack = Stack::new("try_first_pass");
    let daemon = serve_login(&stack, true);
    let (code, _) = stack.run(Phase::Authenticate, Actor::answering(&["654321"]));
    assert_eq!(code.name(), "PAM_SUCCESS");
    assert_eq!(daemon.join().unwrap(), (None, true, Some(b"654321".to_vec())));
}

#[test]
fn without_such_an_argument_the_earlier_password_is_not_looked_at() {
    let stack = Stack::after(ASKS_FIRST, "");
    let daemon = serve_login(&stack, true);
    let (code, _) = stack.run(Phase::Authenticate, Actor::answering(&["pin", "654321"]));
    assert_eq!(code.name(), "PAM_SUCCESS");
    assert_eq!(daemon.join().unwrap(), (None, true, Some(b"654321".to_vec())));
}

#[test]
fn an_answer_never_becomes_the_password_of_later_modules() {
    let (stack, later) = (Stack::new(""), Stack::new("use_first_pass"));
    let lines = [&stack, &later].map(|stack| {
        let file = std::fs::read_to_string(stack.directory.path().join("test")).unwrap();
        file.lines().next().unwrap().replace(AS_IS, "required")
    });
    std::fs::write(stack.directory.path().join("test"), lines.join("\n")).unwrap();
    let (daemon, later_daemon) = (serve_question(&stack), serve_login(&later, false));
    let (code, _) = stack.run(Phase::Authenticate, Actor::answering(&["123456"]));
    assert_eq!(code.name(), "PAM_SUCCESS");
    assert_eq!(daemon.join().unwrap(), Some(b"123456".to_vec()));
    assert_eq!(later_daemon.join().unwrap(), (None, false, None), "nobody has set PAM_AUTHTOK");
}
