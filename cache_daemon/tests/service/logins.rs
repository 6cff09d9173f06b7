//! Logins over the socket and over `--once`.

use std::io::Write;
use std::process::Stdio;

use cache_daemon::administration::{Answer, Command, TokenKind};
use privacyidea_contract::wire::{Login, Lookup, Reply, Request, Verdict};

use crate::harness::*;

#[test]
fn a_token_lets_its_user_in_once_for_each_code() {
    let host = host();
    let daemon = host.daemon();
    let serial = host.enrol("carla");
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    let line = host.syslog_line_with("sshd");
    // authpriv.info
    assert!(line.starts_with(&format!("<86>privacyidea-cached[{}]: ", daemon.pid())), "{line}");
    assert!(line.contains("carla") && line.contains(&serial) && line.contains("rhost=192.0.2.7"), "{line}");
    assert_eq!(host.log_in("carla", CODES[0]), Verdict::Refused);
    let line = host.syslog_line_with("sshd");
    // authpriv.notice
    assert!(line.starts_with("<85>") && !line.contains(CODES[0]), "{line}");
}

#[test]
fn users_of_a_resolver_log_in_and_are_found() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("resi");
    assert_eq!(host.log_in("resi", CODES[0]), granted("resi"));
    let mut stream = host.connect_lookup();
    stream.send_request(&Request::Lookup(Lookup::PasswdByName("resi".to_owned())), soon()).unwrap();
    let Reply::Passwd(entry) = stream.receive_reply(soon()).unwrap() else { panic!("no entry") };
    assert_eq!((entry.uid, entry.home.as_str()), (20001, "/home/resi"));
}

#[test]
fn once_serves_a_login_with_the_same_tokens_and_the_same_memory() {
    let host = host();
    let daemon = host.daemon();
    host.enrol("carla");
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    daemon.kill();
    for (code, verdict) in
        [(CODES[0], Verdict::Refused), (CODES[1], granted("carla")), (CODES[1], Verdict::Refused)]
    {
        let (mut stream, mut child) = host.once("");
        assert_eq!(log_in(&mut stream, "carla", code), verdict);
        assert!(child.wait().unwrap().success());
    }
    let _daemon = host.daemon();
    assert_eq!(host.log_in("carla", CODES[1]), Verdict::Refused);
    assert_eq!(host.log_in("carla", CODES[2]), granted("carla"));
}

