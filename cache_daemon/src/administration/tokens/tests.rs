use super::*;
use crate::administration::PinPosition;
use crate::service::clock::FixedClock;
use crate::store::{Throttle, Transaction};
use crate::tokens::{OfflineToken, OfflineValue, hotp};

const SEED: &str = "gezd gnbv-gy3t qojq gezd gnbv gy3t qojq====";

struct Rig {
    _directory: tempfile::TempDir,
    state: State,
    settings: Settings,
    clock: FixedClock,
}

impl Rig {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(&directory.path().join("state.db")).unwrap();
        Self { _directory: directory, state, settings: Settings::default(), clock: FixedClock::at(3000) }
    }

    fn answer(&self, command: &Command) -> Answer {
        execute(command, &self.state, &self.settings, &OnlyAlice, &self.clock)
    }

    fn enrolled(&self, enrolment: Enrolment) -> (TokenRecord, Option<String>, Vec<String>) {
        match self.answer(&Command::TokenEnrol(enrolment)) {
            Answer::Enrolled { token, otpauth, codes } => (token, otpauth, codes),
            other => panic!("{}", serde_json::to_string(&other).unwrap()),
        }
    }

    fn refused(&self, command: &Command) -> String {
        match self.answer(command) {
            Answer::Refused { reason } => reason,
            other => panic!("not refused: {}", serde_json::to_string(&other).unwrap()),
        }
    }

    fn token(&self, command: &Command) -> TokenRecord {
        match self.answer(command) {
            Answer::Token { token } => token,
            other => panic!("{}", serde_json::to_string(&other).unwrap()),
        }
    }
}

struct OnlyAlice;

impl Accounts for OnlyAlice {
    fn account(&self, name: &str) -> Result<Account, String> {
        Ok(if name == "alice" { Account::Local { uid: 1000 } } else { Account::Unknown })
    }
}

fn enrolment(kind: TokenKind) -> Enrolment {
    Enrolment {
        user: "alice".into(),
        kind,
        digits: 6,
        algorithm: Algorithm::Sha1,
        period: 30,
        pin: String::new(),
        pin_position: PinPosition::Before,
        seed: None,
        description: String::new(),
        active: false,
        unknown_user: false,
    }
}

fn code(counter: u64) -> String {
    hotp(b"12345678901234567890", counter, Algorithm::Sha1, 6)
}

#[test]
fn a_totp_token_is_made_proven_and_listed() {
    let rig = Rig::new();
    let seeded = Enrolment { seed: Some(SEED.into()), ..enrolment(TokenKind::Totp) };
    let (token, otpauth, codes) = rig.enrolled(seeded);
    assert_eq!((token.serial.as_str(), token.active, codes.len()), ("TOTP0001", false, 0));
    assert!(otpauth.unwrap().contains("secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"));
    let confirm = |code: String| Command::TokenConfirm { serial: "TOTP0001".into(), code };
    assert!(rig.refused(&confirm("000000".into())).contains("clock"));
    let shown = code(100);
    assert!(rig.token(&confirm(format!("{} {}", &shown[..3], &shown[3..]))).active);
    assert!(rig.refused(&confirm(code(101))).contains("active already"));
    let Answer::Tokens { tokens, .. } = rig.answer(&Command::TokenList { user: Some("alice".into()) }) else {
        panic!()
    };
    assert_eq!(tokens.len(), 1);
}

#[test]
fn seeds_are_random_and_as_long_as_the_hash() {
    let rig = Rig::new();
    let secret = |algorithm| {
        let (_, otpauth, _) = rig.enrolled(Enrolment { algorithm, ..enrolment(TokenKind::Hotp) });
        let otpauth = otpauth.unwrap();
        otpauth.split_once("secret=").unwrap().1.split_once('&').unwrap().0.to_owned()
    };
    assert_eq!(secret(Algorithm::Sha1).len(), 32);
    assert_eq!(secret(Algorithm::Sha512).len(), 103);
    assert_ne!(secret(Algorithm::Sha256), secret(Algorithm::Sha256));
}

