//! Logins without the server, with the real daemon: in order, once each, whatever is killed; and with a real privacyIDEA
//! that comes and goes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use cache_daemon::administration::{self, Answer, OfflineRecord};
use cache_daemon::server::{
    Accepted, Answer as Said, Check, Client, Refill, RefillToken, Refilled, Server, Step,
};
use cache_daemon::settings::Settings;
use cache_daemon::store::State;
use cache_daemon::tokens::{Algorithm, Failures, OfflineToken, OfflineValue, hotp};
use privacyidea_contract::wire::{Login, Reply, Request, Verdict};
use rustix::process::Signal;

use crate::harness::*;
use crate::real::Real;

/// Wrong answers cost neither waits nor locks.
const PATIENT: &str = "[lockout]\nafter = 0\nthrottle-longest = \"0s\"\n";
/// Nothing listens there.
const AWAY: &str = "[server]\nurl = \"https://127.0.0.1:1\"\n[offline]\nenabled = true\n";

/// In 2106: no value is too old before.
const FAR_AWAY: u64 = u32::MAX as u64;

/// What is typed for a counter of the token PI1.
fn typed(counter: u64) -> String {
    format!("pin{}", hotp(b"12345678901234567890", counter, Algorithm::Sha1, 6))
}

/// As the server makes them, with few rounds.
fn value(counter: u64) -> OfflineValue {
    let mut checksum = [0; 64];
    pbkdf2::pbkdf2_hmac::<sha2::Sha512>(typed(counter).as_bytes(), b"0123456789", 10, &mut checksum);
    let coded = |bytes: &[u8]| data_encoding::BASE64_NOPAD.encode(bytes).replace('+', ".");
    let hash = format!("$pbkdf2-sha512$10${}${}", coded(b"0123456789"), coded(&checksum));
    OfflineValue { counter, hash: hash.parse().unwrap() }
}

/// A host without its server, where resi has values for the counters up to 100.
fn host_with_values() -> TestHost {
    let host = host();
    host.write_settings(&format!("{AWAY}{PATIENT}"));
    host.daemon().kill();
    let state = State::open(&host.path("var/lib/privacyidea-host/state.db")).unwrap();
    let token = OfflineToken {
        serial: "PI1".into(),
        user: "resi".into(),
        realm: String::new(),
        code_alone: false,
        next: 0,
        fetched: FAR_AWAY,
        failures: Failures::default(),
        last_used: None,
        left: 0,
        values: (0..=100).map(value).collect(),
    };
    let refill_token = RefillToken::new("none".into());
    state.change(|transaction| transaction.replace_offline(&token, &refill_token)).unwrap();
    host
}

fn offline_tokens(host: &TestHost) -> Vec<OfflineRecord> {
    match host.administrate(&administration::Command::TokenList { user: None }) {
        Answer::Tokens { offline, .. } => offline,
        _ => panic!("another answer"),
    }
}

#[test]
fn each_value_lets_in_once_and_none_after_a_later_one() {
    let host = host_with_values();
    let daemon = host.daemon();
    for (counter, is_granted) in [(0, true), (0, false), (5, true), (4, false), (6, true), (17, false)] {
        let verdict = host.log_in("resi", &typed(counter));
        assert_eq!(verdict == granted("resi"), is_granted, "{counter}: {verdict:?}");
    }
    daemon.kill();
    let (mut stream, mut child) = host.once("");
    assert_ne!(log_in(&mut stream, "resi", &typed(6)), granted("resi"));
    assert!(child.wait().unwrap().success());
    let (mut stream, mut child) = host.once("");
    assert_eq!(log_in(&mut stream, "resi", &typed(7)), granted("resi"));
    assert!(child.wait().unwrap().success());
    let _daemon = host.daemon();
    assert_ne!(host.log_in("resi", &typed(7)), granted("resi"));
    assert_eq!(offline_tokens(&host)[0].logins_left, 93);
}

#[test]
fn the_person_hears_how_many_logins_are_left_after_the_decision_and_before_the_verdict() {
    let host = host_with_values();
    host.write_settings(&format!("{AWAY}warn-below = 101\n{PATIENT}"));
    let _daemon = host.daemon();
    let mut stream = host.connect_auth();
    begin(&mut stream, "resi");
    stream.send_request(&Request::Answer(typed(0).as_str().into()), soon()).unwrap();
    let Reply::Tell { text, error: false } = stream.receive_reply(soon()).unwrap() else { panic!("no word") };
    assert_eq!(text, "100 offline logins left; connect to the company network to get more.");
    let verdict = stream.receive_reply(soon()).unwrap();
    assert!(matches!(verdict, Reply::Verdict(verdict) if verdict == granted("resi")));
    let Answer::Status(status) = host.administrate(&administration::Command::Status) else {
        panic!("no status")
    };
    assert_eq!(
        (status.offline.enabled, status.offline.logins_left, status.offline.fewest),
        (true, 100, Some(100))
    );
}

