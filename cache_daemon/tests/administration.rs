//! The whole command line in this process, against a daemon that says what the test wants.

mod fake_daemon;

use std::sync::atomic::{AtomicUsize, Ordering};

use cache_daemon::administration::{Answer, AuditRecord, CacheRecord, Command, TokenKind, TokenRecord};
use fake_daemon::{Host, confirmed, enrolled, refusal, token};
use serde_json::{Value, json};

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

#[test]
fn a_token_is_enrolled_shown_and_proven() {
    let mut host = Host::new(|command| match command {
        Command::TokenEnrol(enrolment) => {
            assert_eq!((enrolment.user.as_str(), enrolment.pin.as_str()), ("alice", ""));
            assert!(!enrolment.active && enrolment.seed.is_none());
            enrolled()
        }
        Command::TokenConfirm { serial, code } if serial == "TOTP0001" && code == "123456" => confirmed(),
        Command::TokenConfirm { .. } => refusal("That is not the code of this minute."),
        _ => refusal("unexpected"),
    });
    host.is_terminal = true;
    host.answers = vec!["111111".to_owned(), " 123 456".to_owned()];
    let done = host.run(&["token", "enrol", "alice"]);
    assert_eq!(done.status, 0, "{}", done.errors);
    assert!(done.output.contains("otpauth://totp/") && done.output.contains('\u{2588}'));
    assert!(done.output.contains("Works. TOTP0001 of alice is active."), "{}", done.output);
    assert!(done.errors.contains("That is not the code of this minute."));
    assert_eq!(done.asked.len(), 2);
}

#[test]
fn the_qr_code_is_drawn_where_it_is_wanted() {
    let mut host = Host::new(|_| enrolled());
    let drawn = |done: fake_daemon::Done| done.output.contains('\u{2588}');
    assert!(!drawn(host.run(&["token", "enrol", "alice"])), "a file");
    assert!(drawn(host.run(&["token", "enrol", "alice", "--qr", "always"])));
    host.is_terminal = true;
    assert!(!drawn(host.run(&["token", "enrol", "alice", "--qr", "never"])));
}

#[test]
fn three_wrong_codes_leave_the_token_for_later() {
    let mut host = Host::new(|command| match command {
        Command::TokenEnrol(_) => enrolled(),
        _ => refusal("No."),
    });
    host.is_terminal = true;
    host.answers = vec!["1".to_owned(); 9];
    let done = host.run(&["token", "enrol", "alice"]);
    assert_eq!((done.status, done.asked.len()), (1, 3));
    assert!(done.errors.contains("token confirm TOTP0001") && done.errors.contains("token remove TOTP0001"));
}

#[test]
fn json_asks_nothing_and_is_the_daemons_answer() {
    let mut host = Host::new(|command| match command {
        Command::TokenEnrol(enrolment)
            if enrolment.pin == "1234" && enrolment.seed.as_deref() == Some("GEZDGNBV") =>
        {
            enrolled()
        }
        _ => refusal("unexpected"),
    });
    host.lines = vec!["1234".to_owned(), "GEZD GNBV".to_owned()];
    let done = host.run(&["token", "enrol", "alice", "--pin-from-stdin", "--seed-from-stdin", "--json"]);
    assert_eq!((done.status, done.asked.len()), (0, 0), "{}", done.errors);
    let expected = json!({
        "answer": "enrolled",
        "token": {
            "serial": "TOTP0001", "user": "alice", "kind": "totp", "description": "", "digits": 6,
            "algorithm": "sha1", "period": 30, "has-pin": false, "pin-position": "before", "active": false,
            "failcount": 0, "locked": false, "locked-until": null, "codes-left": null,
            "enrolled": 1_700_000_000, "last-used": null
        },
        "otpauth": "otpauth://totp/host:alice?secret=GEZDGNBVGY3TQOJQ&issuer=host",
        "codes": []
    });
    assert_eq!(document(&done.output), expected);
}

