//! The policy, case by case, with the real database.

use std::collections::VecDeque;
use std::sync::Mutex;

use privacyidea_contract::Secret;
use privacyidea_contract::wire::{Login, Overrides, Verdict};

use super::*;
use crate::directory::Account;
use crate::server::{
    Accepted, Answer, Challenge, Challenged, Check, Enrolment, Failure, Mode, Poll, Refill, Refilled, Step,
    TransactionId,
};
use crate::service::clock::FixedClock;
use crate::settings;
use crate::tokens::{Algorithm, Credential, Otp, PinHash, PinPosition, RecoveryCode, Token, hotp};

mod console;
mod cost;
mod first_pass;
mod identity;
mod lockout;
mod offline;
mod remote;
mod replay;
mod steps;

const SEED: &[u8] = b"12345678901234567890";
const NOW: u64 = 1_800_000_000;

/// A host with everything real but the person, the clock, the accounts and the server.
struct Rig {
    directory: tempfile::TempDir,
    settings: Settings,
    state: State,
    clock: FixedClock,
    server: Option<ScriptedServer>,
    events: Mutex<Vec<Event>>,
    trusted_terminal: bool,
    line_server: Option<settings::Server>,
}

impl Rig {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        Self {
            directory,
            settings: Settings::default(),
            state,
            clock: FixedClock::at(NOW),
            server: None,
            events: Mutex::default(),
            trusted_terminal: true,
            line_server: None,
        }
    }

    fn with_server(answers: impl IntoIterator<Item = Result<Answer, Failure>>) -> Self {
        let settings = Settings { server: Some(server_settings()), ..Settings::default() };
        Self {
            settings,
            server: Some(ScriptedServer {
                answers: Mutex::new(answers.into_iter().collect()),
                asked: Mutex::default(),
                sent: Mutex::default(),
                polls: Mutex::default(),
            }),
            ..Self::new()
        }
    }

    fn token(&self, token: Token) {
        self.state.change(|transaction| transaction.put(&token)).unwrap();
    }

    fn stored(&self, serial: &str) -> Token {
        self.state.tokens(None).unwrap().into_iter().find(|token| token.serial == serial).unwrap()
    }

    fn host(&self) -> Host<'_> {
        Host {
            settings: &self.settings,
            state: &self.state,
            accounts: &Known,
            server: self.server.as_ref().map(|server| server as &dyn Server),
            clock: &self.clock,
            refills: None,
            journal: self,
            trusted_terminal: self.trusted_terminal,
            line_server: self.line_server.as_ref(),
        }
    }

    /// A login over ssh in which `typed` is the answer to the only prompt.
    fn login(&self, user: &str, typed: &str) -> Verdict {
        run(&login(user), &self.host(), &mut Script::answers([typed]))
    }

    fn account(&self, login: &Login) -> Verdict {
        account(login, &self.host())
    }

    /// The numbers of the events since the last call.
    fn numbers(&self) -> Vec<u16> {
        self.events.lock().unwrap().drain(..).map(|event| event.number).collect()
    }
}

impl Journal for Rig {
    fn record(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
    }
}

/// root and sync are the system's, lena is local, carla a resolver's.
struct Known;

impl Accounts for Known {
    fn account(&self, name: &str) -> Result<Account, String> {
        Ok(match name {
            "root" | "sync" => Account::System,
            "lena" => Account::Local { uid: 1000 },
            "carla" => Account::Resolver { uid: 20000 },
            "unreadable" => return Err("the cache cannot be read".to_owned()),
            _ => Account::Unknown,
        })
    }
}

/// Answers in order; every check must have been expected, and every answer be used.
struct ScriptedServer {
    answers: Mutex<VecDeque<Result<Answer, Failure>>>,
    /// Name and realm of each check.
    asked: Mutex<Vec<(String, Option<String>)>>,
    /// What was sent, and in which step.
    sent: Mutex<Vec<String>>,
    polls: Mutex<VecDeque<Result<Poll, Failure>>>,
}

impl Server for ScriptedServer {
    fn check(&self, check: &Check<'_>) -> Result<Answer, Failure> {
        self.asked.lock().unwrap().push((check.user.to_owned(), check.realm.map(str::to_owned)));
        let password = String::from_utf8_lossy(check.password.expose());
        self.sent.lock().unwrap().push(match check.step {
            Step::First => password.into_owned(),
            Step::In(transaction) => format!("{password} in {transaction}"),
            Step::DeclineEnrolment(transaction) => format!("declined in {transaction}"),
        });
        self.answers.lock().unwrap().pop_front().expect("the server must not be asked here")
    }

