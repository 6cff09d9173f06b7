//! A host of its own for one test: a daemon that answers what the test says, files in a temporary directory, a person
//! with prepared answers.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cache_daemon::administration::{Algorithm, Answer, Command, PinPosition, TokenKind, TokenRecord};
use cache_daemon::command_line::{self, Daemon, HostFiles, Person, Session};
use cache_daemon::directory::LocalFiles;
use cache_daemon::service::clock::FixedClock;
use jiff::tz::TimeZone;
use privacyidea_contract::wire::{Reply, Request, Stream};
use tempfile::TempDir;
use zeroize::Zeroizing;

/// The time of day on such a host.
pub(crate) const NOW: u64 = 1_700_000_000;

/// What the fake daemon does with a connection.
type Behaviour = Box<dyn Fn(Command) -> Option<Vec<Reply>> + Send>;

pub(crate) struct Host {
    directory: TempDir,
    /// Whether somebody is at the terminal.
    pub(crate) is_terminal: bool,
    /// What they type, in this order; then Ctrl-D.
    pub(crate) answers: Vec<String>,
    /// What standard input has, in this order.
    pub(crate) lines: Vec<String>,
    /// What root starts when no daemon is there.
    pub(crate) once: Option<PathBuf>,
    /// What `test-login` runs.
    pub(crate) pam_transaction: PathBuf,
}

/// How a command ended.
pub(crate) struct Done {
    pub(crate) status: u8,
    pub(crate) output: String,
    pub(crate) errors: String,
    /// Prompts, and whether the answer could be seen.
    pub(crate) asked: Vec<(String, bool)>,
}

impl Host {
    /// A daemon that answers each command by `answer`.
    pub(crate) fn new(answer: impl Fn(Command) -> Answer + Send + 'static) -> Self {
        Self::behaving(Box::new(move |command| {
            let text = serde_json::to_vec(&answer(command)).unwrap();
            // In two pieces, as long answers come.
            let (first, second) = text.split_at(text.len() / 2);
            let piece = |bytes: &[u8], last| Reply::Document { last, bytes: Zeroizing::new(bytes.to_vec()) };
            Some(vec![piece(first, false), piece(second, true)])
        }))
    }

    pub(crate) fn not_allowed() -> Self {
        Self::behaving(Box::new(|_| Some(vec![Reply::NotAllowed])))
    }

    pub(crate) fn rubbish() -> Self {
        Self::behaving(Box::new(|_| {
            Some(vec![Reply::Document { last: true, bytes: Zeroizing::new(b"{\"answer\":\"42\"}".to_vec()) }])
        }))
    }

    pub(crate) fn hangs_up() -> Self {
        Self::behaving(Box::new(|_| None))
    }

