//! With a real privacyIDEA that comes and goes.

use cache_daemon::server::{
    Accepted, Answer as Said, Check, Client, Refill, RefillToken, Refilled, Server, Step,
};
use cache_daemon::settings::Settings;

use super::*;
use crate::real::Real;

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
    let refill_token = RefillToken::new(basis.refill_token.to_string());
    let refill = Refill { serial: "OFFLINE0", refill_token: &refill_token, password: &password };
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
    state
        .change(|transaction| transaction.replace_offline(&token, offline[0].refill_token.expose()))
        .unwrap();
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

/// What became of a daemon that was to die in a login or in the refill after it.
fn has_died(daemon: &Daemon) -> bool {
    loop {
        match daemon.lines.recv_timeout(std::time::Duration::from_secs(30)) {
            Ok(line) if line.contains("offline token OFFLINE0: ") => return false,
            Ok(_) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return true,
            Err(timeout) => panic!("neither dead nor done: {timeout}"),
        }
    }
}

/// The daemon dies at each write of a refill: before the server is asked, and after it has changed the refill token. The
/// value that was used stays so, and the next one lets in.
#[test]
fn a_daemon_that_dies_at_any_step_of_a_refill_leaves_values_and_revives_none() {
    let (real, _alone) = Real::alone();
    let laptop = Connected::new(real, "offline", "[offline]\nenabled = true\n");
    let (mut daemon, yes) = (laptop.host.daemon(), granted("offline"));
    let mut deaths = 0;
    for number in 1.. {
        assert_eq!(laptop.log_in(laptop.counter()), yes, "at the server, which hands out a batch");
        let counter = laptop.counter() - 20;
        let mut stream = laptop.host.connect_auth();
        begin(&mut stream, "offline");
        let mut strace = kill_at(&daemon, Some("refiller"), "pwrite64", number);
        let code = format!("{}{}", real.pin("offline"), laptop.code(counter));
        stream.send_request(&Request::Answer(code.as_str().into()), soon()).unwrap();
        // If the daemon is quicker to die than to say it, the value is used all the same.
        assert!(answer(&mut stream, &code).map_or(true, |verdict| verdict == yes));
        let died = has_died(&daemon);
        daemon.kill();
        strace.wait().unwrap();
        daemon = laptop.host.daemon();
        assert_eq!(laptop.log_in(counter), Verdict::Refused, "write {number}");
        assert_eq!(laptop.log_in(counter + 1), yes, "write {number}: the next one");
        assert!(!has_died(&daemon), "the refill of the next one");
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 2, "died {deaths} times");
}