#[test]
fn daemon_and_once_grant_a_code_to_one_of_them() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    for code in &CODES[..4] {
        let (mut once, mut child) = host.once("");
        let mut over_socket = host.connect_auth();
        begin(&mut once, "carla");
        begin(&mut over_socket, "carla");
        // Both know all but the code: from here they race.
        let verdicts = std::thread::scope(|scope| {
            [&mut once, &mut over_socket]
                .map(|stream| {
                    scope.spawn(move || {
                        stream.send_request(&Request::Answer((*code).into()), soon()).unwrap();
                        answer(stream, code).unwrap()
                    })
                })
                .map(|login| login.join().unwrap())
        });
        let count = verdicts.iter().filter(|verdict| **verdict == granted("carla")).count();
        assert_eq!(count, 1, "{verdicts:?}");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_code_is_used_up_even_if_the_daemon_dies_right_after_it_said_yes() {
    let host = host();
    let daemon = host.daemon();
    host.enrol("carla");
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    daemon.kill();
    let _daemon = host.daemon();
    assert_eq!(host.log_in("carla", CODES[0]), Verdict::Refused);
    assert_eq!(host.log_in("carla", CODES[1]), granted("carla"));
}

#[test]
fn a_full_disk_is_a_fault_and_never_a_grant() {
    let host = host();
    let prepare =
        "mkdir -p /var/lib/privacyidea-host && mount -t tmpfs -o size=512k tmpfs /var/lib/privacyidea-host";
    let daemon = host.daemon_after(prepare, &["/etc/daemon"], std::process::Stdio::null());
    host.enrol("carla");
    assert_eq!(host.log_in("carla", CODES[0]), granted("carla"));
    let pid = daemon.pid().as_raw_nonzero().to_string();
    let in_its_namespace = |script: &str| {
        let arguments = ["--mount", "--target", &pid, "sh", "-c", script];
        std::process::Command::new("nsenter").args(arguments).output().unwrap()
    };
    let full = in_its_namespace("yes > /var/lib/privacyidea-host/filler");
    assert!(String::from_utf8_lossy(&full.stderr).contains("No space"), "{full:?}");
    assert_eq!(host.log_in("carla", CODES[1]), Verdict::Failed);
    assert!(in_its_namespace("rm /var/lib/privacyidea-host/filler").status.success());
    assert_eq!(host.log_in("carla", CODES[1]), granted("carla"));
}

#[test]
fn wrong_settings_make_once_fail_and_say_why() {
    let host = host();
    host.write_settings("[server]\nurl = \"http://example.org\"\n");
    let (mut stream, mut child) = host.once("");
    stream.send_request(&Request::Login(login("carla")), soon()).unwrap();
    assert_eq!(answer(&mut stream, CODES[0]).unwrap(), Verdict::Unavailable);
    assert!(child.wait().unwrap().success());
    let line = host.syslog_line();
    // daemon.err
    assert!(line.starts_with("<27>") && line.contains("config.toml") && line.contains("url"), "{line}");
    // Root at the command line reads it there.
    let (mut stream, mut child) = host.once("");
    let Answer::Refused { reason } = administrate(&mut stream, &Command::Status) else {
        panic!("another answer")
    };
    assert!(line.ends_with(&reason) && reason.contains("http://example.org"), "{reason}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_login_without_anybody_to_ask_gets_no_question() {
    let host = host();
    let _daemon = host.daemon();
    host.enrol("carla");
    let mut stream = host.connect_auth();
    let mut silent = login("carla");
    silent.may_ask = false;
    silent.password = Some(CODES[0].into());
    stream.send_request(&Request::Login(silent), soon()).unwrap();
    let Reply::Verdict(verdict) = stream.receive_reply(soon()).unwrap() else { panic!("a question") };
    assert_eq!(verdict, granted("carla"));
}

/// With room for a success and none for a failure, wrong codes would be refused uncounted until the right one lets in.
#[test]
fn no_amount_of_room_on_the_disk_makes_guesses_free() {
    let host = host();
    let disk = "mount -t tmpfs -o size=1m,mode=755 tmpfs /var/lib";
    let daemon = host.daemon_after(disk, &["/etc/daemon"], Stdio::null());
    let serial = host.enrol("carla");
    let mut codes = enrolment("carla");
    if let Command::TokenEnrol(enrolment) = &mut codes {
        enrolment.kind = TokenKind::RecoveryCodes;
        enrolment.seed = None;
    }
    assert!(matches!(host.administrate(&codes), Answer::Enrolled { .. }));
    let failures = || match host.administrate(&Command::TokenList { user: None }) {
        Answer::Tokens { tokens, .. } => {
            tokens.iter().find(|token| token.serial == serial).unwrap().failcount
        }
        _ => panic!("another answer"),
    };
    let log_in = |code: &str, rhost: &str| {
        let mut stream = host.connect_auth();
        let request = Login { rhost: rhost.to_owned(), ..login("carla") };
        stream.send_request(&Request::Login(request), soon()).unwrap();
        answer(&mut stream, code).unwrap()
    };
    let filler = format!("/proc/{}/root/var/lib/filler", daemon.pid().as_raw_nonzero());
    let mut codes = CODES.iter();
    for pages in 0..8 {
        let mut file = std::fs::File::create(&filler).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        let full = file.metadata().unwrap().len();
        file.set_len(full - pages * 4096).unwrap();
        let (before, rhost) = (failures(), format!("192.0.2.{pages}"));
        let wrong = log_in("000000", &rhost);
        let is_counted = failures() > before;
        assert_eq!(wrong, if is_counted { Verdict::Refused } else { Verdict::Failed }, "{pages} pages");
        let right = log_in(codes.next().unwrap(), &rhost);
        assert!(is_counted || right != granted("carla"), "guesses are free with {pages} pages left");
    }
}