    pub(crate) fn without_daemon() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["pam.d", "users"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("etc-passwd"), "root:x:0:0:root:/root:/bin/bash\n").unwrap();
        std::fs::write(path("etc-group"), "root:x:0:\n").unwrap();
        let [passwd, group] = ["users/passwd", "users/group"].map(|name| path(name).display().to_string());
        let settings = format!(
            "[[resolver]]\nname = \"files\"\ntype = \"files\"\npasswd = \"{passwd}\"\ngroup = \"{group}\"\n"
        );
        std::fs::write(path("config.toml"), settings).unwrap();
        let pam_transaction = path("pam-transaction");
        Self {
            directory,
            is_terminal: false,
            answers: Vec::new(),
            lines: Vec::new(),
            once: None,
            pam_transaction,
        }
    }

    fn behaving(behaviour: Behaviour) -> Self {
        let host = Self::without_daemon();
        let listener = UnixListener::bind(host.path("auth.sock")).unwrap();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut stream = Stream::new(connection.unwrap());
                let deadline = Instant::now() + Duration::from_secs(10);
                let Ok(Request::Administration(text)) = stream.receive_request(deadline) else { continue };
                for reply in behaviour(serde_json::from_slice(&text).unwrap()).unwrap_or_default() {
                    stream.send_reply(&reply, deadline).unwrap();
                }
            }
        });
        host
    }

    /// An executable file with this text.
    pub(crate) fn script(&self, text: &str) -> PathBuf {
        let path = self.path("script");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A file in pam.d.
    pub(crate) fn pam_service(&self, name: &str) {
        std::fs::write(self.path("pam.d").join(name), "auth required pam_privacyidea.so\n").unwrap();
    }

    /// The users file's text.
    pub(crate) fn users_file(&self) -> String {
        std::fs::read_to_string(self.path("users/passwd")).unwrap()
    }

    /// Runs a command line.
    pub(crate) fn run(&mut self, arguments: &[&str]) -> Done {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut person = Prepared {
            is_present: self.is_terminal,
            answers: self.answers.clone().into(),
            lines: self.lines.clone().into(),
            asked: Vec::new(),
            waits: 3,
        };
        let mut session = Session {
            daemon: Daemon {
                auth_socket: self.path("auth.sock"),
                lookup_socket: self.path("lookup.sock"),
                program: self.once.clone(),
                is_root: true,
                local: LocalFiles::new(self.path("etc-passwd"), self.path("etc-group")),
            },
            files: HostFiles {
                settings: self.path("config.toml"),
                pam_directory: self.path("pam.d"),
                nsswitch: self.path("nsswitch.conf"),
                pam_transaction: self.pam_transaction.clone(),
            },
            output: &mut output,
            errors: &mut errors,
            output_is_terminal: self.is_terminal,
            coloured: false,
            person: &mut person,
            clock: &FixedClock::at(NOW),
            time_zone: TimeZone::UTC,
        };
        let arguments = std::iter::once("privacyidea-host").chain(arguments.iter().copied());
        let status = command_line::run(arguments.map(Into::into), &mut session);
        Done {
            status,
            output: String::from_utf8(output).unwrap(),
            errors: String::from_utf8(errors).unwrap(),
            asked: person.asked,
        }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }
}

struct Prepared {
    is_present: bool,
    answers: std::collections::VecDeque<String>,
    lines: std::collections::VecDeque<String>,
    asked: Vec<(String, bool)>,
    /// Until the reader of the answer goes.
    waits: u32,
}

impl Person for Prepared {
    fn is_present(&self) -> bool {
        self.is_present
    }

    fn ask(&mut self, prompt: &str, echo: bool) -> io::Result<Option<Zeroizing<String>>> {
        self.asked.push((prompt.to_owned(), echo));
        Ok(self.answers.pop_front().map(Zeroizing::new))
    }

    fn line(&mut self) -> io::Result<Option<Zeroizing<String>>> {
        Ok(self.lines.pop_front().map(Zeroizing::new))
    }

    fn wait(&mut self, _time: Duration) -> bool {
        self.waits = self.waits.saturating_sub(1);
        self.waits > 0
    }
}

/// Alice's new token.
pub(crate) fn token() -> TokenRecord {
    TokenRecord {
        serial: "TOTP0001".to_owned(),
        user: "alice".to_owned(),
        kind: TokenKind::Totp,
        description: String::new(),
        digits: 6,
        algorithm: Some(Algorithm::Sha1),
        period: 30,
        has_pin: false,
        pin_position: PinPosition::Before,
        active: false,
        failcount: 0,
        locked: false,
        locked_until: None,
        codes_left: None,
        enrolled: NOW,
        last_used: None,
    }
}

pub(crate) fn enrolled() -> Answer {
    let otpauth = "otpauth://totp/host:alice?secret=GEZDGNBVGY3TQOJQ&issuer=host".to_owned();
    Answer::Enrolled { token: token(), otpauth: Some(otpauth), codes: Vec::new() }
}

pub(crate) fn confirmed() -> Answer {
    Answer::Token { token: TokenRecord { active: true, has_pin: true, ..token() } }
}

pub(crate) fn refusal(reason: &str) -> Answer {
    Answer::Refused { reason: reason.to_owned() }
}
