//! A host of its own for each test, and what one needs to speak to its daemon.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use cache_daemon::administration::{Algorithm, Answer, Enrolment, PinPosition, TokenKind};
use privacyidea_contract::wire::{Login, Overrides, Reply, Request, Stream, StreamError, Verdict};
use rustix::process::{Pid, Signal, kill_process};

/// The daemon's user on the test's host.
pub(crate) const DAEMON: u32 = 64711;
/// Values of RFC 4226 appendix D, for the seed `12345678901234567890`.
pub(crate) const CODES: [&str; 10] =
    ["755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"];

const SEED: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n_privacyidea:x:64711:64711::/nonexistent:/usr/sbin/nologin\n\
    carla:x:1000:1000:Carla:/home/carla:/bin/sh\nbob:x:1001:1001:Bob:/home/bob:/bin/sh\n";
const GROUPS: &str = "root:x:0:\n_privacyidea:x:64711:\ncarla:x:1000:\nbob:x:1001:\n";

/// The test's directories over the host's. `$PREPARE` is the test's own; the daemon is reached through its mount,
/// because the mounts may cover the directory that it was built in.
const NAMESPACE: &str = r#"
set -e
cd "$ROOT"
mount --bind "$PROGRAM" etc/daemon
mount --bind /dev/null dev/null
for directory in run var/lib var/cache dev etc; do mount --rbind "$directory" "/$directory"; done
eval "$PREPARE"
cd /
unset ROOT PROGRAM PREPARE
exec "$@"
"#;