#[test]
fn daemon_and_once_grant_an_offline_value_to_one_of_them() {
    let host = host_with_values();
    let _daemon = host.daemon();
    for counter in 0..8 {
        let (mut once, mut child) = host.once("");
        let mut over_socket = host.connect_auth();
        begin(&mut once, "resi");
        begin(&mut over_socket, "resi");
        let code = typed(counter);
        let verdicts = std::thread::scope(|scope| {
            [&mut once, &mut over_socket]
                .map(|stream| {
                    scope.spawn(|| {
                        stream.send_request(&Request::Answer(code.as_str().into()), soon()).unwrap();
                        answer(stream, &code).unwrap()
                    })
                })
                .map(|login| login.join().unwrap())
        });
        let count = verdicts.iter().filter(|verdict| **verdict == granted("resi")).count();
        assert_eq!(count, 1, "{counter}: {verdicts:?}");
        assert!(child.wait().unwrap().success());
    }
}

/// Kills `daemon` as it enters the system call `call` for the `number`th time from now; returns when that is prepared.
fn kill_at(daemon: &Daemon, call: &str, number: u32) -> std::process::Child {
    let mut strace = Command::new("strace")
        .args(["-f", "-p", &daemon.pid().as_raw_nonzero().to_string(), "-o", "/dev/null"])
        .args(["-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={number}")])
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .expect("strace(1) is needed: apt-get install strace");
    let line = BufReader::new(strace.stderr.take().unwrap()).lines().next();
    let line = line.expect("a line").expect("text");
    assert!(line.contains("attached"), "{line}");
    strace
}

