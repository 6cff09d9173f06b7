//! Logins without the server, with the real daemon: in order, once each, whatever is killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use cache_daemon::administration::{self, Answer, OfflineRecord};
use cache_daemon::store::State;
use cache_daemon::tokens::{Algorithm, Failures, OfflineToken, OfflineValue, hotp};
use privacyidea_contract::wire::{Login, Reply, Request, Verdict};
use rustix::process::Signal;

use crate::harness::*;

mod with_server;

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
    state.change(|transaction| transaction.replace_offline(&token, "none")).unwrap();
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

/// Kills `daemon` as one of its threads, or the one named `thread`, enters the system call `call` for the `number`th time
/// from now; returns when that is prepared.
fn kill_at(daemon: &Daemon, thread: Option<&str>, call: &str, number: u32) -> std::process::Child {
    let pid = daemon.pid().as_raw_nonzero().to_string();
    let of_the_thread = |name: &str| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap());
        let task = tasks.filter(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        });
        vec!["-p".to_owned(), task.last().expect("the thread").file_name().into_string().unwrap()]
    };
    let whom = thread.map_or_else(|| vec!["-f".to_owned(), "-p".to_owned(), pid.clone()], of_the_thread);
    let mut strace = Command::new("strace")
        .args(["-o", "/dev/null"])
        .args(whom)
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
            let mut strace = kill_at(&daemon, None, call, number);
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