#[test]
fn recovery_codes_are_in_the_same_object_whatever_becomes_of_them() {
    let codes = |kind: TokenKind| match kind {
        TokenKind::RecoveryCodes => {
            let token = TokenRecord { serial: "RC0001".into(), kind, ..token() };
            Answer::Enrolled { token, otpauth: None, codes: vec!["AAAA-BBBB".into()] }
        }
        _ => enrolled(),
    };
    let mut host = Host::new(move |command| match command {
        Command::TokenEnrol(enrolment) => codes(enrolment.kind),
        _ => refusal("unexpected"),
    });
    let enrol = ["token", "enrol", "alice", "--recovery-codes", "--json"];
    let done = host.run(&enrol);
    let answer = document(&done.output);
    assert_eq!((done.status, &answer["token"]["serial"]), (0, &json!("TOTP0001")), "{}", done.errors);
    let both = (&answer["recovery-codes"]["token"]["serial"], &answer["recovery-codes"]["codes"]);
    assert_eq!(both, (&json!("RC0001"), &json!(["AAAA-BBBB"])));

    let mut host = Host::new(|command| match command {
        Command::TokenEnrol(enrolment) if enrolment.kind == TokenKind::Totp => enrolled(),
        _ => refusal("the disk is full"),
    });
    let done = host.run(&enrol);
    let answer = document(&done.output);
    assert_eq!((done.status, &answer["answer"]), (1, &json!("enrolled")));
    assert!(answer["otpauth"].as_str().unwrap().contains("secret="), "{answer}");
    assert!(answer["recovery-codes"]["reason"].as_str().unwrap().contains("disk is full"), "{answer}");
}

#[test]
fn what_nobody_can_be_asked_for_is_a_wrong_command_line() {
    let mut host = Host::new(|_| refusal("unexpected"));
    for arguments in [
        &["token", "enrol", "alice", "--pin"][..],
        &["token", "enrol", "alice", "--pin", "--json"],
        &["token", "enrol", "alice", "--type", "simple-pass"],
        &["token", "enrol", "alice", "--type", "simple-pass", "--seed-from-stdin"],
        &["token", "set-pin", "TOTP0001"],
        &["token", "confirm", "TOTP0001"],
    ] {
        let done = host.run(arguments);
        assert_eq!(done.status, 2, "{arguments:?}");
        assert!(done.errors.starts_with("privacyidea-host: "), "{}", done.errors);
        assert_eq!(done.errors.lines().count(), 1, "{}", done.errors);
    }
}

#[test]
fn a_pin_is_typed_twice_and_never_shown() {
    let mut host = Host::new(|command| match command {
        Command::TokenSetPin { pin, .. } if pin == "1234" => confirmed(),
        _ => refusal("unexpected"),
    });
    host.is_terminal = true;
    host.answers = ["1234", "1235", "1234", "1234"].map(str::to_owned).to_vec();
    let done = host.run(&["token", "set-pin", "TOTP0001"]);
    assert_eq!(done.status, 0, "{}", done.errors);
    assert!(done.asked.len() == 4 && done.asked.iter().all(|(_, echo)| !echo));
    assert!(!done.output.contains("1234") && !done.errors.contains("1234"));
}

#[test]
fn a_removal_is_asked_for() {
    let mut host = Host::new(|command| match command {
        Command::TokenList { .. } => Answer::Tokens { tokens: vec![token()], offline: Vec::new() },
        Command::TokenRemove { serial } if serial == "TOTP0001" => Answer::Done,
        _ => refusal("unexpected"),
    });
    assert_eq!(host.run(&["token", "remove", "TOTP0001"]).status, 2, "nobody is there");
    assert_eq!(host.run(&["token", "remove", "TOTP0001", "--yes"]).status, 0);
    host.is_terminal = true;
    host.answers = vec!["n".to_owned()];
    let done = host.run(&["token", "remove", "TOTP0001"]);
    assert_eq!(done.status, 1);
    assert!(done.asked[0].0.contains("TOTP0001 of alice"));
    host.answers = vec!["y".to_owned()];
    assert_eq!(host.run(&["token", "remove", "TOTP0001"]).status, 0);
    assert_eq!(host.run(&["token", "remove", "TOTP0002"]).status, 1, "there is no such token");
}

#[test]
fn a_refusal_is_status_1_and_one_sentence_for_people_and_for_programs() {
    let mut host = Host::new(|_| refusal("There is no user \u{1b}[2Jmallory. Add one."));
    let done = host.run(&["token", "enrol", "mallory"]);
    assert_eq!((done.status, done.output.as_str()), (1, ""));
    assert_eq!(done.errors, "privacyidea-host: There is no user ?[2Jmallory. Add one.\n");
    let done = host.run(&["token", "enrol", "mallory", "--json"]);
    assert_eq!((done.status, &document(&done.output)["answer"]), (1, &json!("refused")));
}

#[test]
fn who_is_not_root_is_told_so() {
    let done = Host::not_allowed().run(&["token", "list"]);
    assert_eq!(done.status, 1);
    assert!(done.errors.contains("Only root"), "{}", done.errors);
}