/// A host in a mount namespace of its own.
pub(crate) fn host() -> TestHost {
    assert!(
        rustix::process::geteuid().is_root(),
        "only root can make a mount namespace: run tests/run as root"
    );
    TestHost::new()
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A host: its directories outlive its daemons.
pub(crate) struct TestHost {
    root: tempfile::TempDir,
    syslog: UnixDatagram,
}

impl TestHost {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        // Peers that are not root pass through it.
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o711)).expect("mode");
        for directory in ["run", "var/lib", "var/cache", "dev", "etc/privacyidea-host/users"] {
            std::fs::create_dir_all(root.path().join(directory)).expect("a directory");
        }
        for (file, content) in [
            ("etc/passwd", USERS),
            ("etc/group", GROUPS),
            ("etc/daemon", ""),
            ("dev/null", ""),
            ("etc/privacyidea-host/users/passwd", "resi:x:20001:20001:Resi:/home/resi:/bin/sh\n"),
            ("etc/privacyidea-host/users/group", "resi:x:20001:\n"),
        ] {
            std::fs::write(root.path().join(file), content).expect("a file");
        }
        let syslog = listening(&root.path().join("dev/log"));
        let host = Self { root, syslog };
        host.write_settings("");
        host
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn auth_socket(&self) -> PathBuf {
        self.path("run/privacyidea-host/auth.sock")
    }

    pub(crate) fn lookup_socket(&self) -> PathBuf {
        self.path("run/privacyidea-host/lookup.sock")
    }

    pub(crate) fn write_settings(&self, text: &str) {
        let path = self.path("etc/privacyidea-host/config.toml");
        std::fs::write(&path, text).expect("settings");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("mode");
    }

    /// A program in the host's namespace; `prepare` is a piece of shell that runs before it, as root.
    pub(crate) fn command(&self, prepare: &str, program: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c", NAMESPACE, "sh"])
            .args(program)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("ROOT", self.root.path())
            .env("PROGRAM", env!("CARGO_BIN_EXE_privacyidea-cached"))
            .env("PREPARE", prepare)
            .stdin(Stdio::null());
        command
    }

    /// A daemon that has said that it is ready.
    pub(crate) fn daemon(&self) -> Daemon {
        self.daemon_after("", &["/etc/daemon"], Stdio::null())
    }

    pub(crate) fn daemon_after(&self, prepare: &str, program: &[&str], stdin: Stdio) -> Daemon {
        let notify = self.path("etc/notify");
        let _ = std::fs::remove_file(&notify);
        let notify = listening(&notify);
        let mut command = self.command(prepare, program);
        command.env("NOTIFY_SOCKET", "/etc/notify").stdin(stdin).stderr(Stdio::piped());
        let daemon = Daemon::new(command.spawn().expect("the daemon starts"), notify);
        daemon.notification("READY=1");
        daemon
    }

    /// Runs the daemon to its end: exit status and standard error.
    pub(crate) fn failing_daemon(&self, prepare: &str) -> (ExitStatus, String) {
        let output = self.command(prepare, &["/etc/daemon"]).output().expect("the daemon starts");
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// A `--once` at the other end of a socket pair.
    pub(crate) fn once(&self, prepare: &str) -> (Stream, Child) {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let child = self
            .command(prepare, &["/etc/daemon", "--once"])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::inherit())
            .spawn()
            .expect("--once starts");
        (Stream::new(ours), child)
    }

    pub(crate) fn connect_auth(&self) -> Stream {
        Stream::connect(&self.auth_socket(), Duration::from_secs(10)).expect("auth.sock")
    }

    pub(crate) fn connect_lookup(&self) -> Stream {
        Stream::connect(&self.lookup_socket(), Duration::from_secs(10)).expect("lookup.sock")
    }

    pub(crate) fn administrate(&self, command: &cache_daemon::administration::Command) -> Answer {
        administrate(&mut self.connect_auth(), command)
    }

    /// An HOTP token with the seed of RFC 4226, ready for use.
    pub(crate) fn enrol(&self, user: &str) -> String {
        match self.administrate(&enrolment(user)) {
            Answer::Enrolled { token, .. } => token.serial,
            Answer::Refused { reason } => panic!("not enrolled: {reason}"),
            _ => panic!("another answer"),
        }
    }

    /// One login over `auth.sock` with one answer.
    pub(crate) fn log_in(&self, user: &str, code: &str) -> Verdict {
        log_in(&mut self.connect_auth(), user, code)
    }

    /// The next message that syslog gets.
    pub(crate) fn syslog_line(&self) -> String {
        let mut message = [0; 4096];
        let length = self.syslog.recv(&mut message).expect("a message to syslog");
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    /// Reads syslog up to a line with `text` in it.
    pub(crate) fn syslog_line_with(&self, text: &str) -> String {
        loop {
            let line = self.syslog_line();
            if line.contains(text) {
                return line;
            }
        }
    }
}

/// A datagram socket that everybody may write to, with a deadline on what is read.
fn listening(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).expect("a socket");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).expect("mode");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    socket
}

/// A running daemon, killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    /// Its standard error, line by line.
    pub(crate) lines: Receiver<String>,
    notify: UnixDatagram,
}

impl Daemon {
    pub(crate) fn new(mut child: Child, notify: UnixDatagram) -> Self {
        let stderr = child.stderr.take().expect("a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, notify }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the daemon runs");
    }

    /// Waits until systemd would have heard `text`.
    pub(crate) fn notification(&self, text: &str) {
        let mut message = [0; 1024];
        loop {
            let length = self.notify.recv(&mut message).unwrap_or_else(|error| {
                panic!("no {text}: {error}; {:?}", self.lines.try_iter().collect::<Vec<_>>())
            });
            if String::from_utf8_lossy(&message[..length]).contains(text) {
                return;
            }
        }
    }

