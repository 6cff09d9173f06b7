//! What the service writes: decisions about logins to authpriv and the audit table, its own affairs to the journal.

use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::authentication::{Event, Journal};
use crate::store::State;

/// Where every syslog daemon, journald included, takes messages.
pub(super) const SYSLOG_SOCKET: &str = "/dev/log";

/// The longest line in bytes; what is longer is cut.
const LINE_LENGTH_MAX: usize = 2000;
const TAG: &str = "privacyidea-cached";
const DAEMON: u8 = 3 << 3;
const AUTHPRIV: u8 = 10 << 3;

/// How bad it is, in syslog's numbers (RFC 5424 §6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Something does not work.
    Error = 3,
    /// Something may soon not work.
    Warning = 4,
    /// Worth a look.
    Notice = 5,
    /// As it should be.
    Info = 6,
}

/// The service's own affairs: started, reloaded, a map not published. Never a secret.
pub(super) struct Log(Sink);

enum Sink {
    /// Lines, with a `<N>` in front if the journal reads them (sd-daemon(3)).
    StandardError {
        prefixed: bool,
    },
    Syslog(Syslog),
}

impl Log {
    /// To standard error; priorities are marked if that is the journal.
    #[must_use]
    pub(super) fn to_standard_error() -> Self {
        Self(Sink::StandardError { prefixed: standard_error_is_the_journal() })
    }

    /// To syslog: `--once` must not write to the standard error of the program that it works for.
    #[must_use]
    pub(super) fn to_syslog(socket: &Path) -> Self {
        Self(Sink::Syslog(Syslog::new(socket)))
    }

    /// Writes one line.
    pub(super) fn write(&self, severity: Severity, text: &str) {
        match &self.0 {
            Sink::StandardError { prefixed: true } => {
                eprintln!("<{}>{}", severity as u8, printable(text, |_| false));
            }
            Sink::StandardError { prefixed: false } => eprintln!("{TAG}: {}", printable(text, |_| false)),
            Sink::Syslog(syslog) => syslog.send(DAEMON, severity, text),
        }
    }

    /// Something does not work.
    pub(super) fn error(&self, text: &str) {
        self.write(Severity::Error, text);
    }

    /// As it should be.
    pub(super) fn info(&self, text: &str) {
        self.write(Severity::Info, text);
    }
}

/// Decisions: one line in authpriv and one row in the audit table each.
pub(super) struct AuthenticationJournal {
    syslog: Syslog,
    state: Arc<State>,
    log: Arc<Log>,
}

impl AuthenticationJournal {
    /// Writes to the syslog daemon at `socket` and to `state`.
    #[must_use]
    pub(super) fn new(socket: &Path, state: Arc<State>, log: Arc<Log>) -> Self {
        Self { syslog: Syslog::new(socket), state, log }
    }
}

impl Journal for AuthenticationJournal {
    fn record(&self, event: &Event) {
        let event = without_forgeries(event);
        self.syslog.send(AUTHPRIV, severity(&event), &event.to_string());
        if let Err(error) = self.state.audit(&event) {
            self.log.error(&format!("an entry is missing in the audit table: {error}"));
        }
    }
}

/// Numbers of the events that say what is broken: the server from 30 on, this host from 40 on.
const FAULTS: std::ops::Range<u16> = 30..50;
/// A PAM line that opens a door, or that cannot be followed.
const LINES: std::ops::RangeInclusive<u16> = 62..=63;

fn severity(event: &Event) -> Severity {
    if event.granted {
        Severity::Info
    } else if FAULTS.contains(&event.number) || LINES.contains(&event.number) {
        Severity::Error
    } else {
        Severity::Notice
    }
}