#[test]
fn a_daemon_that_is_not_there_is_status_3() {
    let mut host = Host::without_daemon();
    for arguments in [&["token", "list"][..], &["status"], &["cache", "flush"], &["log"]] {
        let done = host.run(arguments);
        assert_eq!(done.status, 3, "{arguments:?}");
        assert!(done.errors.contains("cannot be reached") && done.errors.contains("systemctl start"));
    }
    let done = host.run(&["token", "list", "--json"]);
    assert_eq!((done.status, &document(&done.output)["answer"]), (3, &json!("unreachable")));
}

#[test]
fn a_daemon_that_talks_rubbish_or_hangs_up_is_status_3() {
    for mut host in [Host::rubbish(), Host::hangs_up()] {
        let done = host.run(&["token", "list"]);
        assert_eq!(done.status, 3, "{}", done.errors);
    }
}

#[test]
fn root_has_the_daemon_started_for_one_answer() {
    let mut host = Host::without_daemon();
    let script = "#!/bin/sh\n[ \"$*\" = --once ] || exit 9\n[ -S /proc/self/fd/0 ] || exit 8\nexit 7\n";
    host.once = Some(host.script(script));
    let done = host.run(&["token", "list"]);
    assert_eq!(done.status, 3);
    assert!(done.errors.contains("exit status: 7"), "{}", done.errors);
}

#[test]
fn lists_are_tables() {
    let mut host = Host::new(|command| match command {
        Command::TokenList { .. } => Answer::Tokens { tokens: vec![token()], offline: Vec::new() },
        Command::CacheList => {
            Answer::Cache { entries: ["user", "absent-user"].map(|kind| entry(kind, "bob")).to_vec() }
        }
        Command::Audit { after: None, user, since, limit: 50 }
            if user.as_deref() == Some("alice") && since == fake_daemon::NOW - 7200 =>
        {
            Answer::Audit { events: vec![event(0, "later"), event(1, "earlier")] }
        }
        _ => refusal("unexpected"),
    });
    let done = host.run(&["token", "list"]);
    let expected = "\
SERIAL    USER   TYPE  STATE          LAST USE  DESCRIPTION
TOTP0001  alice  totp  not confirmed  never
";
    assert_eq!(done.output, expected);
    let done = host.run(&["cache", "list"]);
    assert_eq!(done.output.lines().nth(1), Some("user         bob   5000  files     in 10 minutes"));
    assert_eq!(host.run(&["user", "list"]).output, "NAME  UID   RESOLVER\nbob   5000  files\n");
    let done = host.run(&["log", "alice", "--since", "2h"]);
    assert_eq!(done.output, "2023-11-14 22:13:19  earlier\n2023-11-14 22:13:20  later\n");
}

#[test]
fn the_log_is_followed_until_the_reader_has_gone() {
    let answer = |command| match command {
        Command::Audit { after: None, limit: 1, .. } => Answer::Audit { events: vec![event(2, "older")] },
        Command::Audit { after: None, .. } => Answer::Audit { events: vec![event(1, "known")] },
        Command::Audit { after: Some(999), .. } => Answer::Audit { events: vec![event(0, "new")] },
        Command::Audit { after: Some(1000), .. } => Answer::Audit { events: Vec::new() },
        _ => refusal("unexpected"),
    };
    let done = Host::new(answer).run(&["log", "--follow"]);
    assert_eq!(done.output, "2023-11-14 22:13:19  known\n2023-11-14 22:13:20  new\n");
    let done = Host::new(answer).run(&["log", "-f", "--json"]);
    let texts: Vec<_> = done.output.lines().map(|line| document(line)["text"].clone()).collect();
    assert_eq!(texts, [json!("known"), json!("new")]);
}

#[test]
fn a_flush_says_whether_anybody_knows_the_user() {
    let mut host = Host::new(|command| match command {
        Command::CacheFlush { user } => Answer::Flushed { known: user.map(|name| name == "bob") },
        _ => refusal("unexpected"),
    });
    assert_eq!(host.run(&["cache", "flush"]).output, "Everything is read anew.\n");
    assert_eq!(host.run(&["cache", "flush", "bob"]).output, "bob is read anew.\n");
    let done = host.run(&["cache", "flush", "eve"]);
    assert_eq!(
        (done.status, done.output.as_str()),
        (0, "No resolver has a user eve; programs see that now.\n")
    );
    assert_eq!(document(&host.run(&["cache", "flush", "eve", "--json"]).output)["known"], json!(false));
}

