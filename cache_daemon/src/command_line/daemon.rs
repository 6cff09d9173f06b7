//! Asking the daemon: over its socket, or, for root when nobody is there, started for one answer.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use privacyidea_contract::paths;
use privacyidea_contract::wire::{Reply, Request, Stream, StreamError};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use zeroize::{Zeroize, Zeroizing};

use super::failure::Failure;
use crate::administration::{Answer, Command};
use crate::directory::LocalFiles;

/// To get a connection; a daemon that is alive accepts at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For the whole answer: reading big resolvers and asking a slow server take their time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// For a `--once` to end after its answer.
const EXIT_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// More than any answer: a million cached users.
const ANSWER_LENGTH_MAX: usize = 512 * 1024 * 1024;

/// Where the daemon is.
pub struct Daemon {
    /// Its socket for administration.
    pub auth_socket: PathBuf,
    /// Its socket for anybody's questions.
    pub lookup_socket: PathBuf,
    /// The program to start when nobody is at the sockets; none: do not start one.
    pub program: Option<PathBuf>,
    /// Whether this process is root's.
    pub is_root: bool,
    /// The host's own users.
    pub local: LocalFiles,
}

/// An answer, and who gave it.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// Not a running daemon, but one started for this answer.
    pub(super) by_once: bool,
}

impl Daemon {
    /// The daemon of this host, as the packages install it.
    #[must_use]
    pub fn of_this_host() -> Self {
        Self {
            auth_socket: paths::AUTH_SOCKET.into(),
            lookup_socket: paths::LOOKUP_SOCKET.into(),
            program: Some(paths::DAEMON.into()),
            is_root: rustix::process::geteuid().is_root(),
            local: LocalFiles::of_this_host(),
        }
    }

    /// Carries `command` out. A refusal by the daemon is a [`Failure::Refused`] with its reason.
    pub(super) fn ask(&self, command: &Command) -> Result<Answer, Failure> {
        Ok(self.ask_whom(command)?.answer)
    }

    /// [`Self::ask`], and who answered.
    pub(super) fn ask_whom(&self, command: &Command) -> Result<Answered, Failure> {
        let request = Request::Administration(document(command)?);
        match self.connect(&self.auth_socket) {
            Ok(mut stream) => Ok(Answered { answer: converse(&mut stream, &request)?, by_once: false }),
            Err(Unconnected::Impostor(sentence)) => Err(Failure::Unreachable(sentence)),
            Err(Unconnected::Nobody(problem)) => {
                Ok(Answered { answer: self.ask_once(&request, &problem)?, by_once: true })
            }
        }
    }

    /// The status, which anybody may ask a running daemon for.
    pub(super) fn status(&self) -> Result<Answered, Failure> {
        if self.is_root {
            return self.ask_whom(&Command::Status);
        }
        match self.connect(&self.lookup_socket) {
            Ok(mut stream) => {
                Ok(Answered { answer: converse(&mut stream, &Request::Status)?, by_once: false })
            }
            Err(Unconnected::Impostor(sentence)) => Err(Failure::Unreachable(sentence)),
            Err(Unconnected::Nobody(problem)) => Err(self.nobody_there(&problem)),
        }
    }

    fn connect(&self, path: &Path) -> Result<Stream, Unconnected> {
        let nobody =
            |error: StreamError| Unconnected::Nobody(format!("{}: {}", path.display(), cause(&error)));
        let stream = Stream::connect(path, CONNECT_TIMEOUT).map_err(nobody)?;
        let peer = stream.peer().map_err(nobody)?;
        // A secret is about to be said.
        if peer.is_daemon() {
            return Ok(stream);
        }
        Err(Unconnected::Impostor(format!(
            "{} is served by process {} of uid {}, which is not the daemon; nothing was told to it. Find out who \
             that is.",
            path.display(),
            peer.pid,
            peer.uid
        )))
    }

    fn nobody_there(&self, problem: &str) -> Failure {
        let advice = if self.is_root {
            "Start it with `systemctl start privacyidea-cached`; its messages are in `journalctl -u privacyidea-cached`."
        } else {
            "Run this as root, which can do without it, or have it started with `systemctl start privacyidea-cached`."
        };
        Failure::Unreachable(format!("The daemon cannot be reached at {problem}. {advice}"))
    }