/// The event with texts from outside made harmless: no control characters, and no blanks in what stands behind `name=`,
/// so that nobody writes a second `rhost=` into our line.
fn without_forgeries(event: &Event) -> Event {
    let word = |text: &String| printable(text, char::is_whitespace);
    Event {
        user: event.user.as_ref().map(word),
        service: word(&event.service),
        rhost: word(&event.rhost),
        tty: word(&event.tty),
        text: printable(&event.text, |_| false),
        ..event.clone()
    }
}

/// `text` with everything escaped that a terminal or a log reader could take for more than a character: controls, line
/// ends, changes of the writing direction, and what `also` says. Cut at [`LINE_LENGTH_MAX`].
fn printable(text: &str, also: impl Fn(char) -> bool) -> String {
    let mut line = String::with_capacity(text.len().min(LINE_LENGTH_MAX));
    for c in text.chars() {
        if line.len() >= LINE_LENGTH_MAX {
            line.push('…');
            break;
        }
        let is_direction =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || is_direction || also(c) {
            let _ = write!(line, "{}", c.escape_unicode());
        } else {
            line.push(c);
        }
    }
    line
}

/// A connection to the syslog daemon that is made anew when the daemon was restarted.
struct Syslog {
    path: PathBuf,
    socket: Mutex<Option<UnixDatagram>>,
}

impl Syslog {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), socket: Mutex::default() }
    }

    /// Sends the message; to standard error if there is no syslog daemon. The time stamp is left to the reader of the
    /// socket, which knows the host's time zone.
    fn send(&self, facility: u8, severity: Severity, text: &str) {
        let text = printable(text, |_| false);
        let priority = facility | severity as u8;
        let message = format!("<{priority}>{TAG}[{}]: {text}", std::process::id());
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = socket.as_ref().is_some_and(|socket| socket.send(message.as_bytes()).is_ok());
        if sent {
            return;
        }
        *socket = self.connect().ok();
        let sent = socket.as_ref().is_some_and(|socket| socket.send(message.as_bytes()).is_ok());
        if !sent {
            eprintln!("{TAG}: {text}");
        }
    }

    fn connect(&self) -> std::io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(&self.path)?;
        // A syslog daemon that hangs must not hang logins.
        socket.set_write_timeout(Some(Duration::from_millis(200)))?;
        Ok(socket)
    }
}

/// Whether JOURNAL_STREAM names what standard error is (systemd.exec(5)).
fn standard_error_is_the_journal() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "systemd's own variable, and only the shape of log lines is at stake"
    )]
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stat) = rustix::fs::fstat(std::io::stderr().as_fd()) else { return false };
    stream == format!("{}:{}", stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event {
            number: 12,
            time: 0,
            user: Some("carla".to_owned()),
            service: "sshd".to_owned(),
            rhost: "192.0.2.7\n<80>evil tty=console".to_owned(),
            tty: "\u{202e}ssh".to_owned(),
            text: "refused".to_owned(),
            granted: false,
        }
    }

    #[test]
    fn texts_from_outside_cannot_forge_a_line_or_a_field() {
        let line = without_forgeries(&event()).to_string();
        assert!(!line.contains('\n') && !line.contains('\u{202e}'), "{line}");
        assert!(!line.contains(" tty=console"), "{line}");
        assert!(line.contains(r"rhost=192.0.2.7\u{a}<80>evil\u{20}tty=console"), "{line}");
    }

    #[test]
    fn a_line_has_an_end() {
        let long = printable(&"ü".repeat(100_000), |_| false);
        assert!(long.len() < LINE_LENGTH_MAX + 8 && long.ends_with('…'));
    }

    #[test]
    fn syslog_gets_facility_severity_and_tag_and_is_found_again_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let syslog = Syslog::new(&path);
        for round in ["first", "second"] {
            let receiver = UnixDatagram::bind(&path).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            syslog.send(AUTHPRIV, Severity::Notice, round);
            let mut buffer = [0; 200];
            let length = receiver.recv(&mut buffer).unwrap();
            let expected = format!("<85>privacyidea-cached[{}]: {round}", std::process::id());
            assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap(), expected);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