    fn poll(&self, _transaction: &TransactionId) -> Result<Poll, Failure> {
        self.polls.lock().unwrap().pop_front().expect("the server must not be polled here")
    }

    fn refill(&self, _refill: &Refill<'_>) -> Result<Refilled, Failure> {
        unreachable!("nothing is refilled")
    }

    fn reachable(&self) -> Result<(), Failure> {
        Ok(())
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.answers.lock().unwrap().is_empty(), "the server was not asked");
            assert!(self.polls.lock().unwrap().is_empty(), "the server was not polled");
        }
    }
}

/// What the person types, prompt by prompt; at the end of it they have gone.
struct Script {
    answers: VecDeque<String>,
    prompts: Vec<String>,
    told: Vec<String>,
    exported: Vec<String>,
    paused: std::time::Duration,
}

impl Script {
    fn answers<const N: usize>(answers: [&str; N]) -> Self {
        Self {
            answers: answers.map(str::to_owned).into(),
            prompts: Vec::new(),
            told: Vec::new(),
            exported: Vec::new(),
            paused: std::time::Duration::ZERO,
        }
    }
}

impl Conversation for Script {
    fn ask(&mut self, text: &str, echo: bool) -> Result<Secret, ConversationEnded> {
        assert!(!echo, "a code is not shown");
        self.prompts.push(text.to_owned());
        self.answers.pop_front().map(|answer| Secret::from(answer.as_str())).ok_or(ConversationEnded)
    }

    fn tell(&mut self, text: &str, _error: bool) -> Result<(), ConversationEnded> {
        self.told.push(text.to_owned());
        Ok(())
    }

    fn pause(&mut self, time: std::time::Duration) -> Result<(), ConversationEnded> {
        self.paused += time;
        Ok(())
    }

    fn export(&mut self, name: &str, value: &str) -> Result<(), ConversationEnded> {
        self.exported.push(format!("{name}={value}"));
        Ok(())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.answers.is_empty(), "not every answer was asked for");
        }
    }
}

fn server_settings() -> settings::Server {
    settings::Server {
        url: "https://pi.example.org".into(),
        realm: None,
        ca_file: None,
        connect_timeout: std::time::Duration::from_secs(5),
        timeout: std::time::Duration::from_secs(10),
        local_accounts: false,
        any_certificate: false,
    }
}

fn login(user: &str) -> Login {
    Login {
        user: user.into(),
        uid: None,
        service: "sshd".into(),
        rhost: "192.0.2.7".into(),
        tty: "ssh".into(),
        prompt: None,
        password: None,
        may_ask: true,
        overrides: Overrides::default(),
    }
}

fn otp() -> Otp {
    Otp::new(Secret::new(SEED.to_vec()), Algorithm::Sha1, 6).unwrap()
}

/// Value of a counter of [`hotp_token`], or of a time step.
fn code(counter: u64) -> String {
    hotp(SEED, counter, Algorithm::Sha1, 6)
}

fn token(serial: &str, user: &str, credential: Credential) -> Token {
    Token {
        serial: serial.into(),
        user: user.into(),
        description: String::new(),
        credential,
        pin: None,
        pin_position: PinPosition::Before,
        active: true,
        failcount: 0,
        last_failure: None,
        enrolled: NOW,
        last_used: None,
    }
}

fn hotp_token(serial: &str, user: &str) -> Token {
    token(serial, user, Credential::Hotp { otp: otp(), next: 0, resync: None })
}

fn with_pin(pin: &str, position: PinPosition, token: Token) -> Token {
    Token { pin: Some(PinHash::new(pin.as_bytes(), &[3; 16]).unwrap()), pin_position: position, ..token }
}

fn granted(user: &str) -> Verdict {
    Verdict::Granted { user: user.into() }
}

#[test]
fn a_right_code_is_granted_and_says_by_which_token() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    assert_eq!(rig.login("lena", &code(0)), granted("lena"));
    let event = rig.events.lock().unwrap().pop().unwrap();
    assert_eq!(
        event.to_string(),
        "PIH-AUTH-001 lena: granted, token HOTP0001 service=sshd rhost=192.0.2.7 tty=ssh"
    );
    assert_eq!(rig.stored("HOTP0001").last_used, Some(NOW));
}