    fn ask_once(&self, request: &Request, problem: &str) -> Result<Answer, Failure> {
        let Some(program) = self.program.as_deref().filter(|_| self.is_root) else {
            return Err(self.nobody_there(problem));
        };
        let failed = |error: std::io::Error| {
            Failure::Unreachable(format!(
                "The daemon cannot be reached at {problem}, and {} cannot be started instead: {error}. Is the package \
                 privacyidea-cached installed?",
                program.display()
            ))
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut child = Process::new(program)
            .arg("--once")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(failed)?;
        let mut stream = Stream::new(ours);
        let answer = converse(&mut stream, request);
        drop(stream);
        let ended = wait_for_end(&mut child);
        answer.map_err(|failure| match failure {
            Failure::Unreachable(sentence) => Failure::Unreachable(format!(
                "{sentence} ({} --once {ended}; `journalctl -t privacyidea-cached` may say why, and \
                 `privacyidea-host check-config` whether it is the configuration)",
                program.display()
            )),
            other => other,
        })
    }
}

enum Unconnected {
    /// Nothing listens; the sentence has the path and the cause.
    Nobody(String),
    /// Somebody else listens.
    Impostor(String),
}

fn cause(error: &StreamError) -> String {
    match error {
        StreamError::Socket(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// The command as JSON, in a buffer that is wiped and never grows (growing would leave copies).
fn document(command: &Command) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let mut buffer = Zeroizing::new(Vec::with_capacity(16 * 1024));
    serde_json::to_writer(&mut *buffer, command)?;
    Ok(buffer)
}

/// Says `request`, collects the answer.
fn converse(stream: &mut Stream, request: &Request) -> Result<Answer, Failure> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let failed = |error: StreamError| {
        Failure::Unreachable(format!("The daemon was reached, but did not answer: {error}."))
    };
    stream.send_request(request, deadline).map_err(failed)?;
    let mut answer = Zeroizing::new(Vec::new());
    loop {
        match stream.receive_reply(deadline).map_err(failed)? {
            Reply::Document { last, bytes } if answer.len() + bytes.len() <= ANSWER_LENGTH_MAX => {
                append(&mut answer, &bytes);
                if last {
                    break;
                }
            }
            Reply::NotAllowed => {
                return Err(Failure::Refused("Only root may do this: run it with sudo.".to_owned()));
            }
            Reply::Unavailable => {
                let sentence =
                    "The daemon cannot do this now; its messages are in `journalctl -u privacyidea-cached`.";
                return Err(Failure::Refused(sentence.to_owned()));
            }
            _ => return Err(other_version()),
        }
    }
    match serde_json::from_slice(&answer) {
        Ok(Answer::Refused { reason }) => Err(Failure::Refused(reason)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(other_version()),
    }
}

/// Grows by hand: what is left behind is wiped, since seeds pass through here.
fn append(buffer: &mut Zeroizing<Vec<u8>>, bytes: &[u8]) {
    if buffer.capacity() - buffer.len() < bytes.len() {
        let mut grown = Vec::with_capacity(2 * buffer.capacity() + bytes.len());
        grown.extend_from_slice(buffer);
        std::mem::swap(&mut **buffer, &mut grown);
        grown.zeroize();
    }
    buffer.extend_from_slice(bytes);
}

/// The daemon answered something else than what was asked for.
pub(super) fn other_version() -> Failure {
    Failure::Unreachable(
        "The daemon's answer cannot be understood: it is of another version. Restart it with `systemctl restart \
         privacyidea-cached`."
            .to_owned(),
    )
}

/// Waits for the child, kills it if it does not end by itself; says how it ended.
fn wait_for_end(child: &mut Child) -> String {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(pidfd) = pidfd {
        let mut descriptors = [PollFd::new(&pidfd, PollFlags::IN)];
        if matches!(rustix::event::poll(&mut descriptors, Some(&EXIT_TIMEOUT)), Ok(0)) {
            let _ = child.kill();
        }
    }
    child.wait().map_or_else(|error| error.to_string(), |status| format!("ended with {status}"))
}
