//! A code lets in once: with several processes at the same instant, and with a disk that is full.
//!
//! The other processes are this test binary again; what they are told stands behind a `--skip`, which libtest accepts and
//! which skips nothing.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cache_daemon::administration::{Algorithm, Answer, Enrolment, PinPosition, TokenKind, tokens};
use cache_daemon::authentication::{Conversation, ConversationEnded, Event, Host, Journal, run};
use cache_daemon::directory::{Account, Accounts};
use cache_daemon::service::clock::FixedClock;
use cache_daemon::settings::Settings;
use cache_daemon::store::State;
use cache_daemon::tokens::hotp;
use privacyidea_contract::Secret;
use privacyidea_contract::wire::{Login, Overrides, Verdict};

const NOW: u64 = 1_800_000_000;
const SEED: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

fn code(counter: u64) -> String {
    hotp(b"12345678901234567890", counter, Algorithm::Sha1, 6)
}

struct Everybody;

impl Accounts for Everybody {
    fn account(&self, _name: &str) -> Result<Account, String> {
        Ok(Account::Local { uid: 1000 })
    }
}

struct Nowhere;

impl Journal for Nowhere {
    fn record(&self, _event: &Event) {}
}

struct Types(String);

impl Conversation for Types {
    fn ask(&mut self, _text: &str, _echo: bool) -> Result<Secret, ConversationEnded> {
        Ok(Secret::from(self.0.as_str()))
    }

    fn tell(&mut self, _text: &str, _error: bool) -> Result<(), ConversationEnded> {
        Ok(())
    }

    fn pause(&mut self, _time: std::time::Duration) -> Result<(), ConversationEnded> {
        Ok(())
    }

    fn export(&mut self, _name: &str, _value: &str) -> Result<(), ConversationEnded> {
        Ok(())
    }
}

fn enrol(state: &State) {
    let enrolment = Enrolment {
        user: "alice".into(),
        kind: TokenKind::Hotp,
        digits: 6,
        algorithm: Algorithm::Sha1,
        period: 0,
        pin: String::new(),
        pin_position: PinPosition::Before,
        seed: Some(SEED.into()),
        description: String::new(),
        active: true,
        unknown_user: false,
    };
    let command = cache_daemon::administration::Command::TokenEnrol(enrolment);
    let answer = tokens::execute(&command, state, &Settings::default(), &Everybody, &FixedClock::at(NOW));
    assert!(matches!(answer, Answer::Enrolled { .. }));
}

/// A login from an address of its own, so that the throttle does not play a part.
fn log_in(state: &State, typed: String, rhost: &str) -> Verdict {
    let login = Login {
        user: "alice".into(),
        uid: Some(1000),
        service: "sshd".into(),
        rhost: rhost.into(),
        tty: "ssh".into(),
        prompt: None,
        password: None,
        may_ask: true,
        overrides: Overrides::default(),
    };
    let host = Host {
        settings: &Settings::default(),
        state,
        accounts: &Everybody,
        server: None,
        line_server: None,
        clock: &FixedClock::at(NOW),
        refills: None,
        journal: &Nowhere,
        trusted_terminal: true,
    };
    run(&login, &host, &mut Types(typed))
}

fn told(mark: &str) -> Option<PathBuf> {
    std::env::args().find_map(|argument| argument.strip_prefix(mark).map(PathBuf::from))
}

fn this_test_binary(test: &str, mark: &str, path: &Path) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    [&program.to_string_lossy(), test, "--exact", "--nocapture"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("{mark}{}", path.display())])
        .collect()
}

const COMPETITOR: &str = "--skip=competitor:";

/// Half of [`of_several_processes_with_one_code_one_lets_in`]: tries the code of each counter that it is told.
#[test]
fn competitor() {
    let Some(path) = told(COMPETITOR) else { return };
    let state = State::open(&path).unwrap();
    println!("\ncompetitor: ready");
    for (round, line) in std::io::stdin().lines().enumerate() {
        let counter = line.unwrap().parse().unwrap();
        let rhost = format!("192.0.2.{}.{round}", std::process::id());
        println!("competitor: {:?}", log_in(&state, code(counter), &rhost));
    }
}