#[test]
fn every_kind_of_token_lets_in_with_its_pin_on_its_side() {
    let rig = Rig::new();
    let recovery = RecoveryCode::from_random(b"0123456789");
    let codes = Credential::RecoveryCodes { unused: vec![recovery.hash()] };
    let totp = Credential::Totp { otp: otp(), period: 30, next: 0, drift: 0, resync: None };
    rig.token(with_pin("one", PinPosition::Before, hotp_token("HOTP0001", "lena")));
    rig.token(with_pin("two", PinPosition::After, token("TOTP0001", "lena", totp)));
    rig.token(with_pin("three", PinPosition::Before, token("SPASS0001", "lena", Credential::SimplePass)));
    rig.token(with_pin("four", PinPosition::Before, token("RECOVERY0001", "lena", codes)));
    for typed in [
        format!("one{}", code(0)),
        format!("{}two", code(NOW / 30)),
        "three".to_owned(),
        "three".to_owned(),
        format!("four{}", recovery.to_text()),
    ] {
        assert_eq!(rig.login("lena", &typed), granted("lena"), "{typed}");
    }
    for typed in [code(1), format!("two{}", code(NOW / 30 + 1)), format!("four{}", recovery.to_text())] {
        assert_eq!(rig.login("lena", &typed), Verdict::Refused, "{typed}");
    }
}

#[test]
fn unknown_token_less_and_wrong_look_alike_at_the_prompt() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    let table = [
        ("nobody", Verdict::UnknownUser, 14),
        ("carla", Verdict::Refused, 13),
        ("lena", Verdict::Refused, 10),
    ];
    for (user, verdict, number) in table {
        let mut script = Script::answers(["000000"]);
        assert_eq!(run(&login(user), &rig.host(), &mut script), verdict);
        assert_eq!(script.prompts, ["One-time code: "]);
        let event = rig.events.lock().unwrap().pop().unwrap();
        assert_eq!(event.number, number);
        assert_eq!(
            event.to_string().contains(user),
            user != "nobody",
            "the log leaves unknown names out: {event}"
        );
    }
}

#[test]
fn nothing_typed_counts_nothing() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    assert_eq!(rig.login("lena", ""), Verdict::Refused);
    assert_eq!(rig.stored("HOTP0001").failcount, 0);
    assert_eq!(rig.numbers(), [15]);
}

#[test]
fn a_person_who_goes_away_is_no_failure() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "lena"));
    assert_eq!(run(&login("lena"), &rig.host(), &mut Script::answers([])), Verdict::NoAnswer);
    assert_eq!(rig.stored("HOTP0001").failcount, 0);
}

#[test]
fn tokens_not_proven_yet_do_not_count() {
    let rig = Rig::new();
    rig.token(Token { active: false, ..hotp_token("HOTP0001", "lena") });
    assert_eq!(rig.login("lena", &code(0)), Verdict::Refused);
    assert_eq!(rig.numbers(), [13]);
}

#[test]
fn a_token_of_somebody_the_host_does_not_know_lets_nobody_in() {
    let rig = Rig::new();
    rig.token(hotp_token("HOTP0001", "gone"));
    assert_eq!(rig.login("gone", &code(0)), Verdict::UnknownUser);
    assert_eq!(rig.numbers(), [14]);
    let back = Login { uid: Some(5000), ..login("gone") };
    assert_eq!(
        run(&back, &rig.host(), &mut Script::answers([code(0).as_str()])),
        granted("gone"),
        "not used up"
    );
}

#[test]
fn the_account_phase_knows_whom_it_knows() {
    let rig = Rig::new();
    let other = |uid| Login { uid: Some(uid), ..login("sssd-user") };
    assert_eq!(rig.account(&login("root")), Verdict::OutOfScope);
    assert_eq!(rig.account(&login("lena")), Verdict::OutOfScope, "local, and nothing of ours");
    assert_eq!(rig.account(&login("carla")), granted("carla"));
    assert_eq!(rig.account(&login("nobody")), Verdict::UnknownUser);
    assert_eq!(rig.account(&other(5000)), Verdict::OutOfScope);
    assert_eq!(rig.account(&other(500)), Verdict::OutOfScope);
    assert_eq!(rig.account(&login("unreadable")), Verdict::Failed);
    rig.token(hotp_token("HOTP0001", "lena"));
    assert_eq!(rig.account(&login("lena")), granted("lena"));
    let served = Rig::with_server([]);
    assert_eq!(served.account(&other(5000)), granted("sssd-user"));
}