/// Steps of a login are what can be seen of it from outside: what it reads, writes, waits for on the disk and sends. The
/// daemon dies at each of them once; whatever was said until then, the same value lets in no second time, and it lets in
/// after all if it has not been used up.
#[test]
fn a_daemon_that_dies_at_any_step_of_a_login_grants_no_value_twice() {
    let host = host_with_values();
    let (mut counter, mut deaths, mut lost) = (0, 0, 0);
    let mut daemon = host.daemon();
    for call in ["recvfrom", "pwrite64", "fsync", "sendto"] {
        for number in 1.. {
            let mut stream = host.connect_auth();
            begin(&mut stream, "resi");
            let mut strace = kill_at(&daemon, call, number);
            let code = typed(counter);
            stream.send_request(&Request::Answer(code.as_str().into()), soon()).unwrap();
            let said = answer(&mut stream, &code);
            // A login that has come to its end without the call: this is one too many.
            let survived = said.is_ok() && {
                daemon.signal(Signal::TERM);
                daemon.end().success()
            };
            strace.wait().unwrap();
            daemon = host.daemon();
            let again = host.log_in("resi", &code);
            let was_granted = said.as_ref().is_ok_and(|verdict| *verdict == granted("resi"));
            assert!(!(was_granted && again == granted("resi")), "{call} {number}: granted twice");
            assert_ne!(host.log_in("resi", &code), granted("resi"), "{call} {number}: granted again");
            lost += u32::from(!was_granted && again != granted("resi"));
            counter += 1;
            assert_eq!(host.log_in("resi", &typed(counter)), granted("resi"), "the next one");
            counter += 1;
            if survived {
                assert!(was_granted);
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths >= 5 && lost >= 1, "died {deaths} times, {lost} values were used up without a word");
}

/// A host whose server is the real one, with its user `name`.
struct Connected {
    host: TestHost,
    real: &'static Real,
    name: &'static str,
}

impl Connected {
    fn new(real: &'static Real, name: &'static str, more: &str) -> Self {
        let host = host();
        let passwd = format!("{name}:x:20050:20050::/home/{name}:/bin/sh\n");
        std::fs::write(host.path("etc/privacyidea-host/users/passwd"), passwd).unwrap();
        std::fs::write(host.path("etc/privacyidea-host/users/group"), format!("{name}:x:20050:\n")).unwrap();
        std::fs::copy(real.ca_file(), host.path("etc/ca.pem")).unwrap();
        let connected = Self { host, real, name };
        connected.write_settings(more);
        connected
    }

    fn write_settings(&self, more: &str) {
        let server = format!("[server]\nurl = \"{}\"\nca-file = \"/etc/ca.pem\"\n", self.real.url());
        self.host.write_settings(&format!("{server}{PATIENT}{more}"));
    }

    fn serial(&self) -> String {
        self.real.facts["users"][self.name]["tokens"][0]["serial"].as_str().unwrap().to_owned()
    }

    fn database(&self) -> rusqlite::Connection {
        let database = rusqlite::Connection::open(self.real.fact("database")).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        database
    }

    /// The counter that the server expects next; the device's, before its first offline login.
    fn counter(&self) -> u64 {
        let count = "SELECT count FROM token WHERE serial = ?1";
        let counter: i64 = self.database().query_row(count, [self.serial()], |row| row.get(0)).unwrap();
        u64::try_from(counter).unwrap()
    }

    fn set_active(&self, active: bool) {
        let update = "UPDATE token SET active = ?2 WHERE serial = ?1";
        assert_eq!(self.database().execute(update, (self.serial(), active)).unwrap(), 1);
    }

    fn code(&self, counter: u64) -> String {
        let seed = self.real.facts["users"][self.name]["tokens"][0]["seed"].as_str().unwrap();
        let seed = data_encoding::HEXLOWER.decode(seed.as_bytes()).unwrap();
        hotp(&seed, counter, Algorithm::Sha1, 6)
    }

    fn log_in(&self, counter: u64) -> Verdict {
        self.host.log_in(self.name, &format!("{}{}", self.real.pin(self.name), self.code(counter)))
    }

    fn logins_left(&self) -> Option<u32> {
        offline_tokens(&self.host).first().map(|token| token.logins_left)
    }
}

#[test]
fn a_laptop_logs_in_at_the_server_then_without_it_and_is_refilled_when_it_is_back() {
    let (real, _alone) = Real::alone();
    let laptop = Connected::new(real, "offline", "[offline]\nenabled = true\n");
    let daemon = laptop.host.daemon();
    let (first, yes) = (laptop.counter(), granted("offline"));
    assert_eq!(laptop.log_in(first), yes);
    laptop.host.syslog_line_with("20 offline values kept");
    real.down();
    for (ahead, is_granted) in [(1, true), (1, false), (3, true), (2, false), (3, false), (14, false)] {
        let verdict = laptop.log_in(first + ahead);
        assert_eq!(verdict == yes, is_granted, "{ahead}: {verdict:?}");
    }
    daemon.line_with("offline token OFFLINE0: no new values yet");
    daemon.kill();
    let daemon = laptop.host.daemon();
    assert_eq!(laptop.log_in(first + 3), Verdict::Refused, "after a crash too");
    assert_eq!(laptop.logins_left(), Some(17));
    real.up();
    assert_eq!(laptop.log_in(first + 4), yes);
    daemon.line_with("offline token OFFLINE0: 4 new values");
    assert_eq!(laptop.logins_left(), Some(20));
    // The last of the first batch, then of those that came later.
    assert_eq!(laptop.log_in(first + 14), yes);
    daemon.line_with("OFFLINE0: 10 new values");
    assert_eq!(laptop.log_in(first + 24), yes);
    daemon.line_with("OFFLINE0: 10 new values");
    assert_eq!(laptop.logins_left(), Some(20));
    assert_eq!(laptop.log_in(first + 24), Verdict::Refused);
    daemon.kill();
}

#[test]
fn a_token_that_is_disabled_is_taken_back_at_the_refill() {
    let (real, _alone) = Real::alone();
    let laptop = Connected::new(real, "offgone", "[offline]\nenabled = true\n");
    laptop.set_active(true);
    let daemon = laptop.host.daemon();
    let (first, yes) = (laptop.counter(), granted("offgone"));
    assert_eq!(laptop.log_in(first), yes);
    laptop.set_active(false);
    assert_eq!(laptop.log_in(first + 1), yes, "nobody has told this host yet");
    daemon.line_with("offline token OFFGONE0: removed, the server takes it back");
    assert_eq!(laptop.logins_left(), None);
    assert_eq!(laptop.log_in(first + 2), Verdict::Refused);
    laptop.set_active(true);
}

/// Somebody has asked with this host's refill token, and the answer never came here.
#[test]
fn a_refill_whose_answer_was_lost_costs_no_values() {
    let (real, _alone) = Real::alone();
    let laptop = Connected::new(real, "offline", "[offline]\nenabled = true\n");
    let daemon = laptop.host.daemon();
    let (first, yes) = (laptop.counter(), granted("offline"));
    assert_eq!(laptop.log_in(first), yes);
    daemon.kill();
    let state = State::open(&laptop.host.path("var/lib/privacyidea-host/state.db")).unwrap();
    let basis = state.change(|transaction| transaction.refill_basis("OFFLINE0")).unwrap().unwrap();
    state.change(|transaction| transaction.set_refill_unanswered("OFFLINE0", true)).unwrap();
    drop(state);
    let password = format!("{}{}", real.pin("offline"), laptop.code(first + 1)).as_str().into();
    let refill = Refill { serial: "OFFLINE0", refill_token: &basis.refill_token, password: &password };
    assert!(matches!(client(real).refill(&refill), Ok(Refilled::Batch(_))));
    let daemon = laptop.host.daemon();
    assert_eq!(laptop.log_in(first + 1), yes);
    daemon.line_with("perhaps because the answer to an earlier request was lost");
    assert_eq!(laptop.log_in(first + 2), yes);
    assert_eq!(laptop.logins_left(), Some(18));
}

#[test]
fn a_removed_token_and_a_host_that_keeps_nothing_have_no_offline_logins() {
    let (real, _alone) = Real::alone();
    let laptop = Connected::new(real, "offline", "[offline]\nenabled = true\nrefill-below = 0\n");
    let daemon = laptop.host.daemon();
    let (first, yes) = (laptop.counter(), granted("offline"));
    assert_eq!(laptop.log_in(first), yes);
    assert_eq!(laptop.logins_left(), Some(20));
    let remove = administration::Command::TokenRemove { serial: "OFFLINE0".to_owned() };
    assert!(matches!(laptop.host.administrate(&remove), Answer::Done));
    assert_eq!(laptop.log_in(first + 1), Verdict::Refused, "used, for the server");
    daemon.kill();
    let server = Connected::new(real, "offline", "");
    let _daemon = server.host.daemon();
    assert_eq!(server.log_in(server.counter()), yes);
    server.host.syslog_line_with("offline values not kept: [offline] enabled is false");
    assert_eq!(server.logins_left(), None);
}

fn client(real: &Real) -> Client {
    let (url, ca_file) = (real.url(), real.ca_file().display());
    let settings = format!("[server]\nurl = \"{url}\"\nca-file = \"{ca_file}\"");
    Client::new(&Settings::parse(&settings).unwrap().server.unwrap(), "test")
}

/// Without a word of a first factor, what a challenge's answer brings would be a login with the code alone.
#[test]
fn pin_less_values_of_a_real_server_are_half_a_credential() {
    let (real, _alone) = Real::alone();
    let laptop = Connected::new(real, "offcode", "[offline]\nenabled = true\n");
    let client = client(real);
    let check = |password: &str, step: Step<'_>| {
        let password = password.into();
        client.check(&Check { user: "offcode", realm: None, password: &password, step, rhost: "" }).unwrap()
    };
    let Said::Challenged(challenged) = check(real.pin("offcode"), Step::First) else {
        panic!("no challenge")
    };
    let first = laptop.counter();
    let said = check(&laptop.code(first), Step::In(&challenged.transaction));
    let Said::Accepted(Accepted { offline, serial: Some(serial), .. }) = said else { panic!("{said:?}") };
    assert_eq!((offline.len(), serial.as_str()), (1, "OFFCODE0"));
    let (counter, hash) = offline[0].values.iter().next().unwrap();
    assert_eq!(*counter, first + 1);
    let hash: cache_daemon::tokens::OfflineHash = hash.parse().unwrap();
    assert!(hash.matches(laptop.code(first + 1).as_bytes()), "the code alone");
    let with_pin = format!("{}{}", real.pin("offcode"), laptop.code(first + 1));
    assert!(!hash.matches(with_pin.as_bytes()));
    // Stored as such, they let nobody in but in the services that the settings name.
    laptop.host.daemon().kill();
    let state = State::open(&laptop.host.path("var/lib/privacyidea-host/state.db")).unwrap();
    let token = OfflineToken {
        serial,
        user: "offcode".into(),
        realm: String::new(),
        code_alone: true,
        next: *counter,
        fetched: FAR_AWAY,
        failures: Failures::default(),
        last_used: None,
        left: 0,
        values: vec![OfflineValue { counter: *counter, hash }],
    };
    state.change(|transaction| transaction.replace_offline(&token, &offline[0].refill_token)).unwrap();
    drop(state);
    real.down();
    let daemon = laptop.host.daemon();
    assert_eq!(laptop.host.log_in("offcode", &laptop.code(first + 1)), Verdict::Unavailable);
    daemon.kill();
    laptop.write_settings("[offline]\nenabled = true\nsecond-factor-services = [\"sudo\"]\n");
    let _daemon = laptop.host.daemon();
    assert_eq!(laptop.host.log_in("offcode", &laptop.code(first + 1)), Verdict::Unavailable, "sshd");
    let mut stream = laptop.host.connect_auth();
    let sudo = Login { service: "sudo".to_owned(), ..login("offcode") };
    stream.send_request(&Request::Login(sudo), soon()).unwrap();
    assert_eq!(answer(&mut stream, &laptop.code(first + 1)).unwrap(), granted("offcode"));
    real.up();
}