    /// kill -9
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the daemon runs");
        self.child.wait().expect("its end");
    }

    /// Waits for the end, which something else has caused.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().expect("its end")
    }

    /// Waits for a line with `text` in it on standard error.
    pub(crate) fn line_with(&self, text: &str) -> String {
        let deadline = soon();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|error| panic!("no line with {text:?}: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn enrolment(user: &str) -> cache_daemon::administration::Command {
    cache_daemon::administration::Command::TokenEnrol(Enrolment {
        user: user.to_owned(),
        kind: TokenKind::Hotp,
        digits: 6,
        algorithm: Algorithm::Sha1,
        period: 30,
        pin: String::new(),
        pin_position: PinPosition::Before,
        seed: Some(SEED.to_owned()),
        description: "a test's".to_owned(),
        active: true,
        unknown_user: false,
    })
}

pub(crate) fn administrate(stream: &mut Stream, command: &cache_daemon::administration::Command) -> Answer {
    let document = serde_json::to_vec(command).expect("JSON");
    stream.send_request(&Request::Administration(document.into()), soon()).expect("sent");
    receive_document(stream).unwrap_or_else(|_| panic!("another reply than a document"))
}

pub(crate) fn receive_document(stream: &mut Stream) -> Result<Answer, Reply> {
    let mut document = Vec::new();
    loop {
        match stream.receive_reply(soon()).expect("a reply") {
            Reply::Document { last, bytes } => {
                document.extend_from_slice(&bytes);
                if last {
                    return Ok(serde_json::from_slice(&document).expect("JSON"));
                }
            }
            other => return Err(other),
        }
    }
}

pub(crate) fn login(user: &str) -> Login {
    Login {
        user: user.to_owned(),
        uid: None,
        service: "sshd".to_owned(),
        rhost: "192.0.2.7".to_owned(),
        tty: "ssh".to_owned(),
        prompt: None,
        password: None,
        may_ask: true,
        overrides: Overrides::default(),
    }
}

/// Sends the request and answers every question with `code`.
pub(crate) fn log_in(stream: &mut Stream, user: &str, code: &str) -> Verdict {
    stream.send_request(&Request::Login(login(user)), soon()).expect("sent");
    answer(stream, code).expect("a verdict")
}

/// Answers every question with `code` up to the verdict.
pub(crate) fn answer(stream: &mut Stream, code: &str) -> Result<Verdict, StreamError> {
    loop {
        match stream.receive_reply(soon())? {
            Reply::Ask { .. } => stream.send_request(&Request::Answer(code.into()), soon())?,
            Reply::Tell { .. } => {}
            Reply::Verdict(verdict) => return Ok(verdict),
            _ => panic!("a reply that does not belong to a login"),
        }
    }
}

/// Sends a login and waits for the first question; returns its text.
pub(crate) fn begin(stream: &mut Stream, user: &str) -> String {
    stream.send_request(&Request::Login(login(user)), soon()).expect("sent");
    match stream.receive_reply(soon()).expect("a reply") {
        Reply::Ask { text, .. } => text,
        Reply::Verdict(verdict) => panic!("{verdict:?} instead of a question"),
        _ => panic!("another reply"),
    }
}

pub(crate) fn granted(user: &str) -> Verdict {
    Verdict::Granted { user: user.to_owned() }
}

/// Runs `peer` in a thread that is another user for the kernel.
pub(crate) fn as_user<T: Send>(uid: u32, peer: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let id = rustix::process::Uid::from_raw(uid);
                // Of this thread only: the C library's wrapper would change all.
                rustix::thread::set_thread_res_uid(id, id, id).expect("root may");
                peer()
            })
            .join()
            .expect("the peer's own assertions")
    })
}

/// Runs `peer` in a thread that is root with another group, as set-user-ID programs are.
pub(crate) fn as_group<T: Send>(gid: u32, peer: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let id = rustix::process::Gid::from_raw(gid);
                rustix::thread::set_thread_res_gid(id, id, id).expect("root may");
                peer()
            })
            .join()
            .expect("the peer's own assertions")
    })
}

/// A listening socket where systemd would make it.
pub(crate) fn systemds_socket(host: &TestHost) -> UnixListener {
    std::fs::create_dir_all(host.path("run/privacyidea-host")).expect("a directory");
    let listener = UnixListener::bind(host.auth_socket()).expect("a socket");
    std::fs::set_permissions(host.auth_socket(), std::fs::Permissions::from_mode(0o666)).expect("mode");
    listener
}