#[test]
fn recovery_codes_and_simple_passes_need_no_proof() {
    let rig = Rig::new();
    let (token, otpauth, codes) = rig.enrolled(enrolment(TokenKind::RecoveryCodes));
    assert!(token.active && otpauth.is_none());
    assert_eq!((codes.len(), token.codes_left), (10, Some(10)));
    let (token, ..) = rig.enrolled(Enrolment { pin: "secret".into(), ..enrolment(TokenKind::SimplePass) });
    assert!(token.active && token.has_pin);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    let rig = Rig::new();
    let table = [
        (Enrolment { user: "bob".into(), ..enrolment(TokenKind::Totp) }, "no user bob"),
        (Enrolment { user: "a b".into(), unknown_user: true, ..enrolment(TokenKind::Totp) }, "no user name"),
        (Enrolment { digits: 9, ..enrolment(TokenKind::Totp) }, "6 to 8 digits"),
        (Enrolment { period: 0, ..enrolment(TokenKind::Totp) }, "time step"),
        (Enrolment { seed: Some("189!".into()), ..enrolment(TokenKind::Hotp) }, "base32"),
        (Enrolment { seed: Some("GEZDGNBV".into()), ..enrolment(TokenKind::Hotp) }, "16 to 128 bytes"),
        (enrolment(TokenKind::SimplePass), "its PIN"),
        (Enrolment { pin: "x".repeat(300), ..enrolment(TokenKind::Hotp) }, "PIN has"),
        (Enrolment { pin: "123".into(), ..enrolment(TokenKind::SimplePass) }, "at least 4 characters"),
        (Enrolment { pin: "1234\n".into(), ..enrolment(TokenKind::Hotp) }, "at least 4 characters"),
        (Enrolment { description: "a\nb".into(), ..enrolment(TokenKind::Hotp) }, "line breaks"),
    ];
    for (enrolment, sentence) in table {
        let reason = rig.refused(&Command::TokenEnrol(enrolment));
        assert!(reason.contains(sentence), "{reason}");
    }
    assert_eq!(counts(&rig.state, &rig.settings.lockout, 0).unwrap().total, 0);
    rig.enrolled(Enrolment { user: "bob".into(), unknown_user: true, ..enrolment(TokenKind::Totp) });
}

#[test]
fn unlocking_ends_the_users_wait_from_everywhere() {
    let rig = Rig::new();
    rig.enrolled(Enrolment { seed: Some(SEED.into()), active: true, ..enrolment(TokenKind::Hotp) });
    let waits = Throttle { failures: 9, last: 1, until: u64::from(u32::MAX) };
    let places = [("alice", "192.0.2.1"), ("alice", ""), ("bob", "192.0.2.1"), ("carla", "")];
    let slow_down = || {
        let all = |transaction: &Transaction<'_>| {
            places.iter().try_for_each(|(user, source)| transaction.set_throttle(user, source, Some(waits)))
        };
        rig.state.change(all).unwrap();
    };
    let who_waits = || -> Vec<_> {
        let waits = |transaction: &Transaction<'_>, (user, source)| {
            transaction.throttle(user, source).unwrap().is_some()
        };
        rig.state.change(|transaction| Ok(places.map(|place| waits(transaction, place)).to_vec())).unwrap()
    };
    for (unlocked, still_waits) in [
        ("alice", [false, false, true, true]),
        ("HOTP0001", [false, false, true, true]),
        ("bob", [true, true, false, true]),
    ] {
        slow_down();
        let answer = rig.answer(&Command::TokenUnlock { serial_or_user: unlocked.into() });
        let Answer::Tokens { tokens, .. } = answer else { panic!("{unlocked}") };
        assert_eq!(
            (tokens.len(), who_waits()),
            (usize::from(unlocked != "bob"), still_waits.to_vec()),
            "{unlocked}"
        );
    }
}

