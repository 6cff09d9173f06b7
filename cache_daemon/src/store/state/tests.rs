use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use privacyidea_contract::Secret;
use privacyidea_contract::wire::Verdict;

use super::*;
use crate::administration::TokenKind;
use crate::authentication::{Event, Method};
use crate::tokens::{Algorithm, Credential, Otp, PinHash, PinPosition, RecoveryCode, Resync, Token};

fn token(serial: &str, credential: Credential) -> Token {
    Token {
        serial: serial.into(),
        user: "alice".into(),
        description: "her phone".into(),
        credential,
        pin: None,
        pin_position: PinPosition::After,
        active: true,
        failcount: 3,
        last_failure: Some(5),
        enrolled: 1,
        last_used: None,
    }
}

fn otp() -> Otp {
    Otp::new(Secret::new(vec![9; 20]), Algorithm::Sha512, 8).unwrap()
}

#[test]
fn tokens_come_back_as_they_went() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let state = State::open(&path).unwrap();
    let codes: Vec<_> = (0..3_u8).map(|n| RecoveryCode::from_random(&[n; 10]).hash()).collect();
    let resync = Some(Resync { counter: 77, drift: -4 });
    state
        .change(|transaction| {
            let hotp = token("HOTP0001", Credential::Hotp { otp: otp(), next: 7, resync: None });
            transaction.put(&Token { pin: Some(PinHash::new(b"1234", &[1; 16]).unwrap()), ..hotp })?;
            let totp = Credential::Totp { otp: otp(), period: 60, next: 9, drift: -2, resync };
            transaction.put(&token("TOTP0001", totp))?;
            transaction.put(&token("RECOVERY0001", Credential::RecoveryCodes { unused: codes.clone() }))
        })
        .unwrap();
    drop(state);
    let tokens = State::open(&path).unwrap().tokens(Some("alice")).unwrap();
    let [hotp, recovery, totp] = &tokens[..] else { panic!("three tokens by serial") };
    assert!(matches!(&hotp.credential, Credential::Hotp { otp, next: 7, resync: None }
        if otp.digits() == 8 && otp.algorithm() == Algorithm::Sha512 && otp.seed().expose() == [9; 20]));
    assert!(hotp.pin.as_ref().is_some_and(|pin| pin.matches(b"1234")));
    assert!(
        matches!(&totp.credential, Credential::Totp { period: 60, next: 9, drift: -2, resync: found, .. }
        if *found == resync)
    );
    let Credential::RecoveryCodes { unused } = &recovery.credential else { panic!("its kind") };
    assert_eq!(unused.len(), codes.len());
    assert!(codes.iter().all(|code| unused.contains(code)));
    assert_eq!((hotp.failcount, hotp.last_failure, hotp.description.as_str()), (3, Some(5), "her phone"));
}

#[test]
fn the_file_is_the_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let state = State::open(&path).unwrap();
    state.change(|transaction| transaction.put(&token("SPASS0001", Credential::SimplePass))).unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}

#[test]
fn the_switch_to_write_ahead_logging_waits_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (x); BEGIN; SELECT * FROM t;").unwrap();
    let ours = Connection::open(&path).unwrap();
    ours.busy_timeout(Duration::ZERO).unwrap();
    let (patience, start) = (Duration::from_millis(200), Instant::now());
    assert!(matches!(enter_wal(&ours, patience), Err(StoreError::Database(_))));
    assert!(start.elapsed() >= patience);
    other.execute_batch("COMMIT").unwrap();
    enter_wal(&ours, patience).unwrap();
}

#[test]
fn a_newer_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    drop(State::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(State::open(&path), Err(StoreError::Newer { found: 99 })));
}

#[test]
fn serials_never_come_again() {
    let directory = tempfile::tempdir().unwrap();
    let state = State::open(&directory.path().join("state.db")).unwrap();
    let next = |kind| state.change(|transaction| transaction.next_serial(kind)).unwrap();
    assert_eq!(next(TokenKind::Totp), "TOTP0001");
    state.change(|transaction| transaction.put(&token("TOTP0001", Credential::SimplePass))).unwrap();
    assert!(state.change(|transaction| transaction.remove("TOTP0001")).unwrap());
    assert_eq!(next(TokenKind::Totp), "TOTP0002");
    assert_eq!(next(TokenKind::Hotp), "HOTP0001");
}

#[test]
fn the_throttle_forgets_the_oldest_and_keeps_no_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let state = State::open(&path).unwrap();
    state
        .change(|transaction| {
            for last in 0..10_050 {
                let throttle = Throttle { failures: 1, last, until: 0 };
                transaction.set_throttle(&format!("secret-name-{last}"), "192.0.2.1", Some(throttle))?;
            }
            assert!(transaction.throttle("secret-name-0", "192.0.2.1")?.is_none());
            assert!(transaction.throttle("secret-name-10049", "192.0.2.1")?.is_some());
            assert!(transaction.throttle("secret-name-10049", "192.0.2.2")?.is_none());
            Ok(())
        })
        .unwrap();
    drop(state);
    let bytes = std::fs::read(path).unwrap();
    assert!(!bytes.windows(11).any(|window| window == b"secret-name"));
}