struct Competitor {
    process: Child,
    orders: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Competitor {
    fn start(path: &Path) -> Self {
        let line = this_test_binary("competitor", COMPETITOR, path);
        let mut process = Command::new(&line[0])
            .args(&line[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, says) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut competitor = Self { process, orders, says: BufReader::new(says) };
        assert_eq!(competitor.said(), "ready");
        competitor
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "it has died");
            if let Some(said) = line.strip_prefix("competitor: ") {
                return said.trim_end().to_owned();
            }
        }
    }
}

#[test]
fn of_several_processes_with_one_code_one_lets_in() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    enrol(&State::open(&path).unwrap());
    let mut competitors: Vec<_> = (0..3).map(|_| Competitor::start(&path)).collect();
    for counter in 0..30_u64 {
        for competitor in &mut competitors {
            writeln!(competitor.orders, "{counter}").unwrap();
        }
        let mut said: Vec<_> = competitors.iter_mut().map(Competitor::said).collect();
        said.sort();
        assert_eq!(said, ["Granted { user: \"alice\" }", "Refused", "Refused"], "counter {counter}");
    }
    for competitor in competitors {
        drop(competitor.orders);
        let mut process = competitor.process;
        assert!(process.wait().unwrap().success());
    }
}

const SMALL_DISK: &str = "--skip=small-disk:";

/// Half of [`a_full_disk_costs_a_retry_and_lets_nobody_in_twice`], with a file system of 512 KiB at the path it is told.
#[test]
fn on_a_small_disk() {
    let Some(disk) = told(SMALL_DISK) else { return };
    let path = disk.join("state.db");
    let state = State::open(&path).unwrap();
    enrol(&state);
    assert!(matches!(log_in(&state, code(0), "192.0.2.1"), Verdict::Granted { .. }));
    let filler = disk.join("filler");
    fill(&filler);

    // What is left of the write-ahead log's last block may still take some.
    let mut counter = 1;
    while let Verdict::Granted { .. } = log_in(&state, code(counter), "192.0.2.1") {
        let again = log_in(&state, code(counter), "192.0.2.2");
        assert!(matches!(again, Verdict::Refused | Verdict::Failed), "{again:?}");
        counter += 1;
        assert!(counter < 100, "the disk is not full");
    }
    assert_eq!(log_in(&state, code(counter), "192.0.2.1"), Verdict::Failed);
    assert_eq!(
        log_in(&state, "000000".into(), "192.0.2.1"),
        Verdict::Failed,
        "nor is a guess answered uncounted"
    );

    std::fs::remove_file(&filler).unwrap();
    let reopened = State::open(&path).unwrap();
    for used in 0..counter {
        let again = log_in(&reopened, code(used), &format!("198.51.100.{used}"));
        assert_eq!(again, Verdict::Refused, "counter {used}");
        // The failures are not the subject here.
        if used % 5 == 4 {
            unlock(&reopened);
        }
    }
    unlock(&reopened);
    let retry = log_in(&state, code(counter), "192.0.2.1");
    assert!(matches!(retry, Verdict::Granted { .. }), "the code of the refusal is still good: {retry:?}");
    assert_eq!(log_in(&reopened, code(counter), "192.0.2.3"), Verdict::Refused);
    println!("\nsmall disk: done at counter {counter}");
}

fn unlock(state: &State) {
    let command = cache_daemon::administration::Command::TokenUnlock { serial_or_user: "alice".into() };
    let answer = tokens::execute(&command, state, &Settings::default(), &Everybody, &FixedClock::at(NOW));
    assert!(matches!(answer, Answer::Tokens { .. }));
}

/// Takes all the space there is.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    for size in [4096, 1] {
        let written = std::iter::repeat_with(|| file.write_all(&vec![b'x'; size])).find_map(Result::err);
        assert_eq!(written.unwrap().kind(), ErrorKind::StorageFull);
    }
}

#[test]
fn a_full_disk_costs_a_retry_and_lets_nobody_in_twice() {
    let directory = tempfile::tempdir().unwrap();
    // A user may mount in a namespace of its own, where the kernel allows that.
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = "mount -t tmpfs -o size=512k none \"$0\" || exit 77; exec \"$@\"";
    let output = command
        .args(["--mount", "sh", "-c", script])
        .arg(directory.path())
        .args(this_test_binary("on_a_small_disk", SMALL_DISK, directory.path()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    if !rustix::process::geteuid().is_root() && !output.status.success() && said.is_empty() {
        eprintln!("skipped: no namespace to mount in: {complained}");
        return;
    }
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("small disk: done"), "{said}{complained}");
}
