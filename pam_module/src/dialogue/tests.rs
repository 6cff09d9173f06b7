//! A daemon that says what the test says, and a person who answers.

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::thread;

use privacyidea_contract::wire::Overrides;

use super::*;

const LONG: Duration = Duration::from_secs(30);

/// Answers with what it was given, and remembers what it was shown.
struct Scripted {
    answers: RefCell<Vec<&'static str>>,
    shown: RefCell<Vec<String>>,
    exported: RefCell<Vec<String>>,
}

impl Scripted {
    fn new(answers: &[&'static str]) -> Self {
        Self {
            answers: RefCell::new(answers.to_vec()),
            shown: RefCell::default(),
            exported: RefCell::default(),
        }
    }
}

impl Person for Scripted {
    fn ask(&self, text: &str, echo: bool) -> Result<Secret, NoAnswer> {
        self.shown.borrow_mut().push(format!("{text}{}", if echo { "(echo)" } else { "" }));
        self.answers.borrow_mut().pop().map(Secret::from).ok_or(NoAnswer)
    }

    fn tell(&self, text: &str, _: bool) -> Result<(), NoAnswer> {
        self.shown.borrow_mut().push(text.to_owned());
        Ok(())
    }

    fn export(&self, name: &str, value: &str) -> Result<(), NotTaken> {
        self.exported.borrow_mut().push(format!("{name}={value}"));
        if name == "REFUSED" { Err(NotTaken) } else { Ok(()) }
    }
}

fn login(may_ask: bool) -> Login {
    Login {
        user: "alice".to_owned(),
        uid: Some(2000),
        service: "sshd".to_owned(),
        rhost: String::new(),
        tty: String::new(),
        prompt: None,
        password: None,
        may_ask,
        overrides: Overrides::default(),
    }
}

fn ask(text: &str) -> Reply {
    Reply::Ask { text: text.to_owned(), echo: false }
}

fn granted() -> Reply {
    Reply::Verdict(Verdict::Granted { user: "alice".to_owned() })
}

/// Runs a dialogue with a daemon that says `replies` one after the other and keeps the answers it gets.
fn with_daemon(phase: Phase, login: Login, person: &Scripted, replies: Vec<Reply>) -> (Outcome, Vec<Secret>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let daemon = thread::spawn(move || {
        let mut stream = Stream::new(theirs);
        let mut answers = Vec::new();
        let deadline = Instant::now() + LONG;
        let request = stream.receive_request(deadline).unwrap();
        assert!(matches!(request, Request::Login(_) | Request::Account(_)));
        for reply in replies {
            let asks = matches!(reply, Reply::Ask { .. });
            if stream.send_reply(&reply, deadline).is_err() {
                break;
            }
            if !asks {
                continue;
            }
            match stream.receive_request(deadline) {
                Ok(Request::Answer(answer)) => answers.push(answer),
                _ => break,
            }
        }
        answers
    });
    let outcome = run(phase, login, &mut Stream::new(ours), person, LONG);
    (outcome, daemon.join().unwrap())
}

#[test]
fn questions_reach_the_person_and_answers_the_daemon() {
    let person = Scripted::new(&["second", "first"]);
    let tell = Reply::Tell { text: "Wait.".to_owned(), error: false };
    let echoed = Reply::Ask { text: "Shown: ".to_owned(), echo: true };
    let replies = vec![ask("Code: "), tell, echoed, granted()];
    let (outcome, answers) = with_daemon(Phase::Authentication, login(true), &person, replies);
    assert_eq!(outcome, Ok(Verdict::Granted { user: "alice".to_owned() }));
    assert_eq!(answers.iter().map(Secret::expose).collect::<Vec<_>>(), [b"first".as_slice(), b"second"]);
    assert_eq!(*person.shown.borrow(), ["Code: ", "Wait.", "Shown: (echo)"]);
}

#[test]
fn a_grant_for_somebody_else_is_none() {
    for user in ["Alice", "alice ", "root", ""] {
        let reply = Reply::Verdict(Verdict::Granted { user: user.to_owned() });
        let (outcome, _) = with_daemon(Phase::Authentication, login(true), &Scripted::new(&[]), vec![reply]);
        assert_eq!(outcome, Err(Failure::OtherIdentity), "{user:?}");
    }
}

#[test]
fn a_person_who_gives_no_answer_ends_the_login() {
    let replies = vec![ask("Code: "), granted()];
    let (outcome, answers) = with_daemon(Phase::Authentication, login(true), &Scripted::new(&[]), replies);
    assert_eq!(outcome, Err(Failure::NoAnswer));
    assert!(answers.is_empty());
}

/// Whoever can wait must not be able to turn "you gave no answer" into "there is no daemon", which a stack may let pass.
#[test]
fn a_person_who_answers_too_late_gave_no_answer() {
    struct Late(std::sync::mpsc::Receiver<()>);
    impl Person for Late {
        fn ask(&self, _: &str, _: bool) -> Result<Secret, NoAnswer> {
            self.0.recv().unwrap();
            Ok(Secret::from("123456"))
        }
        fn tell(&self, _: &str, _: bool) -> Result<(), NoAnswer> {
            Ok(())
        }
        fn export(&self, _: &str, _: &str) -> Result<(), NotTaken> {
            Err(NotTaken)
        }
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (gone, late) = std::sync::mpsc::channel();
    let daemon = thread::spawn(move || {
        let mut stream = Stream::new(theirs);
        let deadline = Instant::now() + LONG;
        stream.receive_request(deadline).unwrap();
        for reply in [ask("Code: "), Reply::Verdict(Verdict::NoAnswer)] {
            stream.send_reply(&reply, deadline).unwrap();
        }
        drop(stream);
        gone.send(()).unwrap();
    });
    let outcome = run(Phase::Authentication, login(true), &mut Stream::new(ours), &Late(late), LONG);
    assert_eq!(outcome, Ok(Verdict::NoAnswer));
    daemon.join().unwrap();
}

#[test]
fn nobody_is_asked_with_use_first_pass_nor_in_the_account_phase() {
    for (phase, may_ask) in [(Phase::Authentication, false), (Phase::Account, true)] {
        let person = Scripted::new(&["typed"]);
        let (outcome, answers) = with_daemon(phase, login(may_ask), &person, vec![ask("Code: "), granted()]);
        assert!(matches!(outcome, Err(Failure::Nonsense(_))), "{outcome:?}");
        assert!(answers.is_empty() && person.shown.borrow().is_empty());
    }
}

#[test]
fn a_daemon_without_end_is_ended() {
    let person = Scripted::new(&["x"; 100]);
    let replies = std::iter::repeat_n(ask("Again: "), 100).collect();
    let (outcome, answers) = with_daemon(Phase::Authentication, login(true), &person, replies);
    assert!(matches!(outcome, Err(Failure::Nonsense(_))), "{outcome:?}");
    assert_eq!(answers.len(), MESSAGES_MAX);
}

#[test]
fn answers_to_other_questions_are_nonsense() {
    for reply in [Reply::NotFound, Reply::Unavailable, Reply::Groups(vec![1])] {
        let (outcome, _) = with_daemon(Phase::Authentication, login(true), &Scripted::new(&[]), vec![reply]);
        assert!(matches!(outcome, Err(Failure::Nonsense(_))), "{outcome:?}");
    }
    let (outcome, _) =
        with_daemon(Phase::Authentication, login(true), &Scripted::new(&[]), vec![Reply::NotAllowed]);
    assert_eq!(outcome, Err(Failure::NotAllowed));
}

fn export(name: &str, value: &str) -> Reply {
    Reply::Export { name: name.to_owned(), value: value.to_owned() }
}

#[test]
fn variables_are_handed_on_with_the_grant() {
    let person = Scripted::new(&["1"]);
    let replies = vec![ask("Code: "), export("A_MAIL", "a@b"), export("A_NAME", "Alice"), granted()];
    let (outcome, _) = with_daemon(Phase::Authentication, login(true), &person, replies);
    assert!(matches!(outcome, Ok(Verdict::Granted { .. })), "{outcome:?}");
    assert_eq!(*person.exported.borrow(), ["A_MAIL=a@b", "A_NAME=Alice"]);
}

#[test]
fn variables_without_a_grant_or_in_the_account_phase_are_nonsense() {
    let other = Reply::Verdict(Verdict::Granted { user: "bob".to_owned() });
    for (phase, end) in [
        (Phase::Authentication, Reply::Verdict(Verdict::Refused)),
        (Phase::Authentication, ask("Code: ")),
        (Phase::Authentication, other),
        (Phase::Account, granted()),
    ] {
        let person = Scripted::new(&["1"]);
        let (outcome, _) = with_daemon(phase, login(true), &person, vec![export("A", "b"), end]);
        assert!(matches!(outcome, Err(Failure::Nonsense(_) | Failure::OtherIdentity)), "{outcome:?}");
        assert!(person.exported.borrow().is_empty() && person.shown.borrow().is_empty());
    }
    let person = Scripted::new(&[]);
    let (outcome, _) = with_daemon(Phase::Authentication, login(true), &person, vec![export("A", "b")]);
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
}

#[test]
fn a_daemon_cannot_give_orders_to_programs_of_root() {
    for forbidden in [export("LD_PRELOAD", "/tmp/x.so"), export("PATH", "/tmp"), export("A", "b\nc")] {
        let person = Scripted::new(&[]);
        let replies = vec![export("A_MAIL", "a@b"), forbidden, granted()];
        let (outcome, _) = with_daemon(Phase::Authentication, login(true), &person, replies);
        assert!(matches!(outcome, Err(Failure::Nonsense(_))), "{outcome:?}");
        assert!(person.exported.borrow().is_empty(), "none of them");
    }
    let replies = std::iter::repeat_with(|| export("A", "b")).take(EXPORTS_MAX + 1).chain([granted()]);
    let person = Scripted::new(&[]);
    let (outcome, _) = with_daemon(Phase::Authentication, login(true), &person, replies.collect());
    assert!(matches!(outcome, Err(Failure::Nonsense(_))), "{outcome:?}");
    let (outcome, _) =
        with_daemon(Phase::Authentication, login(true), &person, vec![export("REFUSED", "b"), granted()]);
    assert!(matches!(outcome, Err(Failure::Nonsense(_))), "{outcome:?}");
}

#[test]
fn a_daemon_that_closes_is_unavailable() {
    let (outcome, _) = with_daemon(Phase::Authentication, login(true), &Scripted::new(&[]), Vec::new());
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
}

#[test]
fn a_daemon_that_falls_silent_is_unavailable_after_the_deadline() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let start = Instant::now();
    let patience = Duration::from_millis(50);
    let person = Scripted::new(&[]);
    let outcome = run(Phase::Authentication, login(true), &mut Stream::new(ours), &person, patience);
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    assert!(start.elapsed() >= patience);
    drop(theirs);
}