#[test]
fn the_audit_lists_the_latest_first() {
    let directory = tempfile::tempdir().unwrap();
    let state = State::open(&directory.path().join("state.db")).unwrap();
    for (time, user) in [(10, Some("alice")), (20, None), (30, Some("alice"))] {
        let event = Event {
            number: 1,
            time,
            user: user.map(str::to_owned),
            service: "sshd".into(),
            rhost: String::new(),
            tty: String::new(),
            text: format!("at {time}"),
            verdict: Some(Verdict::Refused),
            method: Some(Method::Server),
            token: Some("PI1".into()),
        };
        state.audit(&event).unwrap();
    }
    let times = |user, since, limit| -> Vec<_> {
        state.audited(user, since, limit).unwrap().into_iter().map(|record| record.time).collect()
    };
    assert_eq!(times(None, 0, 10), [30, 20, 10]);
    assert_eq!(times(Some("alice"), 0, 1), [30]);
    assert!(times(Some("alice"), 31, 9).is_empty());
    let after = |id, user| -> Vec<_> {
        state.audited_after(id, user, 2).unwrap().into_iter().map(|record| record.time).collect()
    };
    assert_eq!((after(0, None), after(1, Some("alice"))), (vec![10, 20], vec![30]));
    let [record] = &state.audited_after(2, None, 9).unwrap()[..] else { panic!("one") };
    let words = (record.verdict.as_deref(), record.method.as_deref(), record.token.as_deref());
    assert_eq!(words, (Some("refused"), Some("server"), Some("PI1")));
    assert_eq!((record.number, record.service.as_str(), record.granted), (1, "sshd", false));
}

#[test]
fn a_database_of_the_first_version_becomes_todays_and_keeps_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let first = Connection::open(&path).unwrap();
    first.execute_batch(schema::MIGRATIONS[0]).unwrap();
    first
        .execute("INSERT INTO audit (time, user, granted, text) VALUES (7, 'alice', 1, 'a line')", [])
        .unwrap();
    first.pragma_update(None, "user_version", 1).unwrap();
    drop(first);
    let state = State::open(&path).unwrap();
    let [record] = &state.audited(Some("alice"), 0, 9).unwrap()[..] else { panic!("one") };
    assert_eq!((record.time, record.granted, record.text.as_str()), (7, true, "a line"));
    assert_eq!((record.number, record.verdict.as_ref(), record.method.as_ref()), (0, None, None));
}

#[test]
fn the_audit_does_not_wait_for_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let state = State::open(&directory.path().join("state.db")).unwrap();
    let event = Event {
        number: 1,
        time: 0,
        user: None,
        service: String::new(),
        rhost: String::new(),
        tty: String::new(),
        text: String::new(),
        verdict: Some(Verdict::Refused),
        method: None,
        token: None,
    };
    state.audit(&event).unwrap();
    assert!(!state.has_waited());
    state.change(|_| Ok(())).unwrap();
    assert!(state.has_waited());
}

/// The other half of [`a_killed_process_leaves_all_or_nothing`]: this test binary again, which changes one token without
/// end until it is killed.
#[test]
fn changes_until_killed() {
    let Some(path) =
        std::env::args().find_map(|argument| argument.strip_prefix("--skip=state:").map(str::to_owned))
    else {
        return;
    };
    let state = State::open(Path::new(&path)).unwrap();
    for next in 1.. {
        state
            .change(|transaction| {
                transaction.put(&token("HOTP0001", Credential::Hotp { otp: otp(), next, resync: None }))?;
                transaction.put(&token("HOTP0002", Credential::Hotp { otp: otp(), next, resync: None }))
            })
            .unwrap();
        println!("committed {next}");
    }
}

#[test]
fn a_killed_process_leaves_all_or_nothing() {
    use std::io::BufRead;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    for round in 1..6_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["store::state::tests::changes_until_killed", "--exact", "--nocapture"])
            .arg(format!("--skip=state:{}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let mut committed = lines.map_while(Result::ok).filter_map(|line| {
            line.rsplit_once("committed ").map(|(_, number)| number.parse::<u64>().unwrap())
        });
        assert_eq!(committed.nth(round * 7).map(|number| number > 0), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        let last_said = committed.last().unwrap_or(round as u64 * 7);
        let nexts: Vec<_> = State::open(&path)
            .unwrap()
            .tokens(None)
            .unwrap()
            .into_iter()
            .map(|token| match token.credential {
                Credential::Hotp { next, .. } => next,
                _ => panic!("two HOTP tokens"),
            })
            .collect();
        assert_eq!(nexts[0], nexts[1], "half a change");
        assert!(nexts[0] >= last_said, "what was said to be committed is lost");
    }
}