#[test]
fn a_user_is_added_and_removed_at_once() {
    let mut host = Host::new(|command| match command {
        Command::CacheFlush { user } if user.as_deref() == Some("bob") => {
            Answer::Flushed { known: Some(true) }
        }
        Command::TokenList { .. } => Answer::Tokens { tokens: vec![token()], offline: Vec::new() },
        _ => refusal("unexpected"),
    });
    let done = host.run(&["user", "add", "bob", "--full-name", "Bob Example", "--uid", "5000", "--json"]);
    assert_eq!(done.status, 0, "{}", done.errors);
    let user = &document(&done.output)["user"];
    assert_eq!((&user["uid"], &user["home"]), (&json!(5000), &json!("/home/bob")));
    assert_eq!(host.users_file(), "bob:x:5000:5000:Bob Example:/home/bob:/bin/bash\n");
    let done = host.run(&["user", "add", "bob"]);
    assert_eq!((done.status, done.output.as_str()), (1, ""));
    assert!(done.errors.contains("bob"), "{}", done.errors);

    assert_eq!(host.run(&["user", "remove", "bob"]).status, 2, "nobody is there to be asked");
    let done = host.run(&["user", "remove", "bob", "--yes"]);
    assert_eq!((done.status, host.users_file().as_str()), (0, ""), "{}", done.errors);
    assert!(done.errors.contains("TOTP0001"), "tokens that are left are named: {}", done.errors);
    assert_eq!(host.run(&["user", "remove", "bob", "--yes"]).status, 1);
}

#[test]
fn a_changed_users_file_without_a_daemon_is_said() {
    let mut host = Host::without_daemon();
    let done = host.run(&["user", "add", "bob"]);
    assert_eq!(done.status, 0, "{}", done.errors);
    assert!(done.errors.contains("only after a while"), "{}", done.errors);
    assert!(host.users_file().starts_with("bob:x:"));
}

#[test]
fn a_login_is_tried_by_the_pam_application() {
    let asked = AtomicUsize::new(0);
    let mut host = Host::new(move |command| match command {
        // Before the login: another one in the same second.
        Command::Audit { .. } if asked.fetch_add(1, Ordering::SeqCst) % 2 == 0 => {
            Answer::Audit { events: vec![event(0, "PIH-AUTH-001 alice: granted, earlier service=sshd")] }
        }
        Command::Audit { .. } => {
            let line = |user| format!("PIH-AUTH-010 {user}: refused, wrong code service=sshd");
            let earlier = event(0, "PIH-AUTH-001 alice: granted, earlier service=sshd");
            Answer::Audit { events: vec![event(0, &line("alice")), event(0, &line("bob")), earlier] }
        }
        _ => refusal("unexpected"),
    });
    host.pam_transaction = host
        .script("#!/bin/sh\n[ \"$*\" = '--service sshd --user alice --rhost ::1 --answers-from-stdin' ]\n");
    host.pam_service("sshd");
    let done = host.run(&["test-login", "alice", "--rhost", "::1"]);
    assert_eq!(done.status, 0, "{}", done.errors);
    assert!(done.output.contains("would let alice in") && done.output.contains("PIH-AUTH-010 alice"));
    assert!(!done.output.contains("bob") && !done.output.contains("earlier"), "{}", done.output);
    let done = host.run(&["test-login", "alice"]);
    assert_eq!(done.status, 1, "the application said no");
    assert!(done.output.contains("privacyidea-host token list alice"), "{}", done.output);
    assert_eq!(host.run(&["test-login", "alice", "--service", "missing"]).status, 1);
    assert_eq!(host.run(&["test-login", "alice", "--service", "../sshd"]).status, 2);
}

fn entry(kind: &str, name: &str) -> CacheRecord {
    CacheRecord {
        kind: kind.to_owned(),
        name: name.to_owned(),
        id: Some(5000),
        resolver: "files".to_owned(),
        expires: fake_daemon::NOW + 600,
    }
}

fn event(seconds_ago: u64, text: &str) -> AuditRecord {
    AuditRecord {
        id: 1000 - seconds_ago,
        time: fake_daemon::NOW - seconds_ago,
        number: 10,
        user: text.split([' ', ':']).nth(1).map(str::to_owned),
        service: "sshd".to_owned(),
        rhost: String::new(),
        tty: String::new(),
        verdict: Some("refused".to_owned()),
        method: None,
        token: None,
        granted: false,
        text: text.to_owned(),
    }
}