#[test]
fn resync_unlock_pin_and_remove() {
    let rig = Rig::new();
    rig.enrolled(Enrolment { seed: Some(SEED.into()), active: true, ..enrolment(TokenKind::Hotp) });
    let serial = || "HOTP0001".to_owned();
    let resync =
        |first, second| Command::TokenResync { serial: serial(), first: code(first), second: code(second) };
    assert!(rig.refused(&resync(50, 52)).contains("consecutive"));
    rig.token(&resync(50, 51));
    assert!(rig.refused(&resync(50, 51)).contains("consecutive"), "used codes prove nothing");
    rig.state
        .change(|transaction| {
            let mut token = transaction.token("HOTP0001")?.unwrap();
            token.failcount = 10;
            token.last_failure = Some(3000);
            transaction.put(&token)
        })
        .unwrap();
    assert_eq!(counts(&rig.state, &rig.settings.lockout, 3000).unwrap().locked, 1);
    for serial_or_user in ["HOTP0001", "alice"] {
        let command = Command::TokenUnlock { serial_or_user: serial_or_user.into() };
        let Answer::Tokens { tokens, .. } = rig.answer(&command) else { panic!() };
        assert!(!tokens[0].locked && tokens[0].failcount == 0);
    }
    assert!(rig.token(&Command::TokenSetPin { serial: serial(), pin: "1234".into() }).has_pin);
    assert!(!rig.token(&Command::TokenSetPin { serial: serial(), pin: String::new() }).has_pin);
    assert!(matches!(rig.answer(&Command::TokenRemove { serial: serial() }), Answer::Done));
    assert!(rig.refused(&Command::TokenRemove { serial: serial() }).contains("no token HOTP0001"));
    assert!(rig.refused(&Command::TokenUnlock { serial_or_user: "bob".into() }).contains("bob"));
}

#[test]
fn offline_tokens_are_listed_unlocked_and_removed_with_the_others() {
    let rig = Rig::new();
    let hash = crate::tokens::offline_hash(b"pin123456", 1);
    let token = OfflineToken {
        serial: "OATH1".into(),
        user: "alice".into(),
        realm: String::new(),
        code_alone: false,
        next: 1,
        fetched: 3000,
        failures: Failures { count: 10, last: Some(3000) },
        last_used: None,
        left: 0,
        values: vec![OfflineValue { counter: 1, hash }],
    };
    rig.state.change(|transaction| transaction.replace_offline(&token, "secret-refill-token")).unwrap();
    let list = |user: &str| match rig.answer(&Command::TokenList { user: Some(user.into()) }) {
        Answer::Tokens { tokens, offline } if tokens.is_empty() => offline,
        _ => panic!("another answer"),
    };
    let listed = list("alice").pop().unwrap();
    assert_eq!((listed.logins_left, listed.failcount, listed.locked_until), (1, 10, Some(4800)));
    assert_eq!(listed.expires, 3000 + 30 * 86_400);
    let text = serde_json::to_string(&listed).unwrap();
    assert!(!text.contains("pbkdf2") && !text.contains("secret-refill-token"), "{text}");
    assert!(list("bob").is_empty());
    assert_eq!(offline::counts(&rig.state, &rig.settings, 3000).unwrap().locked, 1);
    for serial_or_user in ["OATH1", "alice"] {
        let command = Command::TokenUnlock { serial_or_user: serial_or_user.into() };
        let Answer::Tokens { offline, .. } = rig.answer(&command) else { panic!() };
        assert!(!offline[0].locked && offline[0].failcount == 0);
    }
    rig.clock.set(3001 + 30 * 86_400);
    assert_eq!(list("alice")[0].logins_left, 0, "too old");
    assert!(matches!(rig.answer(&Command::TokenRemove { serial: "OATH1".into() }), Answer::Done));
    assert!(rig.refused(&Command::TokenRemove { serial: "OATH1".into() }).contains("no token OATH1"));
    assert!(list("alice").is_empty());
}
